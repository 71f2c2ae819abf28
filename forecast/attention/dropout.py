"""Dropout that draws random numbers for the dropped elements only.

On CPU, one Bernoulli draw for each element is the most expensive part of a training step after the matrix products.
The gaps between dropped elements are geometrically distributed. Drawing the gaps gives exactly the same process with p
draws for each element instead of one, and stores positions instead of a mask. On other devices, and under
`torch.compile`, PyTorch's own dropout is one fused kernel and is used instead.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


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
    return _Dropped.apply(x, dropped_positions(x.numel(), p), 1 / (1 - p))


def dropped_positions(count: int, p: float) -> Tensor:
    """Draw the successes of `count` independent trials of probability p, as ascending positions (n_dropped).

    The number of gaps drawn exceeds the expected number by eight standard deviations, so that they reach the end.
    """
    draws = math.ceil(count * p + 8 * math.sqrt(count * p) + 16)
    positions = torch.empty(draws, dtype=torch.int64).geometric_(p).cumsum_(0).sub_(1)
    return positions[: int(torch.searchsorted(positions, count))]


class _Dropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, positions: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(positions)
        ctx.scale = scale
        kept = torch.empty_like(x, memory_format=torch.contiguous_format)
        torch.mul(x, scale, out=kept)
        kept.view(-1).index_fill_(0, positions, 0)
        return kept

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple[Tensor, None, None]:
        return _Dropped.apply(grads[0], ctx.saved_tensors[0], ctx.scale), None, None


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
