"""Attention types by name, the slots of a model, and parameters without a gradient."""

from functools import partial

import torch
from torch import nn

from forecast.attention import (
    Attention,
    FastformerAttention,
    FullAttention,
    GatedDeltaAttention,
    LinearAttention,
    NoneAttention,
    NystromAttention,
    ProbSparseAttention,
    UniformAttention,
)
from forecast.models.informer import AttentionSlots

ATTENTION_TYPES: dict[str, type[Attention]] = {
    "full": FullAttention,
    "probsparse": ProbSparseAttention,
    "linear": LinearAttention,
    "nystrom": NystromAttention,
    "fastformer": FastformerAttention,
    "gated_delta": GatedDeltaAttention,
    "none": NoneAttention,
    "uniform": UniformAttention,
}


def slots(attention_type: str, cross: str = "full") -> AttentionSlots:
    """The three slots as conf/attention/<attention_type>.yaml fills them."""
    make = ATTENTION_TYPES[attention_type]
    decoder = "causal" if "causal" in make.roles else "self"
    return {
        "encoder": partial(make, role="self"),
        "decoder": partial(make, role=decoder),
        "cross": partial(ATTENTION_TYPES[cross], role="cross"),
    }


def without_gradient(module: nn.Module) -> list[str]:
    """Parameters whose gradient is missing or zero everywhere."""
    return [n for n, p in module.named_parameters() if p.grad is None or not torch.any(p.grad != 0)]
