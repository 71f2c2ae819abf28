"""Every file of conf/attention, as the model receives it."""

from pathlib import Path

import pytest
import torch
from hydra.utils import instantiate

import forecast.attention
from forecast.cli.compose import compose_config

CONF = Path(__file__).parents[3] / "conf"
SLOTS = ("encoder", "decoder", "cross")
CLASSES = {
    "full": ("FullAttention", "causal"),
    "probsparse": ("ProbSparseAttention", "causal"),
    "linear": ("LinearAttention", "causal"),
    "nystrom": ("NystromAttention", "self"),
    "fastformer": ("FastformerAttention", "causal"),
    "gated_delta": ("GatedDeltaAttention", "causal"),
    "none": ("NoneAttention", "causal"),
    "uniform": ("UniformAttention", "causal"),
}
KNOBS = {"factor": 3, "sampling": "per_query", "num_landmarks": 7, "feature_map": "taylor"}


def test_a_file_for_every_kind():
    assert {path.stem for path in (CONF / "attention").glob("*.yaml")} == set(CLASSES)


@pytest.mark.parametrize("name", CLASSES)
def test_three_slots(name):
    conf = compose_config(f"attention={name}", *(f"{key}={value}" for key, value in KNOBS.items()))
    slots = conf.model.attention
    assert slots.name == name
    class_name, decoder_role = CLASSES[name]
    made = {slot: instantiate(slots[slot])(d_model=24, n_heads=4) for slot in SLOTS}
    assert {type(made["encoder"]), type(made["decoder"])} == {getattr(forecast.attention, class_name)}
    assert type(made["cross"]) is forecast.attention.FullAttention
    assert [layer.role for layer in made.values()] == ["self", decoder_role, "cross"]
    for knob, value in KNOBS.items():
        for slot in ("encoder", "decoder"):
            assert getattr(made[slot], knob, value) == value
    x = torch.randn(2, 11, 24)
    assert all(layer(x, x).shape == x.shape for layer in made.values())


@pytest.mark.parametrize(
    ("slot", "name"), [(slot, path.stem) for slot in SLOTS for path in sorted((CONF / slot).glob("*.yaml"))]
)
def test_a_slot_of_another_type(slot, name):
    """The other slots stay, no option of the replaced type is left, and the name says which slot differs."""
    usual = compose_config("attention=fastformer").model.attention
    mixed = compose_config("attention=fastformer", f"{slot}={name}").model.attention
    alone = compose_config(
        f"attention={name}", f"cross={name if slot == 'cross' else 'full'}"
    ).model.attention
    assert mixed[slot] == alone[slot]
    assert all(mixed[other] == usual[other] for other in SLOTS if other != slot)
    is_usual = name == ("full" if slot == "cross" else "fastformer")
    assert mixed.name == ("fastformer" if is_usual else f"fastformer-{slot}-{name}")


def test_every_type_has_its_slots():
    assert {path.stem for path in (CONF / "encoder").glob("*.yaml")} == set(CLASSES)
    assert {path.stem for path in (CONF / "decoder").glob("*.yaml")} == set(CLASSES)
    crossing = {n for n, (kind, _) in CLASSES.items() if "cross" in getattr(forecast.attention, kind).roles}
    assert {path.stem for path in (CONF / "cross").glob("*.yaml")} == crossing
