"""Softmax attention with a short query or a short memory, computed through the scores.

    out = softmax(Q Kᵀ / √E) V

Cost: n·m·E time and n·m memory, linear in the longer of the two. On CPU, forward and backward together are faster than
with the fused kernel, whose backward pass is slow there, most of all in bfloat16. Without gradients, and on other
devices, the fused kernel is used. The softmax runs in float32 or wider.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

REGISTER = 16
"""Float32 numbers in a vector register of AVX-512, the largest."""


def short_softmax_attention(
    q: Float[Tensor, "batch heads query_len head_dim"],
    k: Float[Tensor, "batch heads memory_len head_dim"],
    v: Float[Tensor, "batch heads memory_len head_dim"],
    seen: Bool[Tensor, "... query_len memory_len"] | None = None,
) -> Float[Tensor, "batch heads query_len head_dim"]:
    """Compute softmax attention; `seen` is true where a query reads a key, and each query must read at least one."""
    if q.device.type != "cpu" or not torch.is_grad_enabled():
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
    scale = q.shape[-1] ** -0.5  # applied to the shorter of the two
    scores = (q * scale) @ k.mT if q.shape[-2] < k.shape[-2] else q @ (k * scale).mT
    if seen is not None:
        scores = scores.masked_fill(~seen, -math.inf)
    return softmax_on_cpu(scores).to(v.dtype) @ v


def softmax_on_cpu(scores: Float[Tensor, "*rows memory_len"]) -> Float[Tensor, "*rows memory_len"]:
    """Compute the softmax over the last axis in float32 or wider.

    PyTorch's kernel treats rows that do not fill a vector register entry by entry. Filled up with −∞, which does not
    change the result, forward and backward of 14 keys take a sixth of the time.
    """
    missing = max(REGISTER - scores.shape[-1], 0)
    dtype = torch.promote_types(scores.dtype, torch.float32)
    return F.pad(scores, (0, missing), value=-math.inf).softmax(-1, dtype=dtype)[..., : scores.shape[-1]]
