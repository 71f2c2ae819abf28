"""The map that each attention kind implies: row i says with which weights position i mixes the values.

    map · v = what the kind's mixing returns      (Nyström: before its convolution is added)

The efficient kinds never form it, which is their point; here it is formed, pair by pair, from the definitions. All
functions take queries and keys in heads, (batch, heads, length, head_dim), so that heads can be handled one by one.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from forecast.attention.nystrom import iterative_pinv, segment_means
from forecast.attention.probsparse import rows_kept, sparsity_measure

Queries = Float[Tensor, "batch heads query_len head_dim"]
Keys = Float[Tensor, "batch heads memory_len head_dim"]
Map = Float[Tensor, "batch heads query_len memory_len"]


def seen(query_len: int, memory_len: int, causal: bool) -> Bool[Tensor, "query_len memory_len"]:
    """Whether a query may read a key."""
    everywhere = torch.ones(query_len, memory_len, dtype=torch.bool)
    return everywhere.tril() if causal else everywhere


def even_map(
    query_len: int, memory_len: int, causal: bool, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "query_len memory_len"]:
    """Every key that a query may read weighs the same."""
    return _normalised(seen(query_len, memory_len, causal).to(dtype))


def softmax_map(q: Queries, k: Keys, *, causal: bool = False) -> Map:
    """softmax(QKᵀ/√E), the map of full attention."""
    scores = q @ k.mT * q.shape[-1] ** -0.5
    if causal:
        scores = scores.masked_fill(~seen(q.shape[2], k.shape[2], True), -math.inf)
    return scores.softmax(-1)


def linear_map(
    q: Queries,
    k: Keys,
    *,
    causal: bool = False,
    feature_map: str = "elu",
    eps: float = 1e-6,
    projection: Float[Tensor, "features head_dim"] | None = None,
) -> Map:
    """φ(q_i)·φ(k_j) / (Σ_j φ(q_i)·φ(k_j) + eps), of favor eps elsewhere; see
    `forecast.attention.linear` for the feature maps φ."""
    if feature_map == "taylor":
        s = q @ k.mT * q.shape[-1] ** -0.5
        kernel = 1 + s + s.square() / 2
    elif projection is not None:
        kernel, eps = _favor_kernel(q, k, projection, causal, eps), 0.0
    else:
        phi = {"elu": lambda x: F.elu(x) + 1, "relu": F.relu}[feature_map]
        kernel = phi(q) @ phi(k).mT
    return _normalised(kernel * seen(q.shape[2], k.shape[2], causal), eps)


def _favor_kernel(q: Tensor, k: Tensor, directions: Tensor, causal: bool, eps: float) -> Tensor:
    """exp(w·q − |q|²/2) · exp(w·k − |k|²/2) / F, up to the factors that the layer takes off before it adds eps."""

    def exponent(x: Tensor) -> Tensor:
        x = x * x.shape[-1] ** -0.25
        return x @ directions.mT - x.square().sum(-1, keepdim=True) / 2

    to_query, to_key = exponent(q), exponent(k)
    to_query = to_query - to_query.amax(-1, keepdim=True)
    if not causal:
        to_key = to_key - to_key.amax((-2, -1), keepdim=True)
    return (to_query.exp() + eps) @ (to_key.exp() + eps).mT / len(directions)


def nystrom_map(q: Queries, k: Keys, *, num_landmarks: int = 32, pinv_iterations: int = 6) -> Map:
    """softmax(QK̃ᵀ/√E) · pinv(softmax(Q̃K̃ᵀ/√E)) · softmax(Q̃Kᵀ/√E). Its weights may be negative."""
    if min(q.shape[2], k.shape[2]) <= num_landmarks:
        return softmax_map(q, k)
    q_marks, k_marks = segment_means(q, num_landmarks), segment_means(k, num_landmarks)
    inverse = iterative_pinv(softmax_map(q_marks, k_marks), pinv_iterations)
    return softmax_map(q, k_marks) @ (inverse @ softmax_map(q_marks, k))


def segment_starts(length: int, segments: int) -> Int[Tensor, " segments"]:
    """The first position of each landmark's segment; the first `length % segments` are one longer."""
    size, longer = divmod(length, segments)
    number = torch.arange(segments)
    return number * size + number.clamp(max=longer)


def exact_measure(q: Queries, k: Keys, *, causal: bool = False) -> Float[Tensor, "batch heads query_len"]:
    """M(q) = max_j q·k_j/√E − mean_j q·k_j/√E over every key that the query may read."""
    scores = q @ k.mT * q.shape[-1] ** -0.5
    allowed = seen(q.shape[2], k.shape[2], causal)
    largest = scores.masked_fill(~allowed, -math.inf).amax(-1)
    return largest - (scores * allowed).sum(-1) / allowed.sum(-1)


def sampled_measure(
    q: Queries, k: Keys, *, causal: bool = False, factor: int = 5, sampling: str = "shared"
) -> Float[Tensor, "batch heads query_len"]:
    """The same on the evenly spaced sample of keys by which ProbSparse ranks its queries when it forecasts."""
    measure = sparsity_measure(q, k, causal=causal, factor=factor, sampling=sampling)
    return measure * q.shape[-1] ** -0.5


def top_queries(
    measure: Float[Tensor, "batch heads query_len"], factor: int
) -> Int[Tensor, "batch heads top"]:
    """The u queries of largest measure, in the order of time."""
    return measure.topk(rows_kept(factor, measure.shape[-1]), dim=-1).indices.sort(-1).values


def probsparse_map(q: Queries, k: Keys, kept: Int[Tensor, "batch heads top"], *, causal: bool = False) -> Map:
    """Rows of softmax for the kept queries, the even row for the others."""
    is_kept = torch.zeros(q.shape[:3], dtype=torch.bool).scatter(2, kept, True)
    even = even_map(q.shape[2], k.shape[2], causal, q.dtype)
    return torch.where(is_kept[..., None], softmax_map(q, k, causal=causal), even)


def pooling_weights(
    q: Queries,
    k: Queries,
    *,
    query_logit: Float[Tensor, "heads head_dim"],
    key_logit: Float[Tensor, "heads head_dim"],
    causal: bool = False,
    interaction: str = "product",
    concat_weight: Float[Tensor, "heads head_dim twice"] | None = None,
) -> tuple[Float[Tensor, "batch heads rows query_len"], Float[Tensor, "batch heads rows query_len"]]:
    """Fastformer's α over the queries and β over the keys.

    One row for all positions, or, causal, a row for each position over its own prefix.
    """
    alpha = _pool_weights(q, query_logit, causal)
    query = alpha @ q  # (batch, heads, 1 or query_len, head_dim)
    return alpha, _pool_weights(_interact(query, k, interaction, concat_weight), key_logit, causal)


def _pool_weights(x: Tensor, logit: Tensor, causal: bool) -> Tensor:
    scores = (x @ logit[..., None]).mT * x.shape[-1] ** -0.5  # (batch, heads, 1, length)
    if not causal:
        return scores.softmax(-1)
    length = x.shape[2]
    return scores.masked_fill(~seen(length, length, True), -math.inf).softmax(-1)


def _interact(query: Tensor, k: Tensor, interaction: str, concat_weight: Tensor | None) -> Tensor:
    if concat_weight is not None:
        return torch.cat([query.expand_as(k), k], dim=-1) @ concat_weight.mT
    return query * k if interaction == "product" else query + k


def _normalised(weights: Tensor, eps: float = 0) -> Tensor:
    return weights / (weights.sum(-1, keepdim=True) + eps)
