"""Numbers of an attention layer on one window that every attention type has, so that types can be compared."""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from forecast.attention import FastformerAttention
from forecast.reports.compare.layer_table import ENTROPY, RECENT, SOFTMAX, UNEVEN
from forecast.tools.explain import maps
from forecast.tools.explain.implied_map import NoMapError, fastformer_poolings, head_map
from forecast.tools.explain.layer import Layer
from forecast.tools.explain.measures import mean, relative_error, row_entropy, weight_within


@dataclass(frozen=True)
class LayerNumber:
    """A number of one map, averaged over the heads.

    Attributes:
        map: α or β for the poolings of Fastformer; empty for the map of another type.
        name: entropy, from_uniform, from_softmax or last_season.
        value: a fraction.
        uniform: the value of uniform attention; NaN if it is unknown.
    """

    map: str
    name: str
    value: float
    uniform: float


def measure_layer(layer: Layer) -> list[LayerNumber]:
    """Measure the maps of a layer. Negative weights count as zero in all numbers but `from_softmax`.

    - entropy: mean entropy of a row, divided by that of uniform attention.
    - from_uniform: half the sum of |weight − uniform weight| over a row: the share of the weight that would have to
      move to make the row uniform.
    - from_softmax: ‖(map − softmax) · v‖ / ‖softmax · v‖; a pooling has none.
    - last_season: the share of the weight on the last season of the past; none if it holds all keys or none.

    A map of zeros, as that of `cross=none`, has no numbers, and neither has a layer without a map.

    Raises:
        ConfigError: the map is too large.
    """
    layer.check_size()
    recent = layer.recent_positions()
    chosen = None if recent is None else torch.from_numpy(recent)
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for head, q, k, v, _ in layer.each_head():
        for name, weights in find_maps(layer, head, q, k):
            if not weights.any():
                continue
            even = maps.uniform_map(len(weights), weights.shape[1], layer.call.causal and len(weights) > 1)
            rows = normalise_rows(weights)
            numbers = {ENTROPY: (row_entropy(rows) / (row_entropy(even) or math.nan), 1.0)}
            numbers[UNEVEN] = (float((rows - even).abs().sum(-1).mean()) / 2, 0.0)
            if not name:
                softmax = maps.softmax_map(q, k, causal=layer.call.causal)[0, 0]
                numbers[SOFTMAX] = (relative_error(weights @ v[0, 0], softmax @ v[0, 0]), math.nan)
            if chosen is not None:
                numbers[RECENT] = (weight_within(rows, chosen), weight_within(even, chosen))
            for number, values in numbers.items():
                found.setdefault((name, number), []).append(values)
    return [
        LayerNumber(name, number, mean([value for value, _ in values]), mean([even for _, even in values]))
        for (name, number), values in found.items()
    ]


def find_maps(
    layer: Layer, head: int, q: Tensor, k: Tensor
) -> Iterator[tuple[str, Float[Tensor, "rows memory_len"]]]:
    """Yield the map of a head, or the two poolings of Fastformer by name; nothing without a map."""
    attention = layer.call.attention
    if isinstance(attention, FastformerAttention):
        for name, weights in zip("αβ", fastformer_poolings(attention, head, q, k), strict=True):
            yield name, weights[0, 0]
        return
    with suppress(NoMapError):
        yield "", head_map(attention, head, q, k)[0, 0]


def normalise_rows(weights: Float[Tensor, "rows memory_len"]) -> Float[Tensor, "rows memory_len"]:
    """Divide the positive part of each row by its sum."""
    positive = weights.clamp(min=0)
    return positive / positive.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
