"""The attention map of a layer: how it is measured, its numbers and its pictures.

A map is measured from the outputs of the layer, in the same way for every attention type. A layer that mixes values
with weights has the map of these weights: row i holds the weights of the values in output i.

    map · v = output of the mixing      (without parts of constant weights, see `Attention.mix_by_content`)

The map of any other layer holds influences: how much output i changes if the token j is replaced by the mean token.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from forecast.attention import Curves
from forecast.system.errors import ConfigError
from forecast.tools.explain.figures import (
    RELATIVE_WEIGHT,
    MapColumn,
    Picture,
    block_size,
    curve_figure,
    map_figure,
    shrink_map,
)
from forecast.tools.explain.layers import Call, Layer

MAX_WEIGHTS = 2**27
"""Largest number of weights of all heads of a map. They then take 512 MiB; a few such tensors exist at a time."""
TOLERANCE = 1e-3
"""Largest relative difference between a measured map times values and the output of the layer."""
COLOURS = "White: as much weight as uniform attention gives. Red: more. Blue: less."

Map = Float[Tensor, "heads query_len memory_len"]


@dataclass(frozen=True)
class Number:
    """A measured value.

    Attributes:
        what: name of the quantity.
        value: a count if it is an int.
        unit: "%" shows the fraction 1 as 100%.
        beside: reference values by name.
    """

    what: str
    value: float | int
    unit: str = ""
    beside: dict[str, float | int] = field(default_factory=dict)

    def __str__(self) -> str:
        others = "; ".join(f"{name}: {self._format(value)}" for name, value in self.beside.items())
        return f"{self.what} {self._format(self.value)}" + (f" ({others})" if others else "")

    def _format(self, value: float | int) -> str:
        if self.unit == "%":
            return f"{100 * value:.1f}%"
        return f"{value:,}" if isinstance(value, int) else f"{value:.2f} {self.unit}".strip()


@dataclass(frozen=True)
class Explanation:
    """The pictures and numbers of one layer."""

    layer: Layer
    pictures: list[Picture]
    numbers: list[Number]


@torch.no_grad()
def explain_layer(layer: Layer) -> Explanation:
    """The pictures and numbers of a layer.

    Raises:
        ConfigError: the map is too large.
    """
    pairs = len(layer.queries) * len(layer.keys)
    if pairs * len(layer.heads) > MAX_WEIGHTS:
        one_head = ", or one head with head=0" if pairs <= MAX_WEIGHTS else ""
        raise ConfigError(
            f"{layer.title}: {len(layer.heads)} maps of {len(layer.queries):,} × {len(layer.keys):,} positions are too "
            f"large to draw (limit: {MAX_WEIGHTS:,} weights): choose another slot= or layer={one_head}"
        )
    weights = measure_weights(layer.call, layer.heads)
    is_influence = weights is None
    if weights is None:
        weights = measure_influence(layer.call, layer.heads)
    softmax = None if is_influence else softmax_of(layer, weights)
    numbers = list(number_weights(layer, weights, softmax, "influence" if is_influence else "attention"))
    if not is_influence:
        numbers += compare_outputs(layer, weights, softmax)
    pictures = [draw_map(layer, weights, softmax, is_influence=is_influence)]
    for curves in layer.call.attention.describe(layer.call.q, layer.call.k):
        pictures.append(draw_curves(layer, curves))
        numbers += number_curves(layer, curves)
    return Explanation(layer, pictures, numbers)


def measure_weights(call: Call, heads: list[int]) -> Map | None:
    """The weights of the values, from the outputs for values that are one at one position and zero elsewhere.

    Each channel of the values stands for another position, so one call measures `head_dim` columns of the map. Returns
    None if the layer does not mix values with weights: the map times other values is not its output.
    """
    attention, q, k = call.attention, call.q, call.k
    columns = []
    for unit in torch.eye(k.shape[2], dtype=k.dtype, device=k.device).split(k.shape[3], dim=1):
        values = F.pad(unit, (0, k.shape[3] - unit.shape[1])).expand(*k.shape[:2], -1, -1)
        columns.append(attention.mix_by_content(q, k, values.contiguous())[0, heads, :, : unit.shape[1]])
    weights = torch.cat(columns, -1)
    values = torch.randn(k.shape, generator=torch.Generator().manual_seed(0)).to(k)
    expected = attention.mix_by_content(q, k, values)[0, heads]
    is_linear = torch.dist(weights @ values[0, heads], expected) <= TOLERANCE * expected.norm()
    return weights if is_linear else None


def measure_influence(call: Call, heads: list[int], batch: int = 64) -> Map:
    """The norm of the change of output i if the token j is replaced by the mean token; each row sums to one.

    The token enters as key and value, and as query in a layer of one sequence. `batch` tokens are replaced in one call.
    """
    attention, before = call.attention, call.mixed[:, heads]
    replaced = (False, True, True) if attention.role == "cross" else (True, True, True)
    rows = []
    for positions in torch.arange(call.k.shape[2]).split(batch):
        inputs = []
        for x, is_replaced in zip((call.q, call.k, call.v), replaced, strict=True):
            tokens = x.expand(len(positions), -1, -1, -1).clone()  # (positions, heads, length, head_dim)
            if is_replaced:
                tokens[torch.arange(len(positions)), :, positions] = x.mean(2)
            inputs.append(tokens)
        rows.append((attention.mix(*inputs)[:, heads] - before).norm(dim=-1))
    return shares(torch.cat(rows).permute(1, 2, 0))


def visible_keys(query_len: int, memory_len: int, *, causal: bool) -> Bool[Tensor, "query_len memory_len"]:
    """Whether each query may attend to each key."""
    every_pair = torch.ones(query_len, memory_len, dtype=torch.bool)
    return every_pair.tril() if causal else every_pair


def uniform_weights(layer: Layer) -> Float[Tensor, "query_len memory_len"]:
    """Equal weights for all keys that a query may attend to."""
    visible = visible_keys(len(layer.queries), len(layer.keys), causal=layer.call.causal).float()
    return visible / visible.sum(-1, keepdim=True)


def softmax_weights(
    q: Float[Tensor, "heads query_len head_dim"],
    k: Float[Tensor, "heads memory_len head_dim"],
    *,
    causal: bool = False,
) -> Map:
    """softmax(QKᵀ/√E): full attention."""
    scores = q @ k.mT * q.shape[-1] ** -0.5
    visible = visible_keys(q.shape[1], k.shape[1], causal=causal)
    return scores.masked_fill(~visible, -math.inf).softmax(-1)


def softmax_of(layer: Layer, weights: Map) -> Map | None:
    """Softmax of the same queries and keys; None if the layer has no projected queries or is softmax attention."""
    if layer.call.attention.uses_only_values:
        return None
    q, k = (x[0, layer.heads] for x in (layer.call.q, layer.call.k))
    softmax = softmax_weights(q, k, causal=layer.call.causal)
    return None if torch.dist(weights, softmax) <= TOLERANCE * softmax.norm() else softmax


def shares(weights: Float[Tensor, "*rows memory_len"]) -> Float[Tensor, "*rows memory_len"]:
    """Divide the positive part of each row by its sum."""
    positive = weights.clamp(min=0)
    return positive / positive.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)


def row_entropy(weights: Float[Tensor, "... rows memory_len"]) -> float:
    """Mean entropy of the rows in bits, of their positive part; uniform attention to n positions has log2(n)."""
    return float(torch.special.entr(shares(weights)).sum(-1).mean()) / math.log(2)


def weight_within(
    weights: Float[Tensor, "... rows memory_len"], chosen: Bool[Tensor, " memory_len"]
) -> float:
    """The fraction of the weight of each head that lies on the chosen positions, mean over the heads."""
    return float((weights[..., chosen].sum((-2, -1)) / weights.sum((-2, -1))).mean())


def relative_error(found: Map, exact: Map) -> float:
    """‖found − exact‖ / ‖exact‖ of each head in the Frobenius norm, mean over the heads."""
    return float(((found - exact).norm(dim=(-2, -1)) / exact.norm(dim=(-2, -1))).mean())


def number_weights(layer: Layer, weights: Map, softmax: Map | None, what: str) -> Iterator[Number]:
    """The numbers of a map that every attention type has; none of a map of zeros. `what` names its weights."""
    if not weights.any():
        return
    uniform = uniform_weights(layer)
    beside = {} if softmax is None else {"softmax": row_entropy(softmax)}
    beside["uniform"] = row_entropy(uniform)
    yield Number("entropy of a row", row_entropy(weights), "bits", beside)
    differs = (shares(weights) - uniform).abs().sum(-1).mean() / 2
    yield Number(f"{what} that differs from uniform", float(differs), "%")
    if weights.min() < -TOLERANCE * weights.abs().max():
        negative = -weights.clamp(max=0).sum((-2, -1)) / weights.abs().sum((-2, -1))
        yield Number("negative part of the weights", float(negative.mean()), "%")
    yield from number_recent(layer, what, weights, uniform)


def number_recent(layer: Layer, what: str, weights: Tensor, uniform: Tensor) -> Iterator[Number]:
    """The weight on the last season of the past; none if it holds all keys or none of them."""
    recent = layer.recent_positions()
    if recent is not None:
        chosen = torch.from_numpy(recent)
        name = f"{what} on the last {layer.recent} steps of history"
        yield Number(name, weight_within(weights, chosen), "%", {"uniform": weight_within(uniform, chosen)})


def compare_outputs(layer: Layer, weights: Map, softmax: Map | None) -> Iterator[Number]:
    """What the layer adds to its map, and how much its map differs from softmax."""
    v, mixed = (x[0, layer.heads] for x in (layer.call.v, layer.call.mixed))
    if softmax is not None:
        yield Number("relative difference of the map from softmax", relative_error(weights, softmax), "%")
        difference = relative_error(weights @ v, softmax @ v)
        yield Number("relative difference of the output from softmax", difference, "%")
    if torch.dist(weights @ v, mixed) > TOLERANCE * mixed.norm():
        added = relative_error(mixed, weights @ v)
        yield Number("size of the part of the output with constant weights", added, "%")


def number_curves(layer: Layer, curves: Curves) -> Iterator[Number]:
    """The numbers of the quantities that an attention type adds."""
    if curves.selected is not None:
        what = "selected queries" if curves.over == "query" else "selected keys"
        yield Number(what, int(curves.selected[0, 0].sum()), "", {"of": curves.selected.shape[2]})
    for name, fraction in curves.fractions.items():
        yield Number(name, float(fraction[0, layer.heads].mean()), "%")
    if curves.unit:
        return
    for name, values in curves.values.items():
        weights = values[0, layer.heads, None]  # (heads, 1, length)
        uniform = torch.full_like(weights, 1 / weights.shape[-1])
        yield Number(f"entropy of {name}", row_entropy(weights), "bits", {"uniform": row_entropy(uniform)})
        yield from number_recent(layer, name, weights, uniform)


def draw_map(layer: Layer, weights: Map, softmax: Map | None, *, is_influence: bool) -> Picture:
    """The map of each head, relative to uniform attention, beside softmax if it differs."""
    shown, causal = len(layer.pictured), layer.call.causal
    counts = visible_keys(*weights.shape[1:], causal=causal).sum(-1, keepdim=True)

    def images(weights: Map) -> list[np.ndarray]:
        return [shrink_map((one * counts).numpy(), causal=causal) for one in weights[:shown]]

    columns = [MapColumn("influence" if is_influence else layer.attention_type, images(weights))]
    if softmax is not None:
        columns += [
            MapColumn("softmax", images(softmax)),
            MapColumn("difference", images(weights - softmax), is_difference=True),
        ]
    figure = map_figure(columns, layer.pictured, layer.queries, layer.keys, layer.figure_title)
    return Picture(layer.file, figure, caption_map(layer, weights, softmax, is_influence=is_influence))


def caption_map(layer: Layer, weights: Map, softmax: Map | None, *, is_influence: bool) -> str:
    """How to read the picture of a map."""
    attention, sizes = layer.call.attention, (block_size(len(layer.queries)), block_size(len(layer.keys)))
    what = "Each row is a query, each column a key."
    if is_influence:
        what = (
            "This layer does not mix values with weights. Row i shows how much the output at position i changes if one "
            "position is replaced by the mean of all positions, as shares of the row."
        )
    elif attention.uses_only_values:
        what = "A control: the map is the same in every window."
    elif softmax is not None:
        what = (
            "Left: the weights with which the layer mixes the values; each row is a query, each column a key. Middle: "
            "softmax of the same queries and keys. Right: their difference; orange is weight that the layer adds, "
            "violet is weight that it removes. The layer was trained with its own map, so this is not an error."
        )
    elif reason := attention.why_equal_to_softmax(len(layer.queries), len(layer.keys)):
        what += f" The layer {reason}, so its map is that of softmax."
    hint = (
        "A red column is a time that every query attends to. A red stripe parallel to the diagonal is a fixed lag, "
        "such as the same hour one day earlier."
    )
    parts = [what, COLOURS, "" if attention.uses_only_values else hint]
    if weights.min() < 0:
        parts.append("Negative weights are drawn in the darkest blue.")
    parts.append(layer.notes())
    if max(sizes) > 1:
        parts.append(f"A pixel is the mean over {sizes[0]} × {sizes[1]} positions.")
    return " ".join(part for part in parts if part)


def draw_curves(layer: Layer, curves: Curves) -> Picture:
    """The quantities that an attention type adds to its map, over time; weights relative to uniform attention."""
    when = layer.queries if curves.over == "query" else layer.keys
    factor = 1 if curves.unit else len(when)
    values = {name: [*(factor * x[0, layer.heads]).numpy()] for name, x in curves.values.items()}
    marked = None
    if curves.selected is not None:
        marked = [one.nonzero()[:, 0].numpy() for one in curves.selected[0, layer.heads]]
    level = None if curves.unit else 1.0
    title = f"{layer.figure_title}, {curves.name}"
    unit = curves.unit or RELATIVE_WEIGHT
    figure = curve_figure(values, layer.pictured, when, title, unit, level=level, marked=marked)
    caption = curves.caption
    if not curves.unit:
        caption += " Above the dashed line a step has more weight than with uniform attention, below it less."
    name = f"{layer.file}-{curves.name.replace(' ', '-')}"
    return Picture(name, figure, f"{caption} {layer.notes(is_map=False)}")
