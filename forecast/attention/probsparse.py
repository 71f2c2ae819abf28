"""ProbSparse attention: exact attention for the queries whose distribution is furthest from uniform.

    M(q_i) = max_j q_i·k_j/√E − mean_j q_i·k_j/√E    max over U sampled keys, mean over all
    out_i  = softmax(q_i Kᵀ / √E) V    for the u queries with the largest M
             mean(V)                   for the others

with u = clamp(factor·⌈ln L_Q⌉, 1, L_Q) and U = clamp(factor·⌈ln L_K⌉, 1, L_K). M bounds the distance of a query's
distribution from the uniform one. Cost: n·ln(n)·E time and memory.

Causal: the sample, the mean of keys, the output and the mean of V all stop at a query's own position, and its own key
is always in the sample. The selection of the top u compares all queries. A later query can take the place of an earlier
one, whose output then becomes the mean of V, so the layer is not strictly causal. In the decoders here, later positions
hold no true values.

The sample is one set for all queries ("shared", one matrix product), or one set for each query ("per_query"). In the
encoder of a model trained on ETTh1, "shared" found more of the top u of the exact measure at every length
(docs/performance.md); it is the default. Ranking "norm" is by ‖q‖, without a sample.

The authors' code draws per_query, ranks by max − (sum over the sample) / L_K ("published"), in a causal layer over keys
of all positions, and gives the other queries of a causal layer the sum of V up to them (docs/settings.md).

Source: Zhou et al. 2021, "Informer", section 3.2 (equation 4 and algorithm 1); github.com/zhouhaoyi/Informer2020.
"""

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from forecast.attention.base import Attention, Curves, Memory, Queries, check_causal_lengths, check_choice, check_sizes
from forecast.attention.full import short_softmax_attention
from forecast.attention.prefix_sums import running_mean, running_sum

SAMPLINGS = ("shared", "per_query")
RANKINGS = ("measure", "published", "norm")
LAZY = ("mean", "sum")


def check_options(sampling: str, ranking: str, lazy: str) -> None:
    """Raise ValueError for an unknown option of `ProbSparseAttention`."""
    check_choice("probsparse sampling", sampling, SAMPLINGS)
    check_choice("probsparse ranking", ranking, RANKINGS)
    check_choice("probsparse lazy", lazy, LAZY)


def probsparse_attention(
    q: Queries,
    k: Memory,
    v: Memory,
    *,
    causal: bool = False,
    factor: int = 5,
    sampling: str = "shared",
    ranking: str = "measure",
    lazy: str = "mean",
    sample_index: Int[Tensor, "query_len samples"] | Int[Tensor, " samples"] | None = None,
    top_queries: Int[Tensor, "batch heads top"] | None = None,
    random: bool = False,
) -> Queries:
    """Compute ProbSparse attention.

    Args:
        factor: multiple of ln n in the number of top queries and of sampled keys.
        sampling, ranking, lazy: see `ProbSparseAttention`.
        sample_index: positions of the sampled keys, for all queries or for each; None: they are drawn.
        top_queries: positions of the queries with exact attention; None: those with the largest measure.
        random: draw the sample from the global generator, as in training; otherwise it is evenly spaced.

    Raises ValueError: causal attention of two lengths, or an unknown option.
    """
    check_options(sampling, ranking, lazy)
    if causal:
        check_causal_lengths(q, k)
    query_len, position = q.shape[2], torch.arange(k.shape[2], device=k.device)
    if top_queries is None:
        top = sample_size(factor, query_len)
        if top == query_len:  # all queries are exact, and need no ranking
            return short_softmax_attention(q, k, v, position <= position[:, None] if causal else None)
        options: dict[str, Any] = {"factor": factor, "sampling": sampling, "ranking": ranking}
        measure = sparsity_measure(q, k, causal=causal, sample_index=sample_index, random=random, **options)
        top_queries = measure.topk(top, dim=-1, sorted=False).indices
    rows = top_queries[..., None].expand(-1, -1, -1, q.shape[3])  # (batch, heads, top, head_dim)
    seen = position <= top_queries[..., None] if causal else None  # (batch, heads, top, memory_len)
    active = short_softmax_attention(q.gather(2, rows), k, v, seen)
    if causal:
        others = running_mean(v) if lazy == "mean" else running_sum(v).to(v.dtype)
        return others.scatter(2, rows, active)
    return _MeanElsewhere.apply(v, active, rows, query_len)


class _MeanElsewhere(torch.autograd.Function):
    """Insert the active rows among rows of mean(V); backward reads the length once."""

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
    q: Queries,
    k: Memory,
    *,
    causal: bool = False,
    factor: int = 5,
    sampling: str = "shared",
    ranking: str = "measure",
    sample_index: Int[Tensor, "query_len samples"] | Int[Tensor, " samples"] | None = None,
    random: bool = False,
) -> Float[Tensor, "batch heads query_len"]:
    """Compute M of every query, or what another `ranking` ranks by, without the factor 1/√E: the order is the same."""
    if ranking == "norm":
        return torch.linalg.vector_norm(q, dim=-1)
    query_len, memory_len = q.shape[2], k.shape[2]
    causal = causal and ranking == "measure"  # the published sample has keys of later positions
    if sample_index is None:
        sample_index = _draw(query_len, k, factor, sampling, causal, random)
    if sample_index.ndim == 1 and not causal and ranking == "measure":
        # append the mean of the keys as one more key: one pass over q
        scores = q @ torch.cat([k[:, :, sample_index], k.mean(2, keepdim=True)], dim=2).mT
        return scores[..., :-1].amax(-1) - scores[..., -1]
    position = torch.arange(query_len, device=q.device)
    if sample_index.ndim == 1:
        scores = q @ k[:, :, sample_index].mT  # (batch, heads, query_len, samples)
        total = scores.sum(-1)
        if causal:
            scores = scores.masked_fill(sample_index > position[:, None], -math.inf)
        largest = scores.amax(-1)
    else:  # one sampled key at a time, so that no tensor exceeds q
        largest, total = q.new_full(q.shape[:3], -math.inf), q.new_zeros(q.shape[:3])
        for keys in sample_index.unbind(1):
            score = (q * k[:, :, keys]).sum(-1)
            total = total + score
            largest = largest.maximum(score.masked_fill(keys > position, -math.inf) if causal else score)
    if ranking == "published":
        return largest - total / memory_len
    if causal:
        return largest.maximum((q * k).sum(-1)) - (q * running_mean(k)).sum(-1)
    return largest - (q @ k.mean(2)[..., None]).squeeze(-1)


def sample_size(factor: int, length: int) -> int:
    """Compute u (top queries) or U (sampled keys) of a length: clamp(factor·⌈ln length⌉, 1, length)."""
    return min(max(factor * math.ceil(math.log(length)), 1), length)


def _draw(query_len: int, k: Tensor, factor: int, sampling: str, causal: bool, random: bool) -> Tensor:
    """Choose the positions of the sampled keys, at random or evenly spaced: (samples) or (query_len, samples)."""
    memory_len, device = k.shape[2], k.device
    samples, query = sample_size(factor, memory_len), torch.arange(query_len, device=device)[:, None]
    seen = query + 1 if causal else memory_len
    if sampling == "per_query" and random:
        return (torch.rand(query_len, samples, device=device) * seen).long().clamp(max=memory_len - 1)
    # one position in each of equal strata: at random, or in the middle
    place = torch.rand(samples, device=device) if random else 0.5
    strata = torch.arange(samples, device=device)
    spaced = ((strata + place) * (memory_len / samples)).long().clamp(max=memory_len - 1)
    return spaced if sampling == "shared" else (spaced + query) % seen  # shifted by one for each query


class ProbSparseAttention(Attention):
    """Exact attention for the top u queries, the mean of the values for the others.

    Args:
        factor: multiple of ln n in the number of top queries and of sampled keys.
        sampling: of the keys that rank the queries: shared or per_query.
        ranking: of the queries: measure, published or norm.
        lazy: output of the other queries in role causal: the mean of the values up to them, or the sum.

    Raises ValueError: see `Attention`; or an option is out of range.
    """

    roles = frozenset({"self", "causal", "cross"})
    ranks_queries = True

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        role: str,
        dropout: float = 0.0,
        factor: int = 5,
        sampling: str = "shared",
        ranking: str = "measure",
        lazy: str = "mean",
    ):
        super().__init__(d_model, n_heads, role=role, dropout=dropout)
        check_sizes(factor=factor)
        check_options(sampling, ranking, lazy)
        self.factor, self.sampling, self.ranking, self.lazy = factor, sampling, ranking, lazy

    @property
    def selection(self) -> dict[str, Any]:
        return {"factor": self.factor, "sampling": self.sampling, "ranking": self.ranking}

    def why_equal_to_softmax(self, query_len: int, memory_len: int) -> str | None:
        keeps_all = sample_size(self.factor, query_len) == query_len
        return f"keeps every one of {query_len} queries" if keeps_all else None

    def describe(self, q: Tensor, k: Tensor) -> list[Curves]:
        query_len, causal = q.shape[2], self.role == "causal"
        top = sample_size(self.factor, query_len)
        every_key = torch.arange(k.shape[2], device=k.device)
        ranked = sparsity_measure(q, k, causal=causal, **self.selection)
        exact = sparsity_measure(q, k, causal=causal, sample_index=every_key)
        selected, best = (
            torch.zeros_like(measure, dtype=torch.bool).scatter(2, measure.topk(top).indices, True)
            for measure in (ranked, exact)
        )
        by_norm = self.ranking == "norm"
        caption = (
            "The sparsity measure of each query: its largest score minus its mean score, so the distance of its "
            f"attention from uniform. Shaded: the {top} of {query_len} selected queries, ranked by "
            f"{'their norm' if by_norm else 'the measure on a sample of the keys'}. The output of the others is the "
            f"{self.lazy if causal else 'mean'} of the values. The second curve is the measure on all keys. With a "
            "good ranking, the selected queries are its peaks."
        )
        scale = q.shape[3] ** -0.5
        name = "norm of the query" if by_norm else "on the sampled keys"
        curves = {name: ranked * scale, "on all keys (exact)": exact * scale}
        found = {f"found of the exact measure's top {top}": (selected & best).sum(-1) / top}
        return [Curves("sparsity measure", caption, curves, "measure M(q), in logits", "query", selected, found)]

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        given: dict[str, Any] = {"causal": self.role == "causal", "random": self.training}
        return probsparse_attention(q, k, v, lazy=self.lazy, **given, **self.selection)
