"""Depthwise convolution along the length, with one kernel for each head.

    out[h, i] = Σ_j weight[h, j] · v[h, i + j − kernel // 2]

Cost: n·E·(64 + kernel) time as matrix products, n·E memory. A grouped convolution of PyTorch took ten times as long
on CPU, forward and backward. Nyström attention adds it to its output (Xiong et al. 2021).
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from forecast.attention.prefix_sums import CHUNK


def depthwise_convolution(
    v: Float[Tensor, "batch heads length head_dim"], weight: Float[Tensor, "heads 1 kernel 1"]
) -> Float[Tensor, "batch heads length head_dim"]:
    """Convolve every head along the length with its own kernel of odd size; zeros lie beyond the ends."""
    return _Convolution.apply(v, weight[:, 0, :, 0].to(v.dtype))


class _Convolution(torch.autograd.Function):
    """One matrix product for each head: a banded matrix times all chunks of the length.

    Every row of the band holds the kernel; its first and last columns reach into the neighbouring chunks.
    """

    @staticmethod
    def forward(ctx, v: Tensor, weight: Tensor) -> Tensor:
        x = _side_by_side(v, weight.shape[1] // 2)
        ctx.save_for_backward(x, weight)
        return _convolve(x, weight, v.shape[2])

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        half, kernel = weight.shape[1] // 2, weight.shape[1]
        g = _side_by_side(grads[0], half)
        heads, size, _, chunks, _ = x.shape
        band = x.new_zeros(heads, size, size + 2 * half)
        band[:, :, half : half + size] = _product(g, x)
        if chunks > 1 and half:
            band[:, :half, :half] = _product(g[:, :half, :, 1:], x[:, -half:, :, :-1])
            band[:, -half:, -half:] = _product(g[:, -half:, :, :-1], x[:, :half, :, 1:])
        diagonal = torch.arange(size, device=x.device)[:, None] + torch.arange(kernel, device=x.device)
        to_weight = band.gather(2, diagonal.expand(heads, -1, -1)).sum(1)
        return _convolve(g, weight.flip(1), grads[0].shape[2]), to_weight


def _convolve(x: Tensor, weight: Tensor, length: int) -> Tensor:
    """Multiply chunks from `_side_by_side` by the band; return (batch, heads, length, width)."""
    half, kernel = weight.shape[1] // 2, weight.shape[1]
    _, size, _, chunks, _ = x.shape
    # band[o, i] = weight[i − o] inside the kernel; else the zero that is appended to the kernel
    offset = torch.arange(size + 2 * half, device=x.device) - torch.arange(size, device=x.device)[:, None]
    band = F.pad(weight, (0, 1))[:, offset.where((offset >= 0) & (offset < kernel), kernel)]
    out = (band[:, :, half : half + size] @ x.flatten(2)).view_as(x)
    if chunks > 1 and half:
        before, after = x[:, -half:], x[:, :half]
        out[:, :half, :, 1:] += (band[:, :half, :half] @ before.flatten(2)).view_as(before)[:, :, :, :-1]
        out[:, -half:, :, :-1] += (band[:, -half:, -half:] @ after.flatten(2)).view_as(after)[:, :, :, 1:]
    return out.permute(2, 0, 3, 1, 4).flatten(2, 3)[:, :, :length]


def _side_by_side(x: Tensor, half: int) -> Tensor:
    """Arrange as (heads, size, batch, chunks, width); a chunk is at least as long as half the kernel."""
    length = x.shape[2]
    size = min(max(CHUNK, half), length)
    short = -length % size
    if short:
        x = F.pad(x, (0, 0, 0, short))
    return x.unflatten(2, (-1, size)).permute(1, 3, 0, 2, 4).contiguous()


def _product(g: Tensor, x: Tensor) -> Tensor:
    """Multiply two arrangements from `_side_by_side`, summed over batch, chunks and width."""
    return g.flatten(2) @ x.flatten(2).mT
