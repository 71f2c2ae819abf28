"""The pictures, captions and numbers of each attention type."""

from functools import singledispatch

import numpy as np
import torch

from forecast.attention import (
    Attention,
    FastformerAttention,
    GatedDeltaAttention,
    LinearAttention,
    NoneAttention,
    NystromAttention,
    ProbSparseAttention,
    UniformAttention,
)
from forecast.attention.probsparse import sample_size
from forecast.tools.explain import maps
from forecast.tools.explain.downsampling import shrink_map
from forecast.tools.explain.figures import (
    RELATIVE_WEIGHT,
    MapColumn,
    curve_figure,
    map_figure,
)
from forecast.tools.explain.implied_map import fastformer_poolings, ranking_measure
from forecast.tools.explain.landmarks import draw_landmarks, measure_convolution
from forecast.tools.explain.layer import Explanation, Layer, Picture
from forecast.tools.explain.map_statistics import MapStatistics
from forecast.tools.explain.measures import Number, mean, overlap, row_entropy, weight_within

COLOURS = "White: as much weight as uniform attention gives. Red: more. Blue: less."
SOFTMAX = "softmax map of the same queries and keys"


def explain_layer(layer: Layer) -> Explanation:
    """The pictures and numbers of a layer.

    Raises:
        NoMapError: the layer does not mix values with weights.
        ConfigError: the map is too large.
    """
    return _explain(layer.call.attention, layer)


@singledispatch
def _explain(attention: Attention, layer: Layer) -> Explanation:
    """Full attention, and every other type that has an implied map."""
    statistics = MapStatistics(layer)
    caption = (
        f"Each row is a query, each column a key. {COLOURS} A red column is a time that every query attends to. A red "
        f"stripe parallel to the diagonal is a fixed lag, such as the same hour one day earlier. {layer.notes()}"
    )
    picture = draw_maps(layer, [statistics.implied_column(layer.attention_type)], caption)
    return Explanation(layer, [picture], [statistics.entropy(), *statistics.recent_weight()])


@_explain.register
def _explain_control(attention: NoneAttention | UniformAttention, layer: Layer) -> Explanation:
    statistics = MapStatistics(layer)
    caption = f"A control: the map is the same in every window. {COLOURS} {layer.notes()}"
    picture = draw_maps(layer, [statistics.implied_column(layer.attention_type)], caption)
    is_zero = not any(answer.any() for answer in statistics.outputs)
    return Explanation(
        layer, [picture], [] if is_zero else [statistics.entropy(), *statistics.recent_weight()]
    )


@_explain.register
def _explain_linear(attention: LinearAttention, layer: Layer) -> Explanation:
    statistics = MapStatistics(layer)
    caption = (
        f"Left: the map that linear attention implies, φ(q)·φ(k) divided by the sum of its row "
        f"(φ: {attention.feature_map}). Right: the {SOFTMAX}. {COLOURS} The paler the left map is beside the right "
        "one, the more the layer averages. The layer was trained with its own map, so the difference is not an "
        f"error. {layer.notes()}"
    )
    picture = draw_maps(layer, [statistics.implied_column("implied"), statistics.softmax_column()], caption)
    numbers = [statistics.entropy(softmax=True), statistics.output_error(), *statistics.recent_weight()]
    return Explanation(layer, [picture], numbers)


@_explain.register
def _explain_gated_delta(attention: GatedDeltaAttention, layer: Layer) -> Explanation:
    statistics = MapStatistics(layer)
    caption = (
        f"Left: the map that the gated delta rule implies. Right: the {SOFTMAX}. {COLOURS} A key that a later, similar "
        f"key replaced has little weight. Negative weights are drawn in the darkest blue. {layer.notes()}"
    )
    columns = [statistics.implied_column("implied"), statistics.softmax_column()]
    numbers = [statistics.negative_part(), statistics.output_error()]
    return Explanation(layer, [draw_maps(layer, columns, caption)], numbers)


@_explain.register
def _explain_nystrom(attention: NystromAttention, layer: Layer) -> Explanation:
    landmarks, statistics = attention.num_landmarks, MapStatistics(layer)
    is_exact = min(len(layer.queries), len(layer.keys)) <= landmarks
    starts = maps.segment_starts(len(layer.keys), landmarks).numpy()
    caption = (
        f"Left: the map of the layer. Middle: the {SOFTMAX}. Right: their difference. {COLOURS} In the difference, "
        "orange is weight that Nyström adds and violet is weight that it removes. "
    )
    if is_exact:
        caption += (
            f"There are no more positions than landmarks ({landmarks}), so the layer is exact softmax and the "
            "difference is zero. "
        )
    else:
        caption += (
            f"Ticks on the upper edge mark the segments whose means are the {landmarks} landmarks. "
            "Nyström's weights may be negative; they are drawn in the darkest blue. "
        )
    columns = [
        statistics.implied_column("nystrom"),
        statistics.softmax_column(),
        statistics.difference_column(),
    ]
    pictures = [draw_maps(layer, columns, caption + layer.notes(), segments=None if is_exact else starts)]
    kernel = None if attention.conv_weight is None else attention.conv_weight.detach()[layer.heads, 0, :, 0]
    numbers = [
        statistics.map_error(),
        statistics.negative_part(),
        statistics.output_error(),
        *statistics.recent_weight(),
    ]
    if kernel is not None:
        numbers.append(measure_convolution(layer, statistics))
    if not is_exact:
        pictures.append(draw_landmarks(layer, landmarks, None if kernel is None else kernel.numpy(), starts))
    return Explanation(layer, pictures, numbers)


@_explain.register
def _explain_probsparse(attention: ProbSparseAttention, layer: Layer) -> Explanation:
    causal, factor = layer.call.causal, attention.factor
    statistics = MapStatistics(layer)
    sampled = [ranking_measure(attention, q, k) for _, q, k, _, _ in layer.each_head()]
    exact = [maps.exact_measure(q, k, causal=causal) for _, q, k, _, _ in layer.each_head()]
    selected = [maps.top_queries(measure, factor) for measure in sampled]
    n_queries, top = len(layer.queries), sample_size(factor, len(layer.queries))
    found = [
        overlap(mine[0, 0], maps.top_queries(measure, factor)[0, 0])
        for mine, measure in zip(selected, exact, strict=True)
    ]
    numbers = [
        Number("selected queries", top, "", {"of": n_queries}),
        Number(f"found of the exact measure's top {top}", mean(found), "%", {"by chance": top / n_queries}),
        statistics.output_error(),
        *statistics.recent_weight(),
    ]
    measure_caption = (
        "The sparsity measure of each query: its largest score minus its mean score, so the distance of its attention "
        f"from uniform. Shaded: the {top} of {n_queries} selected queries, ranked by the measure on a sample of the "
        "keys. The second curve is the measure on all keys. With a good sample, the selected queries are the peaks of "
        "the second curve. "
    )
    curves = {
        "on the sampled keys": [m[0, 0].numpy() for m in sampled],
        "on all keys (exact)": [m[0, 0].numpy() for m in exact],
    }
    figure = curve_figure(
        curves, layer.pictured, layer.queries, f"{layer.figure_title}, sparsity measure", "measure M(q), in logits",
        marked=[one[0, 0].numpy() for one in selected],
    )  # fmt: skip
    map_caption = (
        f"Left: the map of the layer. Right: the {SOFTMAX}. {COLOURS} White rows are queries that were not selected; "
        f"their output is the mean of the values. The other rows are rows of softmax. {layer.notes()}"
    )
    pictures = [
        Picture(f"{layer.file}-measure", figure, measure_caption + layer.notes(is_map=False)),
        draw_maps(layer, [statistics.implied_column("probsparse"), statistics.softmax_column()], map_caption),
    ]
    return Explanation(layer, pictures, numbers)


@_explain.register
def _explain_fastformer(attention: FastformerAttention, layer: Layer) -> Explanation:
    causal, recent = layer.call.causal, layer.recent_positions()
    if causal:
        layer.check_size()
    uniform = maps.uniform_map(len(layer.queries) if causal else 1, len(layer.keys), causal)
    images: dict[str, list[np.ndarray]] = {"α": [], "β": []}
    entropies: dict[str, list[float]] = {"α": [], "β": []}
    recent_weights: dict[str, list[float]] = {"α": [], "β": []}
    for head, q, k, _, _ in layer.each_head():
        for name, poolings in zip("αβ", fastformer_poolings(attention, head, q, k), strict=True):
            weights = poolings[0, 0]
            entropies[name].append(row_entropy(weights))
            if recent is not None:
                recent_weights[name].append(weight_within(weights, torch.from_numpy(recent)))
            if len(images[name]) < len(layer.pictured):
                relative = (weights / uniform.where(uniform > 0, 1)).numpy()
                images[name].append(shrink_map(relative, causal=True) if causal else relative[0])
    numbers = [
        Number(f"entropy of {name}", mean(values), "bits", {"uniform": row_entropy(uniform)})
        for name, values in entropies.items()
    ]
    if recent is not None:
        beside = {"uniform": weight_within(uniform, torch.from_numpy(recent))}
        numbers += [
            Number(f"{name} on {layer.recent_steps}", mean(values), "%", beside)
            for name, values in recent_weights.items()
        ]
    named = {"α, pooling the queries": images["α"], "β, pooling the keys": images["β"]}
    return Explanation(layer, [draw_poolings(layer, named)], numbers)


def draw_poolings(layer: Layer, images: dict[str, list[np.ndarray]]) -> Picture:
    """The two poolings of each head, relative to uniform attention: curves over time, or maps if they are causal."""
    caption = "α is the weight of each step in the global query, β its weight in the global key. "
    if layer.call.causal:
        caption += f"Row i holds the weights at step i, over the steps up to i. {COLOURS} {layer.notes()}"
        return draw_maps(layer, [MapColumn(name, each) for name, each in images.items()], caption)
    caption += (
        "All positions share these two poolings. Above the dashed line a step has more weight than with uniform "
        f"attention, below it less. {layer.notes(is_map=False)}"
    )
    figure = curve_figure(
        images, layer.pictured, layer.keys, layer.figure_title, f"weight, {RELATIVE_WEIGHT}", level=1.0
    )
    return Picture(layer.file, figure, caption)


def draw_maps(
    layer: Layer, columns: list[MapColumn], caption: str, segments: np.ndarray | None = None
) -> Picture:
    """The picture with the maps of a layer."""
    figure = map_figure(
        columns, layer.pictured, layer.queries, layer.keys, layer.figure_title, segments=segments
    )
    return Picture(layer.file, figure, caption)
