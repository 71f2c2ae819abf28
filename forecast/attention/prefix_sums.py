"""Running sums along the length, computed in chunks as matrix products.

Inside a chunk, the sum over earlier positions is a product with a triangular matrix. One row for each chunk carries the
sum of the earlier chunks. `cumsum` along the length takes up to nine times as long on CPU, and `cummax` has no ONNX
form. Cost: n·64·E time, n·E memory. All sums run in float32 or wider.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from forecast.attention.base import Tokens

CHUNK = 64  # positions


def cut(x: Tensor, size: int, axis: int, fill: float = 0.0) -> Tensor:
    """Split an axis into the axes (chunks, size), the last chunk padded with `fill`."""
    if short := -x.shape[axis] % size:
        x = F.pad(x, (0, 0) * (x.ndim - 1 - axis) + (0, short), value=fill)
    return x.unflatten(axis, (-1, size))


def to_chunks(x: Float[Tensor, "*rows length width"], fill: float = 0.0) -> Float[Tensor, "*rows chunks size width"]:
    """Split the length into equal chunks of at most `CHUNK` positions, the last one padded with `fill`."""
    length = x.shape[-2]
    return cut(x, math.ceil(length / math.ceil(length / CHUNK)), x.ndim - 2, fill)


def from_chunks(x: Float[Tensor, "*rows chunks size width"], length: int) -> Float[Tensor, "*rows length width"]:
    return x.flatten(-3, -2)[..., :length, :]


def sum_before(x: Float[Tensor, "*rows length width"]) -> Float[Tensor, "*rows length width"]:
    """Sum positions 0..i−1 at position i."""
    return _triangular_sum(x, lambda ones: ones.tril(-1), lambda ones: ones.tril(-1))


def sum_after(x: Float[Tensor, "*rows length width"]) -> Float[Tensor, "*rows length width"]:
    """Sum positions i+1.. at position i."""
    return _triangular_sum(x, lambda ones: ones.triu(1), lambda ones: ones.triu(1))


def running_sum(x: Float[Tensor, "*rows length width"]) -> Float[Tensor, "*rows length width"]:
    """Sum positions 0..i at position i, in float32 or wider."""
    with torch.autocast(x.device.type, enabled=False):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return _triangular_sum(wide, torch.tril, lambda ones: ones.tril(-1))


def running_mean(x: Float[Tensor, "*rows length width"]) -> Float[Tensor, "*rows length width"]:
    """Average positions 0..i at position i."""
    sums = running_sum(x)
    count = torch.arange(1, x.shape[-2] + 1, dtype=sums.dtype, device=x.device)
    return (sums / count[:, None]).to(x.dtype)


def _triangular_sum(x: Tensor, mask: Callable[[Tensor], Tensor], mask_chunks: Callable[[Tensor], Tensor]) -> Tensor:
    """Sum over the positions that `mask` keeps in a chunk, and over the chunks that `mask_chunks` keeps."""
    chunks = to_chunks(x)
    count, size = chunks.shape[-3:-1]
    sums = mask(x.new_ones(size, size)) @ chunks
    if count > 1:
        sums = sums + _triangular_sum(chunks.sum(-2), mask_chunks, mask_chunks)[..., None, :]
    return from_chunks(sums, x.shape[-2])


def running_softmax_pool(x: Tokens, logit: Float[Tensor, "heads head_dim"]) -> Tokens:
    """Compute Σ_j softmax_{j <= i}(w·x_j/√E) x_j at every position i."""
    with torch.autocast(x.device.type, enabled=False):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        logits = (wide @ logit.to(wide.dtype)[..., None]) * x.shape[-1] ** -0.5
        return _running_softmax_pool(wide, logits)[0].to(x.dtype)


def _running_softmax_pool(x: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the pooled rows and the logits of every row.

    A row is a softmax over the logits of its own chunk and one more logit: the log-sum of all earlier chunks, whose
    value is their pooled mean. Every exponential is taken relative to the maximum of its row, so that logits of any
    size stay finite.
    """
    length = x.shape[-2]
    x, logits = to_chunks(x), to_chunks(logits, fill=-torch.inf).mT  # (…, size, width), (…, 1, size)
    chunks, size = x.shape[-3:-1]
    earlier = 0
    if chunks > 1:
        means, rows = _running_softmax_pool((logits.softmax(-1) @ x).squeeze(-2), logits.logsumexp(-1))
        sums = from_chunks(rows.logsumexp(-1, keepdim=True), chunks)
        means = F.pad(means[..., :-1, :], (0, 0, 1, 0))
        sums = F.pad(sums[..., :-1, :], (0, 0, 1, 0), value=-torch.inf)
        x, logits = torch.cat([means[..., None, :], x], dim=-2), torch.cat([sums[..., None], logits], dim=-1)
        earlier = 1
    later = torch.ones(size, size + earlier, dtype=torch.bool, device=x.device).triu(1 + earlier)
    rows = logits.masked_fill(later, -torch.inf)  # (…, size, earlier + size)
    return from_chunks(rows.softmax(-1) @ x, length), rows
