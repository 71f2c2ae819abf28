"""Softmax attention over few scores: a short query or a short memory.

    out = softmax(Q Kᵀ / √E) V

Forming the scores then costs memory linear in the longer of the two. On the CPU that makes forward and backward
together faster than the fused kernel, whose backward pass there is slow, in bfloat16 above all. Without gradients,
and on other devices, the fused kernel serves. The softmax itself runs in float32 at least.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor


def short_softmax_attention(
    q: Float[Tensor, "batch heads query_len head_dim"],
    k: Float[Tensor, "batch heads memory_len head_dim"],
    v: Float[Tensor, "batch heads memory_len head_dim"],
    seen: Bool[Tensor, "... query_len memory_len"] | None = None,
) -> Float[Tensor, "batch heads query_len head_dim"]:
    """`seen` says which keys a query sees; every query must see one."""
    if q.device.type != "cpu" or not torch.is_grad_enabled():
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
    scale = q.shape[-1] ** -0.5  # on whichever is shorter
    scores = (q * scale) @ k.mT if q.shape[-2] < k.shape[-2] else q @ (k * scale).mT
    if seen is not None:
        scores = scores.masked_fill(~seen, -math.inf)
    weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))
    return weights.to(v.dtype) @ v
