"""Dropout with 8 or 16 random bits for each element.

On CPU, PyTorch's dropout draws a random double for each element, which is the most expensive part of a small training
step after the matrix products. Here one draw of 64 bits serves eight elements, or four. On other devices, and under
`torch.compile`, PyTorch's own dropout is one fused kernel and is used instead.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

RARE = 1 / 16  # 16 bits are drawn where p or 1 − p is below this, else 8
SHIFT = -1e15
"""Added to the inputs of GELU that are dropped: GELU and its derivatives are zero there, for inputs below 10¹⁵."""


def check_dropout(p: float) -> None:
    """Raise ValueError for a probability outside [0, 1)."""
    if not 0 <= p < 1:
        raise ValueError(f"dropout={p} must be at least 0 and below 1")


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Set each element to zero with probability p, and divide the others by 1 − p; identity outside of training.

    On CPU, p is rounded; see `draw_bits`.
    """
    if not training or p == 0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, p)
    bits, threshold, scale = draw_bits(x.shape, p)
    return x * torch.ge(bits, threshold, out=torch.empty_like(x)).mul_(scale)


def draw_bits(shape: torch.Size, p: float) -> tuple[Int[Tensor, "..."], int, float]:
    """Return random integers, the threshold below which an element is dropped, and 1 / (1 − p) for p as rounded.

    p is rounded to a multiple of 2⁻⁸, or of 2⁻¹⁶ where p or 1 − p is below `RARE`.
    """
    integer = torch.int16 if min(p, 1 - p) < RARE else torch.int8
    info, count = torch.iinfo(integer), shape.numel()
    values, per_draw = 2**info.bits, 64 // info.bits
    dropped = min(round(p * values), values - 1)
    draws = torch.empty(-(-count // per_draw), dtype=torch.int64).random_(-(2**63), None)
    return draws.view(integer)[:count].view(shape), info.min + dropped, values / (values - dropped)


class Dropout(nn.Dropout):
    """`dropout` with a fixed probability in [0, 1); other probabilities raise ValueError."""

    def __init__(self, p: float) -> None:
        check_dropout(p)
        super().__init__(p)

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p, self.training)


def apply_after_dropped_gelu(
    linear: nn.Linear, x: Float[Tensor, "*rows width"], dropout: Dropout
) -> Float[Tensor, "*rows outputs"]:
    """Compute linear(dropout(gelu(x))).

    In training on CPU, dropped elements are shifted to where GELU and its derivative are zero, and 1 / (1 − p) scales
    the weight. The backward pass then has no factors to multiply by. float16 cannot hold the shift.
    """
    trains = dropout.training and dropout.p > 0
    if not trains or x.device.type != "cpu" or x.dtype == torch.float16 or torch.compiler.is_compiling():
        return linear(dropout(F.gelu(x)))
    bits, threshold, scale = draw_bits(x.shape, dropout.p)
    dropped = torch.lt(bits, threshold, out=torch.empty_like(x))
    return F.linear(F.gelu(x.add(dropped, alpha=SHIFT)), linear.weight * scale, linear.bias)
