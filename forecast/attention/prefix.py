"""Running sums along the length, cut into chunks so that they are matrix products.

Inside a chunk a sum over earlier positions is a product with a triangular matrix; between chunks one row a
chunk is carried. `cumsum` along the length is up to nine times slower on CPU, and `cummax` has no ONNX form.
Everything sums in float32 at least.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

CHUNK = 64  # positions


def to_chunks(
    x: Float[Tensor, "*rows length width"], fill: float = 0.0
) -> Float[Tensor, "*rows chunks size width"]:
    """Cut the length into chunks of `CHUNK`, the last one filled up with `fill`."""
    size = min(CHUNK, x.shape[-2])
    short = -x.shape[-2] % size
    if short:
        x = F.pad(x, (0, 0, 0, short), value=fill)
    return x.unflatten(-2, (-1, size))


def from_chunks(
    x: Float[Tensor, "*rows chunks size width"], length: int
) -> Float[Tensor, "*rows length width"]:
    return x.flatten(-3, -2)[..., :length, :]


def sum_before(x: Float[Tensor, "*rows length width"]) -> Float[Tensor, "*rows length width"]:
    """Sum of positions 0..i−1 at position i."""
    return _triangular_sum(x, lambda ones: ones.tril(-1), lambda ones: ones.tril(-1))


def sum_after(x: Float[Tensor, "*rows length width"]) -> Float[Tensor, "*rows length width"]:
    """Sum of positions i+1.. at position i."""
    return _triangular_sum(x, lambda ones: ones.triu(1), lambda ones: ones.triu(1))


def running_mean(x: Float[Tensor, "*rows length width"]) -> Float[Tensor, "*rows length width"]:
    """Mean of positions 0..i at position i."""
    length = x.shape[-2]
    with torch.autocast(x.device.type, enabled=False):
        sums = _triangular_sum(
            x.to(torch.promote_types(x.dtype, torch.float32)), torch.tril, lambda ones: ones.tril(-1)
        )
        count = torch.arange(1, length + 1, dtype=sums.dtype, device=x.device)
        return (sums / count[:, None]).to(x.dtype)


def _triangular_sum(
    x: Tensor, mask: Callable[[Tensor], Tensor], mask_chunks: Callable[[Tensor], Tensor]
) -> Tensor:
    """Sums over the positions that `mask` leaves, the chunks' own sums added up in the same way."""
    chunks = to_chunks(x)
    count, size = chunks.shape[-3:-1]
    sums = mask(x.new_ones(size, size)) @ chunks
    if count > 1:
        sums = sums + _triangular_sum(chunks.sum(-2), mask_chunks, mask_chunks)[..., None, :]
    return from_chunks(sums, x.shape[-2])


def running_softmax_pool(
    x: Float[Tensor, "batch heads length head_dim"], logit: Float[Tensor, "heads head_dim"]
) -> Float[Tensor, "batch heads length head_dim"]:
    """Σ_j softmax_{j <= i}(w·x_j/√E) x_j at every position i.

    All exponents are taken relative to the running maximum, so that logits of any size stay finite. The
    maximum cancels in the quotient and needs no gradient.
    """
    length, dtype = x.shape[2], x.dtype
    with torch.autocast(x.device.type, enabled=False):
        x = x.to(torch.promote_types(dtype, torch.float32))
        logits = (x @ logit.to(x.dtype)[..., None]) * x.shape[-1] ** -0.5
        x, logits = to_chunks(x), to_chunks(logits, fill=-torch.inf).mT
        # x (batch, heads, chunks, size, head_dim), logits (batch, heads, chunks, 1, size)
        size = x.shape[-2]
        later = torch.ones(size, size, dtype=torch.bool, device=x.device).triu(1)
        own = logits.masked_fill(later, -torch.inf)  # (…, size, size): row i, columns j <= i
        with torch.no_grad():
            chunk_top = logits.amax(-1, keepdim=True)
            before = _shift(_running_max(chunk_top), 1, -torch.inf)  # (…, chunks, 1, 1)
            top = own.amax(-1, keepdim=True).maximum(before)  # (…, chunks, size, 1)
        weights = (logits - chunk_top).exp()
        states = torch.cat(
            [weights @ x, weights.sum(-1, keepdim=True)], dim=-1
        )  # (…, chunks, 1, head_dim + 1)
        carried = _shift(_running_rescaled_sum(states, chunk_top), 1, 0.0) * (before - top).exp()
        own = (own - top).exp()
        total = own.sum(-1, keepdim=True) + carried[..., -1:]
        return from_chunks((own @ x + carried[..., :-1]) / total, length).to(dtype)


def _running_rescaled_sum(states: Tensor, exponents: Tensor) -> Tensor:
    """Σ_{b <= c} exp(exponent_b − max_{a <= c} exponent_a) state_b for every chunk c, by doubling."""
    top = _running_max(exponents.detach())
    sums, reach = states * (exponents - top).exp(), 1  # of the last `reach` chunks
    while reach < states.shape[-3]:
        sums = sums + (_shift(top, reach, -torch.inf) - top).exp() * _shift(sums, reach, 0.0)
        reach *= 2
    return sums


def _running_max(x: Tensor) -> Tensor:
    """max_{b <= c} x_b for every chunk c, by doubling."""
    reach = 1
    while reach < x.shape[-3]:
        x = x.maximum(_shift(x, reach, -torch.inf))
        reach *= 2
    return x


def _shift(x: Tensor, steps: int, fill: float) -> Tensor:
    """Chunk c takes the place of chunk c + steps."""
    return F.pad(x, (0, 0, 0, 0, steps, 0), value=fill)[..., : x.shape[-3], :, :]
