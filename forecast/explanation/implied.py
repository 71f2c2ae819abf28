"""From an attention layer and what went into its mixing to the map, or the poolings, that it implies."""

from functools import singledispatch

from torch import Tensor

from forecast.attention import (
    Attention,
    FastformerAttention,
    FullAttention,
    LinearAttention,
    NystromAttention,
    ProbSparseAttention,
)
from forecast.errors import ConfigError
from forecast.explanation import maps


@singledispatch
def implied_map(attention: Attention, q: Tensor, k: Tensor) -> Tensor:
    """The weights (batch, heads, query_len, memory_len) with which the layer mixes the values, of any of its heads.

    Raises ConfigError for a kind that has no such map.
    """
    kind = type(attention).__name__
    raise ConfigError(
        f"{kind} has no map to draw; choose other layers by slot=encoder, decoder or cross, and layer="
    )


@implied_map.register
def _full(attention: FullAttention, q: Tensor, k: Tensor) -> Tensor:
    return maps.softmax_map(q, k, causal=attention.role == "causal")


@implied_map.register
def _probsparse(attention: ProbSparseAttention, q: Tensor, k: Tensor) -> Tensor:
    kept = maps.top_queries(ranking_measure(attention, q, k), attention.factor)
    return maps.probsparse_map(q, k, kept, causal=attention.role == "causal")


@implied_map.register
def _linear(attention: LinearAttention, q: Tensor, k: Tensor) -> Tensor:
    return maps.linear_map(
        q,
        k,
        causal=attention.role == "causal",
        feature_map=attention.feature_map,
        eps=attention.eps,
        projection=attention.projection,
    )


@implied_map.register
def _nystrom(attention: NystromAttention, q: Tensor, k: Tensor) -> Tensor:
    return maps.nystrom_map(
        q, k, num_landmarks=attention.num_landmarks, pinv_iterations=attention.pinv_iterations
    )


def ranking_measure(attention: ProbSparseAttention, q: Tensor, k: Tensor) -> Tensor:
    """The measure by which the layer ranks its queries when it forecasts (batch, heads, query_len)."""
    return maps.sampled_measure(
        q, k, causal=attention.role == "causal", factor=attention.factor, sampling=attention.sampling
    )


def fastformer_poolings(
    attention: FastformerAttention, head: int, q: Tensor, k: Tensor
) -> tuple[Tensor, Tensor]:
    """α and β of one head, whose q and k these are: (batch, 1, 1, length), causal (batch, 1, length, length)."""
    concat = attention.concat_weight
    return maps.pooling_weights(
        q,
        k,
        query_logit=_of_head(attention.query_logit, head),
        key_logit=_of_head(attention.key_logit, head),
        causal=attention.role == "causal",
        interaction=attention.interaction,
        concat_weight=None if concat is None else _of_head(concat, head),
    )


def _of_head(weight: Tensor, head: int) -> Tensor:
    """(1, ...): the head's own, or the one that all heads share."""
    return weight[min(head, len(weight) - 1)][None].detach()
