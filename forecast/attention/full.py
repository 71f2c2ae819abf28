"""Exact softmax attention through PyTorch's fused kernel.

    out = softmax(Q Kᵀ / √E) V        (row i over keys j <= i when causal)

Cost: n²·E time and n·E memory, because the fused kernel never stores the n×n weights. Training on short sequences on
CPU forms the scores, which is faster there.

Source: Vaswani et al. 2017, "Attention Is All You Need", equation 1.
"""

from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from forecast.attention.base import Attention, Role, check_causal_lengths
from forecast.attention.softmax import short_softmax_attention

SHORT = {torch.float32: 96 * 96, torch.bfloat16: 256 * 256}
"""By type, the largest query_len · memory_len for which the scores are formed on CPU, if gradients are needed."""


def full_attention(
    q: Float[Tensor, "batch heads query_len head_dim"],
    k: Float[Tensor, "batch heads memory_len head_dim"],
    v: Float[Tensor, "batch heads memory_len head_dim"],
    *,
    causal: bool = False,
) -> Float[Tensor, "batch heads query_len head_dim"]:
    """Compute softmax attention; causal requires query and memory of equal length, and position i reads keys 0..i."""
    if causal:
        check_causal_lengths(q, k)
    length, memory_len = q.shape[2], k.shape[2]
    is_eager_on_cpu = q.device.type == "cpu" and not torch.compiler.is_compiling()
    if is_eager_on_cpu and torch.is_grad_enabled() and length * memory_len <= SHORT.get(q.dtype, 0):
        seen = torch.ones(length, length, dtype=torch.bool, device=q.device).tril() if causal else None
        return short_softmax_attention(q, k, v, seen)
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal)


class FullAttention(Attention):
    """Softmax attention over all pairs of positions."""

    roles: ClassVar[frozenset[Role]] = frozenset({"self", "causal", "cross"})
    independent_queries = True

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return full_attention(q, k, v, causal=self.role == "causal")
