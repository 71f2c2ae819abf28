"""Dropout with 16 random bits for each element.

On CPU, PyTorch's dropout draws a random double for each element, which is the most expensive part of a small training
step after the matrix products. Here one draw of 64 bits serves four elements, so that probabilities are multiples of
2⁻¹⁶. On other devices, and under `torch.compile`, PyTorch's own dropout is one fused kernel and is used instead.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

VALUES = 2**16  # of 16 bits


def check_dropout(p: float) -> None:
    """Raise ValueError for a probability outside [0, 1)."""
    if not 0 <= p < 1:
        raise ValueError(f"dropout={p} must be at least 0 and below 1")


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Set each element to zero with probability p, and divide the others by 1 − p; identity outside of training."""
    if not training or p == 0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, p)
    return x * draw_factors(x.shape, p, x.dtype)


def draw_factors(shape: torch.Size, p: float, dtype: torch.dtype) -> Tensor:
    """Draw independent factors: 0 with probability p, else 1 / (1 − p), with p rounded to a multiple of 2⁻¹⁶."""
    dropped = min(round(p * VALUES), VALUES - 1)
    count = shape.numel()
    draws = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    bits = draws.view(torch.int16)[:count].view(shape)
    factors = torch.ge(bits, dropped - VALUES // 2, out=torch.empty(shape, dtype=dtype))
    return factors.mul_(VALUES / (VALUES - dropped))


class Dropout(nn.Module):
    """`dropout` with a fixed probability in [0, 1); other probabilities raise ValueError."""

    def __init__(self, p: float) -> None:
        super().__init__()
        check_dropout(p)
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"
