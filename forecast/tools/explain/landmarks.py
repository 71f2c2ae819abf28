"""Pictures and numbers of Nyström's landmarks and of its convolution."""

import numpy as np
import torch

from forecast.attention.nystrom import segment_means
from forecast.tools.explain import maps
from forecast.tools.explain.figures import landmark_figure
from forecast.tools.explain.layer import Layer, Picture
from forecast.tools.explain.map_statistics import MapStatistics
from forecast.tools.explain.measures import Number, mean, relative_error


def measure_convolution(layer: Layer, statistics: MapStatistics) -> Number:
    """The root mean square of the convolution's output relative to that of the map's output."""
    fractions = [
        relative_error(answer, mixed) for answer, (*_, mixed) in zip(statistics.outputs, layer.each_head(), strict=True)
    ]  # fmt: skip
    return Number("size of the convolution's part of the output", mean(fractions), "%")


def draw_landmarks(layer: Layer, landmarks: int, kernel: np.ndarray | None, starts: np.ndarray) -> Picture:
    """The attention to each landmark, and the kernel of the convolution if there is one."""
    attention = [
        maps.softmax_map(q, segment_means(k, landmarks))[0, 0].mean(0) * landmarks
        for _, q, k, _, _ in layer.each_head()
    ]
    shown = len(layer.pictured)
    figure = landmark_figure(
        torch.stack(attention)[:shown].numpy(), None if kernel is None else kernel[:shown], starts,
        layer.pictured, layer.keys, f"{layer.figure_title}, landmarks",
    )  # fmt: skip
    caption = (
        "Top: the mean attention of all queries to each landmark, drawn over the segment of the landmark. A peak is a "
        "period that many queries attend to; the dashed line is uniform attention. "
    )
    if kernel is not None:
        caption += (
            "Bottom: the kernel of the convolution that is added to the output of the map. Each position receives "
            "the values of its neighbours, multiplied by these weights. "
        )
    return Picture(f"{layer.file}-landmarks", figure, caption + layer.notes(is_map=False))
