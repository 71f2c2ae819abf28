"""The attention map, or the poolings, that an attention layer implies for given queries and keys."""

from functools import singledispatch

import torch
import torch.nn.functional as F
from torch import Tensor

from forecast.attention import (
    Attention,
    FastformerAttention,
    FullAttention,
    GatedDeltaAttention,
    LinearAttention,
    NoneAttention,
    NystromAttention,
    ProbSparseAttention,
    UniformAttention,
)
from forecast.system.errors import ConfigError
from forecast.tools.explain import maps

TOLERANCE = 1e-3
"""Largest relative difference between a measured map times values and the output of the layer."""


class NoMapError(ConfigError):
    """The layer does not mix values with weights."""


@singledispatch
def implied_map(attention: Attention, q: Tensor, k: Tensor) -> Tensor:
    """The weights (batch, heads, query_len, memory_len) with which the layer mixes the values.

    The map of a type without a function of its own is measured.

    Raises:
        NoMapError: the layer does not mix values with weights.
    """
    return measure_map(attention, q, k)


@torch.no_grad()
def measure_map(attention: Attention, q: Tensor, k: Tensor) -> Tensor:
    """The map of a layer from its outputs for values that are one at one position and zero elsewhere.

    Each channel of the values stands for another position, so one call measures `head_dim` columns of the map.

    Raises:
        NoMapError: the map times other values is not the output of the layer.
    """
    units = torch.eye(k.shape[2], dtype=k.dtype, device=k.device)
    columns = []
    for unit in units.split(k.shape[3], dim=1):
        values = F.pad(unit, (0, k.shape[3] - unit.shape[1])).expand(*k.shape[:2], -1, -1)
        columns.append(attention.mix(q, k, values.contiguous())[..., : unit.shape[1]])
    weights = torch.cat(columns, -1)
    values = torch.randn(k.shape, generator=torch.Generator().manual_seed(0)).to(k)
    expected = attention.mix(q, k, values)
    if not torch.dist(weights @ values, expected) <= TOLERANCE * expected.norm():
        raise NoMapError(f"{attention.type_name()} mixes values without weights, so there is no map to draw")
    return weights


@implied_map.register
def _full(attention: FullAttention, q: Tensor, k: Tensor) -> Tensor:
    return maps.softmax_map(q, k, causal=attention.role == "causal")


@implied_map.register
def _probsparse(attention: ProbSparseAttention, q: Tensor, k: Tensor) -> Tensor:
    selected = maps.top_queries(ranking_measure(attention, q, k), attention.factor)
    return maps.probsparse_map(q, k, selected, causal=attention.role == "causal")


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


@implied_map.register
def _gated_delta(attention: GatedDeltaAttention, q: Tensor, k: Tensor) -> Tensor:
    every = range(attention.n_heads)
    return torch.cat(
        [_gated_delta_head(attention, head, q[:, [head]], k[:, [head]]) for head in every], dim=1
    )


@implied_map.register
def _none(attention: NoneAttention, q: Tensor, k: Tensor) -> Tensor:
    own = q.new_zeros(q.shape[2], k.shape[2])
    return (own if attention.role == "cross" else own.fill_diagonal_(1)).expand(*q.shape[:2], -1, -1)


@implied_map.register
def _uniform(attention: UniformAttention, q: Tensor, k: Tensor) -> Tensor:
    weights = maps.uniform_map(q.shape[2], k.shape[2], attention.role == "causal", q.dtype)
    return weights.expand(*q.shape[:2], -1, -1)


@singledispatch
def head_map(attention: Attention, head: int, q: Tensor, k: Tensor) -> Tensor:
    """The `implied_map` of one head, from its q and k (batch, 1, length, head_dim).

    A type whose heads have parameters of their own that shape the map registers a function here too. Where the map is
    measured, every head reads this q and k.
    """
    if implied_map.dispatch(type(attention)) is implied_map.dispatch(Attention):
        every = (x.expand(-1, attention.n_heads, -1, -1).contiguous() for x in (q, k))
        return measure_map(attention, *every)[:, [head]]
    return implied_map(attention, q, k)


@head_map.register
def _gated_delta_head(attention: GatedDeltaAttention, head: int, q: Tensor, k: Tensor) -> Tensor:
    log_decay, strength = attention.memory_gates(k.expand(-1, attention.n_heads, -1, -1))
    return maps.gated_delta_map(
        F.normalize(q, dim=-1),
        F.normalize(k, dim=-1),
        log_decay=None if log_decay is None else log_decay[:, [head]].detach(),
        strength=None if strength is None else strength[:, [head]].detach(),
        role=attention.role,
    )


def ranking_measure(attention: ProbSparseAttention, q: Tensor, k: Tensor) -> Tensor:
    """The measure by which the layer ranks its queries in evaluation mode (batch, heads, query_len)."""
    return maps.sampled_measure(
        q, k, causal=attention.role == "causal", factor=attention.factor, sampling=attention.sampling
    )


def fastformer_poolings(
    attention: FastformerAttention, head: int, q: Tensor, k: Tensor
) -> tuple[Tensor, Tensor]:
    """α and β of one head, from its q and k: (batch, 1, 1, length), or (batch, 1, length, length) if causal."""
    concat = attention.concat_weight
    return maps.pooling_weights(
        q,
        k,
        query_logit=_head_weight(attention.query_logit, head),
        key_logit=_head_weight(attention.key_logit, head),
        causal=attention.role == "causal",
        interaction=attention.interaction,
        concat_weight=None if concat is None else _head_weight(concat, head),
    )


def _head_weight(weight: Tensor, head: int) -> Tensor:
    """The weight of one head (1, ...); heads may share one weight."""
    return weight[min(head, len(weight) - 1)][None].detach()
