"""Every file of conf/attention, as the model receives it."""

from pathlib import Path

import pytest
import torch
from hydra.utils import instantiate

from forecast.attention import FullAttention
from forecast.cli.compose import compose_command, compose_config
from forecast.training.create_model import roles_of_slots
from tests.support.models import ATTENTION_TYPES

CONF = Path(__file__).parents[3] / "conf"
SLOTS = ("encoder", "decoder", "cross")
KNOBS = {
    "factor": 3,
    "sampling": "per_query",
    "num_landmarks": 7,
    "attention_window": 5,
    "ranking": "norm",
    "lazy": "sum",
    "feature_map": "taylor",
}


def test_a_type_of_a_users_own_fills_each_slot_it_can_serve(tmp_path, monkeypatch):
    """One file that names a class and its options is an option of every group of attention."""
    (tmp_path / "attention").mkdir()
    target = "forecast.attention.NystromAttention"
    (tmp_path / "attention" / "mine.yaml").write_text(f"_target_: {target}\npinv_iterations: 2\n")
    monkeypatch.setenv("FORECAST_CONF", str(tmp_path))
    slots = compose_command("train", ["attention=mine", "cross=mine", "variables=mine"]).model.attention
    expected = {"_target_": target, "pinv_iterations": 2, "_partial_": True}
    assert all(slots[slot] == expected for slot in SLOTS)
    assert slots.variables.encoder == expected
    assert slots.name == "mine-cross-mine"


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTENTION_TYPES)
def test_three_slots(name):
    conf = compose_config(f"attention={name}", *(f"{key}={value}" for key, value in KNOBS.items()))
    slots = conf.model.attention
    assert slots.name == name
    attention_type = ATTENTION_TYPES[name]
    decoder_role = "causal" if "causal" in attention_type.roles else "self"
    roles = roles_of_slots(conf.model)["attention"]
    made = {slot: instantiate(slots[slot], **roles[slot])(d_model=24, n_heads=4) for slot in SLOTS}
    assert {type(made["encoder"]), type(made["decoder"])} == {attention_type}
    assert type(made["cross"]) is FullAttention
    assert [layer.role for layer in made.values()] == ["self", decoder_role, "cross"]
    for knob, value in KNOBS.items():
        for slot in ("encoder", "decoder"):
            assert getattr(made[slot], knob, value) == value
    x = torch.randn(2, 11, 24)
    assert all(layer(x, x).shape == x.shape for layer in made.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("slot", "name"),
    [
        ("encoder", "linear"),
        ("encoder", "fastformer"),
        ("decoder", "probsparse"),
        ("cross", "full"),
        ("cross", "none"),
    ],
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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fastformer", "full", "nystrom"])
def test_layers_over_variables_of_another_type(name):
    """The option is that of the encoder, and the name says the type unless it is the encoder's."""
    alone = compose_config(f"attention={name}", "num_landmarks=7").model.attention
    mixed = compose_config("attention=fastformer", f"variables={name}", "num_landmarks=7").model.attention
    assert mixed.variables.encoder == alone.encoder
    assert mixed.encoder == compose_config("attention=fastformer").model.attention.encoder
    assert mixed.name == ("fastformer" if name == "fastformer" else f"fastformer-variables-{name}")
    both = compose_config("attention=fastformer", "encoder=full", f"variables={name}").model.attention
    assert both.name == "fastformer-encoder-full" + ("" if name == "full" else f"-variables-{name}")
    assert "variables" not in alone
