"""Attention types by name, the slots of a model, and parameters without a gradient."""

from functools import partial

import torch
import yaml
from hydra.utils import get_class
from torch import nn

from forecast.attention import Attention
from forecast.models.informer import AttentionSlots
from forecast.system.location import conf_files

ATTENTION_TYPES: dict[str, type[Attention]] = {
    path.stem: get_class(yaml.safe_load(path.read_text("utf-8"))["_target_"]) for path in conf_files("attention")
}


def slots(attention_type: str, cross: str = "full") -> AttentionSlots:
    make = ATTENTION_TYPES[attention_type]
    types = {"encoder": make, "decoder": make, "cross": ATTENTION_TYPES[cross]}
    return {slot: partial(kind, role=kind.role_in(slot)) for slot, kind in types.items()}  # type: ignore[return-value]


def without_gradient(module: nn.Module) -> list[str]:
    """Parameters whose gradient is missing or zero everywhere."""
    return [n for n, p in module.named_parameters() if p.grad is None or not torch.any(p.grad != 0)]
