"""Exact softmax attention: through PyTorch's fused kernel, or through the scores.

    out = softmax(Q Kᵀ / √E) V        (row i over keys j <= i when causal)

Cost: n·m·E time, and n·E memory with the fused kernel, which never stores the n×m weights. Its backward pass is slow on
CPU, most of all in bfloat16. Training on CPU therefore forms the scores, in n·m memory and in float32 or wider, where
the query or the memory is short: `short_softmax_attention`, which other types use too.

Source: Vaswani et al. 2017, "Attention Is All You Need", equation 1.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from forecast.attention.base import Attention, Memory, Queries, check_causal_lengths

REGISTER = 16  # float32 numbers in the widest vector register of a CPU (AVX-512)

SHORT = {torch.float32: 96 * 96, torch.bfloat16: 256 * 256}
"""By type, the largest query_len · memory_len for which the scores are formed on CPU, if gradients are needed."""


def short_softmax_attention(
    q: Queries, k: Memory, v: Memory, seen: Bool[Tensor, "... query_len memory_len"] | None = None
) -> Queries:
    """Compute softmax attention; `seen` is true where a query reads a key, and each query must read at least one."""
    if q.device.type != "cpu" or not torch.is_grad_enabled():
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
    dtype, scale = torch.promote_types(q.dtype, torch.float32), q.shape[-1] ** -0.5
    with torch.autocast(q.device.type, enabled=False):  # bfloat16 would round large scores, as SDPA does not
        wide_q, wide_k = q.to(dtype), k.to(dtype)
        is_short = q.shape[-2] < k.shape[-2]  # the scale is applied to the shorter of the two
        scores = (wide_q * scale) @ wide_k.mT if is_short else wide_q @ (wide_k * scale).mT
    if seen is not None:
        scores = scores.masked_fill(~seen, -math.inf)
    return padded_softmax(scores).to(v.dtype) @ v


def padded_softmax(scores: Float[Tensor, "*rows memory_len"]) -> Float[Tensor, "*rows memory_len"]:
    """Compute the softmax over the last axis.

    PyTorch's kernel on CPU processes rows that are shorter than a vector register one number at a time. Padding with
    −∞ to `REGISTER` numbers does not change the result; with 14 keys and AVX-512, forward and backward pass take a
    sixth of the time.
    """
    missing = REGISTER - scores.shape[-1]
    if missing <= 0 or torch.compiler.is_compiling():
        return scores.softmax(-1)
    return F.pad(scores, (0, missing), value=-math.inf).softmax(-1)[..., :-missing]


def full_attention(q: Queries, k: Memory, v: Memory, *, causal: bool = False) -> Queries:
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

    roles = frozenset({"self", "causal", "cross"})
    independent_queries = True

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        causal = self.role == "causal"
        if self.drop_weights and self.training:
            return F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=causal)
        return full_attention(q, k, v, causal=causal)
