"""Every attention type, role and option, on tensors of distinct sizes, so that no swapped axis passes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from forecast.attention import (
    Attention,
    FastformerAttention,
    GatedDeltaAttention,
    LinearAttention,
    NoneAttention,
    NystromAttention,
    ProbSparseAttention,
    Role,
    SlidingWindowAttention,
)
from tests.support.models import ATTENTION_TYPES

BATCH, HEADS, HEAD_DIM, QUERY_LEN, MEMORY_LEN = 3, 5, 4, 79, 131
D_MODEL = HEADS * HEAD_DIM

OPTIONS: list[tuple[type[Attention], dict[str, Any]]] = [
    (ProbSparseAttention, {"factor": 2}),
    (ProbSparseAttention, {"factor": 2, "sampling": "per_query"}),
    (ProbSparseAttention, {"factor": 2, "sampling": "per_query", "ranking": "published", "lazy": "sum"}),
    (ProbSparseAttention, {"factor": 2, "ranking": "norm"}),
    (LinearAttention, {"feature_map": "relu"}),
    (LinearAttention, {"feature_map": "taylor"}),
    (LinearAttention, {"feature_map": "favor", "num_features": 6}),
    (NystromAttention, {"num_landmarks": 9}),
    (FastformerAttention, {"interaction": "add", "share_query_value": False}),
    (FastformerAttention, {"interaction": "concat", "share_heads": True}),
    (SlidingWindowAttention, {"attention_window": 1}),
    (GatedDeltaAttention, {"gate": False}),
    (GatedDeltaAttention, {"delta": False}),
    (GatedDeltaAttention, {"gate": False, "delta": False}),
    (GatedDeltaAttention, {"short_conv": True, "output_gate": True, "output_norm": True}),
]
"""Options to test beside the defaults of every type of conf/attention."""

TESTED = [*((kind, {}) for kind in ATTENTION_TYPES.values()), *OPTIONS]


def _name(attention_type: type[Attention], role: str, options: dict[str, Any]) -> str:
    chosen = (f"{key}={value}" for key, value in options.items())
    return "-".join([attention_type.__name__.removesuffix("Attention"), role, *chosen])


CASES = [
    pytest.param(attention_type, role, options, id=_name(attention_type, role, options))
    for attention_type, options in TESTED
    for role in sorted(attention_type.roles)
]
READING_CASES = [case for case in CASES if case.values[:2] != (NoneAttention, "cross")]
"""The cases whose output depends on the input: `none` in role cross returns a constant (test_full.py)."""


def reads_query(attention_type: type[Attention], role: str) -> bool:
    """Whether the output depends on the query: without projections of Q, only through the memory."""
    return role != "cross" or not attention_type.uses_only_values


def build(attention_type: Callable[..., Attention], role: Role, options: dict[str, Any], **more: Any) -> Attention:
    torch.manual_seed(7)
    return attention_type(D_MODEL, HEADS, role=role, **options, **more)


def inputs(role: Role, dtype: torch.dtype = torch.float64, length: int = QUERY_LEN) -> tuple[Tensor, Tensor]:
    torch.manual_seed(11)
    query = torch.randn(BATCH, length, D_MODEL, dtype=dtype)
    memory = torch.randn(BATCH, MEMORY_LEN, D_MODEL, dtype=dtype) if role == "cross" else query
    return query, memory


def heads(query_len: int = QUERY_LEN, memory_len: int = QUERY_LEN, head_dim: int = HEAD_DIM) -> tuple[Tensor, ...]:
    """q, k, v in float64, (batch, heads, length, head_dim)."""
    torch.manual_seed(13)
    lengths = (query_len, memory_len, memory_len)
    return tuple(torch.randn(BATCH, HEADS, length, head_dim, dtype=torch.float64) for length in lengths)
