"""Every file of conf/attention, as the model receives it."""

from pathlib import Path

import pytest
import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf

import forecast.attention

CONF = Path(__file__).parents[3] / "conf" / "attention"
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
    assert {path.stem for path in CONF.glob("*.yaml")} == set(CLASSES)


@pytest.mark.parametrize("name", CLASSES)
def test_three_slots(name):
    assert (CONF / f"{name}.yaml").read_text().startswith("# @package model.attention\n")
    conf = OmegaConf.create({**KNOBS, "model": {"attention": OmegaConf.load(CONF / f"{name}.yaml")}})
    slots = conf.model.attention
    assert set(slots) == {"name", "encoder", "decoder", "cross"}
    assert slots.name == name
    class_name, decoder_role = CLASSES[name]
    made = {slot: instantiate(slots[slot])(d_model=24, n_heads=4) for slot in ("encoder", "decoder", "cross")}
    assert {type(made["encoder"]), type(made["decoder"])} == {getattr(forecast.attention, class_name)}
    assert type(made["cross"]) is forecast.attention.FullAttention
    assert [layer.role for layer in made.values()] == ["self", decoder_role, "cross"]
    for knob, value in KNOBS.items():
        for slot in ("encoder", "decoder"):
            assert getattr(made[slot], knob, value) == value
    x = torch.randn(2, 11, 24)
    assert all(layer(x, x).shape == x.shape for layer in made.values())
