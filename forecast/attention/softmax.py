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
"""Float32 numbers in the widest vector register of a CPU (AVX-512)."""


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
    return padded_softmax(scores).to(v.dtype) @ v


def padded_softmax(scores: Float[Tensor, "*rows memory_len"]) -> Float[Tensor, "*rows memory_len"]:
    """Compute the softmax over the last axis in float32 or wider.

    PyTorch's kernel on CPU processes rows that are shorter than a vector register one number at a time. Padding with
    −∞ to `REGISTER` numbers does not change the result; with 14 keys and AVX-512, forward and backward pass take a
    sixth of the time.
    """
    dtype, missing = torch.promote_types(scores.dtype, torch.float32), REGISTER - scores.shape[-1]
    if missing <= 0 or torch.compiler.is_compiling():
        return scores.softmax(-1, dtype=dtype)
    return F.pad(scores, (0, missing), value=-math.inf).softmax(-1, dtype=dtype)[..., :-missing]
