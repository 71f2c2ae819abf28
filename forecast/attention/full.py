"""Softmax attention, exact, through PyTorch's fused kernel (for short windows on the CPU, through its scores).

    out = softmax(Q Kᵀ / √E) V        (row i over keys j <= i when causal)

Cost n²E time; the fused kernel never stores the n×n weights, so memory is linear in n.
Source: Vaswani et al. 2017, "Attention Is All You Need", equation 1.
"""

from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from forecast.attention.base import Attention, Role
from forecast.attention.softmax import short_softmax_attention

SHORT = 256 * 256
"""Pairs of positions up to which forming the scores is never slower on the CPU."""


def full_attention(
    q: Float[Tensor, "batch heads query_len head_dim"],
    k: Float[Tensor, "batch heads memory_len head_dim"],
    v: Float[Tensor, "batch heads memory_len head_dim"],
    *,
    causal: bool = False,
) -> Float[Tensor, "batch heads query_len head_dim"]:
    """Causal needs query and memory of one length: position i sees keys 0..i."""
    if causal and q.shape[2] != k.shape[2]:
        raise ValueError(f"causal attention needs one length, not {q.shape[2]} queries and {k.shape[2]} keys")
    length, memory_len = q.shape[2], k.shape[2]
    if length * memory_len > SHORT or q.device.type != "cpu":
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    seen = torch.ones(length, length, dtype=torch.bool, device=q.device).tril() if causal else None
    return short_softmax_attention(q, k, v, seen)


class FullAttention(Attention):
    """Softmax attention over all pairs of positions."""

    roles: ClassVar[frozenset[Role]] = frozenset({"self", "causal", "cross"})
    each_query_alone = True

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return full_attention(q, k, v, causal=self.role == "causal")
