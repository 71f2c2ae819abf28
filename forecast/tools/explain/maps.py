"""The attention map that each attention type implies: row i holds the weights of the values in output i.

    map · v = output of the mixing      (Nyström: before its convolution is added)

The efficient types never form this map. Here it is formed from their definitions, pair by pair. All functions take
queries and keys of shape (batch, heads, length, head_dim).
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from forecast.attention.nystrom import iterative_pinv, segment_means
from forecast.attention.probsparse import sample_size, sparsity_measure

Queries = Float[Tensor, "batch heads query_len head_dim"]
Keys = Float[Tensor, "batch heads memory_len head_dim"]
Map = Float[Tensor, "batch heads query_len memory_len"]


def visible_keys(query_len: int, memory_len: int, causal: bool) -> Bool[Tensor, "query_len memory_len"]:
    """Whether each query may attend to each key."""
    every_pair = torch.ones(query_len, memory_len, dtype=torch.bool)
    return every_pair.tril() if causal else every_pair


def uniform_map(
    query_len: int, memory_len: int, causal: bool, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "query_len memory_len"]:
    """Equal weights for all keys that a query may attend to."""
    return _normalised(visible_keys(query_len, memory_len, causal).to(dtype))


def softmax_map(q: Queries, k: Keys, *, causal: bool = False) -> Map:
    """softmax(QKᵀ/√E): full attention."""
    scores = q @ k.mT * q.shape[-1] ** -0.5
    if causal:
        scores = scores.masked_fill(~visible_keys(q.shape[2], k.shape[2], True), -math.inf)
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
    """φ(q_i)·φ(k_j) / (Σ_j φ(q_i)·φ(k_j) + eps): linear attention.

    The feature maps φ are those of `forecast.attention.linear`; favor adds eps to the features instead.
    """
    if feature_map == "taylor":
        s = q @ k.mT * q.shape[-1] ** -0.5
        kernel = 1 + s + s.square() / 2
    elif projection is not None:
        kernel, eps = _favor_kernel(q, k, projection, causal, eps), 0.0
    else:
        phi = {"elu": lambda x: F.elu(x) + 1, "relu": F.relu}[feature_map]
        kernel = phi(q) @ phi(k).mT
    return _normalised(kernel * visible_keys(q.shape[2], k.shape[2], causal), eps)


def _favor_kernel(q: Tensor, k: Tensor, directions: Tensor, causal: bool, eps: float) -> Tensor:
    """exp(w·q − |q|²/2) · exp(w·k − |k|²/2) / F, without the factors that the layer removes before it adds eps."""

    def exponent(x: Tensor) -> Tensor:
        x = x * x.shape[-1] ** -0.25
        return x @ directions.mT - x.square().sum(-1, keepdim=True) / 2

    to_query, to_key = exponent(q), exponent(k)
    to_query = to_query - to_query.amax(-1, keepdim=True)
    if not causal:
        to_key = to_key - to_key.amax((-2, -1), keepdim=True)
    return (to_query.exp() + eps) @ (to_key.exp() + eps).mT / len(directions)


def nystrom_map(q: Queries, k: Keys, *, num_landmarks: int = 32, pinv_iterations: int = 6) -> Map:
    """softmax(QK̃ᵀ/√E) · pinv(softmax(Q̃K̃ᵀ/√E)) · softmax(Q̃Kᵀ/√E). Weights may be negative."""
    if min(q.shape[2], k.shape[2]) <= num_landmarks:
        return softmax_map(q, k)
    q_marks, k_marks = segment_means(q, num_landmarks), segment_means(k, num_landmarks)
    inverse = iterative_pinv(softmax_map(q_marks, k_marks), pinv_iterations)
    return softmax_map(q, k_marks) @ (inverse @ softmax_map(q_marks, k))


def gated_delta_map(
    q: Queries,
    k: Keys,
    *,
    log_decay: Float[Tensor, "batch heads memory_len"] | None,
    strength: Float[Tensor, "batch heads memory_len"] | None,
    role: str,
) -> Map:
    """The weights of the values in the outputs of `forecast.attention.delta_rule`. They may be negative."""
    if role != "self":
        return _delta_map(q, k, log_decay, strength, role)
    later = _delta_map(q.flip(2), k.flip(2), _flipped(log_decay), _flipped(strength), role).flip(2, 3)
    return _delta_map(q, k, log_decay, strength, "causal") + later


def _flipped(gate: Tensor | None) -> Tensor | None:
    return None if gate is None else gate.flip(2)


def _delta_map(q: Tensor, k: Tensor, log_decay: Tensor | None, strength: Tensor | None, role: str) -> Tensor:
    """The weights of one pass over the keys; in role self, a query does not read its own key."""
    total = (torch.zeros_like(k[..., 0]) if log_decay is None else log_decay).cumsum(-1)
    # the product of α after key j up to position i
    decay = (total[..., None] - total[..., None, :]).tril().exp().tril()
    kept = decay[..., -1:, :] if role == "cross" else decay.tril(0 if role == "causal" else -1)
    read = (q @ k.mT) * kept
    if strength is None:
        return read
    erased = (k @ k.mT * decay * strength[..., None]).tril(-1)
    solved = torch.linalg.solve_triangular(erased, read, upper=False, left=False, unitriangular=True)
    return solved * strength[..., None, :]


def segment_starts(length: int, segments: int) -> Int[Tensor, " segments"]:
    """The first position of each landmark's segment; the first `length % segments` segments are one longer."""
    size, longer = divmod(length, segments)
    number = torch.arange(segments)
    return number * size + number.clamp(max=longer)


def exact_measure(q: Queries, k: Keys, *, causal: bool = False) -> Float[Tensor, "batch heads query_len"]:
    """M(q) = max_j q·k_j/√E − mean_j q·k_j/√E over all keys that the query may attend to."""
    scores = q @ k.mT * q.shape[-1] ** -0.5
    allowed = visible_keys(q.shape[2], k.shape[2], causal)
    largest = scores.masked_fill(~allowed, -math.inf).amax(-1)
    return largest - (scores * allowed).sum(-1) / allowed.sum(-1)


def sampled_measure(
    q: Queries, k: Keys, *, causal: bool = False, factor: int = 5, sampling: str = "shared"
) -> Float[Tensor, "batch heads query_len"]:
    """The measure on the evenly spaced sample of keys that ProbSparse uses in evaluation mode."""
    measure = sparsity_measure(q, k, causal=causal, factor=factor, sampling=sampling)
    return measure * q.shape[-1] ** -0.5


def top_queries(
    measure: Float[Tensor, "batch heads query_len"], factor: int
) -> Int[Tensor, "batch heads top"]:
    """The positions of the u queries with the largest measure, in increasing order."""
    return measure.topk(sample_size(factor, measure.shape[-1]), dim=-1).indices.sort(-1).values


def probsparse_map(
    q: Queries, k: Keys, selected: Int[Tensor, "batch heads top"], *, causal: bool = False
) -> Map:
    """Rows of softmax for the selected queries, uniform rows for the others."""
    is_selected = torch.zeros(q.shape[:3], dtype=torch.bool).scatter(2, selected, True)
    uniform = uniform_map(q.shape[2], k.shape[2], causal, q.dtype)
    return torch.where(is_selected[..., None], softmax_map(q, k, causal=causal), uniform)


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

    All positions share one row; if causal, each position has a row over its own prefix.
    """
    alpha = _pool_weights(q, query_logit, causal)
    query = alpha @ q  # (batch, heads, 1 or query_len, head_dim)
    return alpha, _pool_weights(_interact(query, k, interaction, concat_weight), key_logit, causal)


def _pool_weights(x: Tensor, logit: Tensor, causal: bool) -> Tensor:
    scores = (x @ logit[..., None]).mT * x.shape[-1] ** -0.5  # (batch, heads, 1, length)
    if not causal:
        return scores.softmax(-1)
    length = x.shape[2]
    return scores.masked_fill(~visible_keys(length, length, True), -math.inf).softmax(-1)


def _interact(query: Tensor, k: Tensor, interaction: str, concat_weight: Tensor | None) -> Tensor:
    if concat_weight is not None:
        return torch.cat([query.expand_as(k), k], dim=-1) @ concat_weight.mT
    return query * k if interaction == "product" else query + k


def _normalised(weights: Tensor, eps: float = 0) -> Tensor:
    return weights / (weights.sum(-1, keepdim=True) + eps)
