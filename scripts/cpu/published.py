"""A direct, slow implementation of the published ProbSparse attention, as a reference for results and times."""

import math

import torch
from jaxtyping import Float
from torch import Tensor


def published_probsparse(
    q: Float[Tensor, "batch heads query_len head_dim"],
    k: Float[Tensor, "batch heads memory_len head_dim"],
    v: Float[Tensor, "batch heads memory_len head_dim"],
    factor: int,
) -> Float[Tensor, "batch heads query_len head_dim"]:
    """Algorithm 1 of Zhou et al. 2021. Each query draws its own keys, and one tensor holds the keys of all queries."""
    batch, heads, length, width = q.shape
    memory_len = k.shape[2]
    samples = min(factor * math.ceil(math.log(memory_len)), memory_len)
    top = min(factor * math.ceil(math.log(length)), length)
    drawn = torch.randint(memory_len, (length, samples))
    every_query = k[:, :, None].expand(-1, -1, length, -1, -1)
    sampled = every_query[
        :, :, torch.arange(length)[:, None], drawn
    ]  # (batch, heads, length, samples, width)
    scores = (q[:, :, :, None] @ sampled.mT).squeeze(3)
    measure = scores.amax(-1) - scores.sum(-1) / memory_len
    best = measure.topk(top).indices
    rows = torch.arange(batch)[:, None, None], torch.arange(heads)[:, None], best
    weights = (q[rows] @ k.mT / math.sqrt(width)).softmax(-1)
    out = v.mean(2, keepdim=True).expand(-1, -1, length, -1).clone()
    out[rows] = weights @ v
    return out
