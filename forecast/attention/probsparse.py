"""ProbSparse attention: only the queries that are far from uniform get an attention row of their own.

    M(q_i) = max_j q_i·k_j/√E − mean_j q_i·k_j/√E    max over U sampled keys, mean over all
    out_i  = softmax(q_i Kᵀ / √E) V    for the u queries with the largest M
             mean(V)                   for the others

with u = clamp(factor·⌈ln L_Q⌉, 1, L_Q) and U = clamp(factor·⌈ln L_K⌉, 1, L_K). M bounds how far a query's
distribution is from the uniform one. Cost (n ln n)E in time and memory.

Causal: a query's sample, its mean of keys, its answer and, for the others, the mean of V all stop at its own
position; its own key is always in the sample. Note that the choice of the top u still compares all queries
with each other, so that later positions can change which queries get a row, though never what a row contains.

The sample is one set for all queries ("shared", one matrix product) or drawn for each query as published
("per_query"). In the encoder of a model trained on ETTh1 the first found more of the exact measure's top u at every
length (docs/performance.md), so it is the default.

Source: Zhou et al. 2021, "Informer", section 3.2 (equation 4 and algorithm 1). Their code ranks by
max − (sum over the sample) / L_K and gives the causal lazy rows the running sum of V; here both are means.
"""

import math
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from forecast.attention.base import Attention, Role, check_choice, check_count
from forecast.attention.prefix import running_mean
from forecast.attention.softmax import short_softmax_attention

SAMPLINGS = ("shared", "per_query")


def probsparse_attention(
    q: Float[Tensor, "batch heads query_len head_dim"],
    k: Float[Tensor, "batch heads memory_len head_dim"],
    v: Float[Tensor, "batch heads memory_len head_dim"],
    *,
    causal: bool = False,
    factor: int = 5,
    sampling: str = "shared",
    sample_index: Int[Tensor, "query_len samples"] | Int[Tensor, " samples"] | None = None,
    top_queries: Int[Tensor, "batch heads top"] | None = None,
    random: bool = False,
) -> Float[Tensor, "batch heads query_len head_dim"]:
    """`sample_index` (the keys to measure on, for each query or for all) replaces the drawn sample, and
    `top_queries` the ranked queries.

    `random` draws the sample from the global generator, as training does; else it is evenly spaced.
    """
    query_len = q.shape[2]
    if causal and query_len != k.shape[2]:
        raise ValueError(f"causal attention needs one length, not {query_len} queries and {k.shape[2]} keys")
    if top_queries is None:
        measure = sparsity_measure(
            q, k, causal=causal, factor=factor, sampling=sampling, sample_index=sample_index, random=random
        )
        top_queries = measure.topk(rows_kept(factor, query_len), dim=-1, sorted=False).indices
    rows = top_queries[..., None].expand(-1, -1, -1, q.shape[3])  # (batch, heads, top, head_dim)
    seen = None
    if causal:  # (batch, heads, top, memory_len)
        seen = torch.arange(k.shape[2], device=k.device) <= top_queries[..., None]
    active = short_softmax_attention(q.gather(2, rows), k, v, seen)
    if causal:
        return running_mean(v).scatter(2, rows, active)
    return _MeanElsewhere.apply(v, active, rows, query_len)


class _MeanElsewhere(torch.autograd.Function):
    """The active rows where they belong and mean(V) in all others; backward passes over the length once."""

    @staticmethod
    def forward(ctx, v: Tensor, active: Tensor, rows: Tensor, query_len: int) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.memory_len = v.shape[2]
        return v.mean(2, keepdim=True).expand(-1, -1, query_len, -1).scatter(2, rows, active)

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (rows,), (grad,) = ctx.saved_tensors, grads
        to_active = grad.gather(2, rows)
        to_mean = grad.sum(2, keepdim=True) - to_active.sum(2, keepdim=True)
        return (to_mean / ctx.memory_len).expand(-1, -1, ctx.memory_len, -1), to_active, None, None


@torch.no_grad()
def sparsity_measure(
    q: Float[Tensor, "batch heads query_len head_dim"],
    k: Float[Tensor, "batch heads memory_len head_dim"],
    *,
    causal: bool = False,
    factor: int = 5,
    sampling: str = "shared",
    sample_index: Int[Tensor, "query_len samples"] | Int[Tensor, " samples"] | None = None,
    random: bool = False,
) -> Float[Tensor, "batch heads query_len"]:
    """M of every query, up to the factor 1/√E, which does not change the order."""
    check_choice("probsparse sampling", sampling, SAMPLINGS)
    query_len, memory_len = q.shape[2], k.shape[2]
    if sample_index is None:
        sample_index = _draw(query_len, memory_len, factor, sampling, causal, random, k.device)
    if sample_index.ndim == 1 and not causal:  # the mean of the keys as one more sampled key: one pass over q
        scores = q @ torch.cat([k[:, :, sample_index], k.mean(2, keepdim=True)], dim=2).mT
        return scores[..., :-1].amax(-1) - scores[..., -1]
    position = torch.arange(query_len, device=q.device)
    if sample_index.ndim == 1:
        scores = q @ k[:, :, sample_index].mT  # (batch, heads, query_len, samples)
        largest = scores.masked_fill(sample_index > position[:, None], -math.inf).amax(-1)
    else:  # one sample at a time: nothing larger than q is formed
        largest = q.new_full(q.shape[:3], -math.inf)
        for keys in sample_index.unbind(1):
            score = (q * k[:, :, keys]).sum(-1)
            if causal:
                score = score.masked_fill(keys > position, -math.inf)
            largest = largest.maximum(score)
    if causal:
        return largest.maximum((q * k).sum(-1)) - (q * running_mean(k)).sum(-1)
    return largest - (q @ k.mean(2)[..., None]).squeeze(-1)


def rows_kept(factor: int, length: int) -> int:
    """u and U: queries that get a row, or keys sampled, of so many."""
    return min(max(factor * math.ceil(math.log(length)), 1), length)


def _draw(
    query_len: int,
    memory_len: int,
    factor: int,
    sampling: str,
    causal: bool,
    random: bool,
    device: torch.device,
) -> Tensor:
    """Key positions, (samples) or (query_len, samples)."""
    samples = rows_kept(factor, memory_len)
    if sampling == "per_query" and random:
        seen = torch.arange(1, query_len + 1, device=device)[:, None] if causal else memory_len
        return (torch.rand(query_len, samples, device=device) * seen).long().clamp(max=memory_len - 1)
    # one position in each of equal strata: any place of it, or its middle
    place = torch.rand(samples, device=device) if random else 0.5
    strata = torch.arange(samples, device=device)
    spaced = ((strata + place) * (memory_len / samples)).long().clamp(max=memory_len - 1)
    if sampling == "shared":
        return spaced
    query = torch.arange(query_len, device=device)[:, None]  # moved on by one from query to query
    return (spaced + query) % (query + 1 if causal else memory_len)


class ProbSparseAttention(Attention):
    """Rows of attention for the top u queries, the uniform row's answer for the others."""

    roles: ClassVar[frozenset[Role]] = frozenset({"self", "causal", "cross"})

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        role: str,
        dropout: float = 0.0,
        factor: int = 5,
        sampling: str = "shared",
    ):
        super().__init__(d_model, n_heads, role=role, dropout=dropout)
        check_count("probsparse factor", factor)
        check_choice("probsparse sampling", sampling, SAMPLINGS)
        self.factor = factor
        self.sampling = sampling

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return probsparse_attention(
            q,
            k,
            v,
            causal=self.role == "causal",
            factor=self.factor,
            sampling=self.sampling,
            random=self.training,
        )
