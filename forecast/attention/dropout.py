"""Dropout that draws random numbers only for what it drops.

On the CPU, one Bernoulli number an element costs more than anything else in a training step but its matrix
products. The gaps between dropped elements are geometric, so drawing the gaps gives exactly the same process with p
draws an element in place of one, and keeps positions in place of a mask. Elsewhere, and under `torch.compile`,
PyTorch's own dropout is one fused kernel.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Each element is zero with probability p, else divided by 1 − p."""
    if not training or p == 0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, p)
    return _Dropped.apply(x, dropped_positions(x.numel(), p), 1 / (1 - p))


def dropped_positions(count: int, p: float) -> Tensor:
    """The successes of `count` independent trials of probability p, ascending (n_dropped).

    Eight standard deviations more gaps are drawn than are needed on average, so that they reach past the end.
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
    """`dropout` with a fixed probability in [0, 1)."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"
