"""What there is to see of each attention kind: its pictures, how to read them, and its numbers."""

from functools import singledispatch

import numpy as np
import torch

from forecast.attention import (
    Attention,
    FastformerAttention,
    LinearAttention,
    NystromAttention,
    ProbSparseAttention,
)
from forecast.attention.nystrom import segment_means
from forecast.attention.probsparse import rows_kept
from forecast.explanation import maps
from forecast.explanation.drawing import (
    EVEN_SHARE,
    Column,
    curve_figure,
    landmark_figure,
    map_figure,
    shrink,
)
from forecast.explanation.implied import fastformer_poolings, ranking_measure
from forecast.explanation.layer import Explanation, Layer, Picture
from forecast.explanation.measures import Number, mean, overlap, relative_error, row_bits, share_within
from forecast.explanation.study import Study

COLOURS = "White is an even share of a row's attention, red more, blue less."
SOFTMAX = "softmax of the same queries and keys"


def explain(layer: Layer) -> Explanation:
    """Raises ConfigError for a kind without a map, or a map too large to form."""
    return _explain(layer.call.attention, layer)


@singledispatch
def _explain(attention: Attention, layer: Layer) -> Explanation:
    """Full attention, and every other kind of which only the map is known."""
    study = Study(layer)
    caption = (
        f"Each row is a step that asks, each column a step that it reads. {COLOURS} A red column is a time that every "
        "step reads; red stripes along the diagonal are fixed lags, such as the same hour a day before. "
        f"{layer.where()}"
    )
    figure = map_figure([study.found(layer.kind)], layer.pictured, layer.asks, layer.reads, layer.title)
    return Explanation(layer, [Picture(layer.file, figure, caption)], [study.bits(), *study.recent()])


@_explain.register
def _linear(attention: LinearAttention, layer: Layer) -> Explanation:
    study = Study(layer)
    caption = (
        f"Left the map that linear attention implies, φ(q)·φ(k) over its row's sum (φ: {attention.feature_map}); right "
        f"the {SOFTMAX}. {COLOURS} The paler the left map beside the right one, the more the layer averages. It was "
        f"trained with its own map, so the difference is not an error. {layer.where()}"
    )
    columns = [study.found("implied"), study.exact("softmax")]
    figure = map_figure(columns, layer.pictured, layer.asks, layer.reads, layer.title)
    numbers = [study.bits(softmax=True), study.answer(), *study.recent()]
    return Explanation(layer, [Picture(layer.file, figure, caption)], numbers)


@_explain.register
def _nystrom(attention: NystromAttention, layer: Layer) -> Explanation:
    marks, study = attention.num_landmarks, Study(layer)
    is_exact = min(len(layer.asks), len(layer.reads)) <= marks
    starts = maps.segment_starts(len(layer.reads), marks).numpy()
    about = (
        f"Left what the layer did, middle the {SOFTMAX}, right their difference. {COLOURS} In the difference, orange "
        "is weight that Nyström adds and violet weight that it takes away. "
    )
    if is_exact:
        about += (
            f"With {marks} landmarks for so few positions the layer is exact softmax, and nothing differs. "
        )
    else:
        about += (
            f"The ticks on the upper edge part the segments whose means are the {marks} landmarks. "
            "Nyström's weights may be negative; they have the deepest blue here. "
        )
    columns = [study.found("nystrom"), study.exact("softmax"), study.difference("difference")]
    figure = map_figure(
        columns, layer.pictured, layer.asks, layer.reads, layer.title, segments=None if is_exact else starts
    )
    pictures = [Picture(layer.file, figure, about + layer.where())]
    kernel = None if attention.conv_weight is None else attention.conv_weight.detach()[layer.heads, 0, :, 0]
    numbers = [study.error(), study.negative(), study.answer(), *study.recent()]
    if kernel is not None:
        numbers.append(_convolutions_share(layer, study))
    if not is_exact:
        use = [
            maps.softmax_map(q, segment_means(k, marks))[0, 0].mean(0) * marks
            for _, q, k, _, _ in layer.each_head()
        ]
        shown = len(layer.pictured)
        figure = landmark_figure(
            torch.stack(use)[:shown].numpy(), None if kernel is None else kernel[:shown].numpy(), starts,
            layer.pictured, layer.reads, f"{layer.title}, landmarks",
        )  # fmt: skip
        about = (
            "Above, how much attention all steps together give to each landmark, drawn over the segment of steps that "
            "it stands for: a peak is a stretch of time that many steps ask about, the dashed line an even share. "
        )
        if kernel is not None:
            about += (
                "Below, the convolution that is added to the map's answer: every position also takes its neighbours' "
                "values, times these weights. "
            )
        pictures.append(Picture(f"{layer.file}-landmarks", figure, about + layer.where(a_map=False)))
    return Explanation(layer, pictures, numbers)


def _convolutions_share(layer: Layer, study: Study) -> Number:
    """How large the convolution's part of the answer is, as a root mean square."""
    shares = [
        relative_error(answer, mixed) for answer, (*_, mixed) in zip(study.answers, layer.each_head(), strict=True)
    ]  # fmt: skip
    return Number("size of the convolution's part of the answer", mean(shares), "%")


@_explain.register
def _probsparse(attention: ProbSparseAttention, layer: Layer) -> Explanation:
    causal, factor = layer.call.causal, attention.factor
    study = Study(layer)
    sampled, exact, kept = [], [], []
    for _, q, k, _, _ in layer.each_head():
        sampled.append(ranking_measure(attention, q, k))
        exact.append(maps.exact_measure(q, k, causal=causal))
        kept.append(maps.top_queries(sampled[-1], factor))
    asking, top = len(layer.asks), rows_kept(factor, len(layer.asks))
    found = [
        overlap(mine[0, 0], maps.top_queries(measure, factor)[0, 0])
        for mine, measure in zip(kept, exact, strict=True)
    ]
    numbers = [
        Number("queries kept", top, "", {"of": asking}),
        Number(f"found of the exact measure's top {top}", mean(found), "%", {"by chance": top / asking}),
        study.answer(),
        *study.recent(),
    ]
    about = (
        "The measure of each query: how far its largest score stands above its mean score, so how far its attention is "
        f"from even. Shaded are the {top} of {asking} queries that were kept, ranked by the measure on a sample of "
        "keys; the same over all keys stands beside it. A good sample keeps the peaks of the exact curve. "
    )
    curves = {
        "measured on the sampled keys": [m[0, 0].numpy() for m in sampled],
        "exact, over all keys": [m[0, 0].numpy() for m in exact],
    }
    measures = curve_figure(
        curves, layer.pictured, layer.asks, f"{layer.title}, measure of the queries", "measure M(q), in logits",
        marked=[k[0, 0].numpy() for k in kept],
    )  # fmt: skip
    caption = (
        f"Left what the layer did, right the {SOFTMAX}. {COLOURS} White rows are the queries that were not kept and "
        f"got the mean of the values; the coloured ones are rows of softmax. {layer.where()}"
    )
    columns = [study.found("probsparse"), study.exact("softmax")]
    figure = map_figure(columns, layer.pictured, layer.asks, layer.reads, layer.title)
    pictures = [
        Picture(f"{layer.file}-measure", measures, about + layer.where(a_map=False)),
        Picture(layer.file, figure, caption),
    ]
    return Explanation(layer, pictures, numbers)


@_explain.register
def _fastformer(attention: FastformerAttention, layer: Layer) -> Explanation:
    causal = layer.call.causal
    if causal:
        layer.check_size()
    poolings: dict[str, list[np.ndarray]] = {"α": [], "β": []}
    bits: dict[str, list[float]] = {"α": [], "β": []}
    shares: dict[str, list[float]] = {"α": [], "β": []}
    recent = layer.recent_positions()
    even = maps.even_map(len(layer.asks) if causal else 1, len(layer.reads), causal)
    for head, q, k, _, _ in layer.each_head():
        for name, weights in zip("αβ", fastformer_poolings(attention, head, q, k), strict=True):
            bits[name].append(row_bits(weights[0, 0]))
            if recent is not None:
                shares[name].append(share_within(weights[0, 0], torch.from_numpy(recent)))
            if len(poolings[name]) < len(layer.pictured):
                share = (weights[0, 0] / even.where(even > 0, 1)).numpy()
                poolings[name].append(shrink(share, causal=True) if causal else share[0])
    numbers = [
        Number(f"entropy of {name}", mean(values), "bits", {"even": row_bits(even)})
        for name, values in bits.items()
    ]
    if recent is not None:
        beside = {"even": share_within(even, torch.from_numpy(recent))}
        numbers += [
            Number(f"{name} on {layer.recent_steps}", mean(values), "%", beside)
            for name, values in shares.items()
        ]
    about = "α is how much each step counts in the global query, β how much in the global key. "
    shown = {"α, pooling the queries": poolings["α"], "β, pooling the keys": poolings["β"]}
    if causal:
        about += (
            "They run over the prefix: row i holds the weights as they stand at step i, over the steps up to it. "
            f"{COLOURS} "
        )
        columns = [Column(name, images) for name, images in shown.items()]
        figure = map_figure(columns, layer.pictured, layer.asks, layer.reads, layer.title)
    else:
        about += (
            "All steps share these two poolings. Above the dashed line a step counts more than an even share, below it "
            "less. "
        )
        figure = curve_figure(
            shown, layer.pictured, layer.reads, layer.title, f"weight, {EVEN_SHARE}", level=1.0
        )
    return Explanation(layer, [Picture(layer.file, figure, about + layer.where(a_map=causal))], numbers)
