"""Figures of attention: maps and curves, with one panel per head and time on the axes.

Weights are relative to uniform attention, on a logarithmic colour scale: double and half are equally strong colours.
White is uniform attention, red is more and blue is less.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.colors import CenteredNorm, LogNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch

from forecast.reports.figures import subplots
from forecast.tools.explain.time_axis import format_span, mark_time
from forecast.tools.explain.timeline import Timeline

WEIGHTS, DIFFERENCES, INVISIBLE = "RdBu_r", "PuOr_r", "#c8c8c8"
FIRST, SECOND = "#0b6e99", "#c2571a"
RELATIVE_WEIGHT = "× uniform attention"
DIFFERENCE = "difference, × uniform attention"


@dataclass(frozen=True)
class MapColumn:
    """Maps of one sort, one per head: weights relative to uniform attention, or differences of such weights."""

    title: str
    images: Sequence[Float[np.ndarray, "rows columns"]]
    is_difference: bool = False


def map_figure(
    columns: Sequence[MapColumn],
    heads: Sequence[int],
    queries: Timeline,
    keys: Timeline,
    title: str,
    *,
    segments: Int[np.ndarray, " segments"] | None = None,
) -> Figure:
    """Maps with queries from top to bottom and keys from left to right.

    The heads of a single column are panels of a grid; several columns have one row per head.

    Args:
        segments: first positions of the landmarks' segments, marked along the upper edge.
    """
    shape = min(max(len(queries) / len(keys), 0.5), 1)  # height / width
    if len(columns) == 1:
        figure, table = _panels(len(heads), shape)
        panels = [[axis] for axis in table.flat]
    else:
        size = (3.6 * len(columns) + 0.8, 3.3 * shape * len(heads) + 1.8)
        figure, table = subplots(
            len(heads), len(columns), figsize=size, squeeze=False, sharex=True, sharey=True, layout="constrained"
        )  # fmt: skip
        panels = table.tolist()
    limit = _weight_limit(
        [image for column in columns if not column.is_difference for image in column.images]
    )
    for c, column in enumerate(columns):
        norm = _difference_scale(column.images) if column.is_difference else LogNorm(1 / limit, limit)
        palette = matplotlib.colormaps[DIFFERENCES if column.is_difference else WEIGHTS]
        for h, image in enumerate(column.images):
            axis = panels[h][c]
            drawn = axis.imshow(
                image if column.is_difference else image.clip(min=1 / limit),  # the logarithm needs positive numbers
                cmap=palette.with_extremes(bad=INVISIBLE), norm=norm, aspect="auto", interpolation="nearest",
                extent=(-0.5, len(keys) - 0.5, len(queries) - 0.5, -0.5),
            )  # fmt: skip
            name = f"head {heads[h]}"
            axis.set_title(name if len(columns) == 1 else f"{column.title}, {name}", fontsize=9)
            mark_time(axis, keys, "x")
            mark_time(axis, queries, "y")
            if segments is not None:
                edge = np.full(len(segments), -0.5)
                axis.plot(segments - 0.5, edge, "|", color="black", markersize=5, clip_on=False)
        if column.is_difference:
            below = [row[c] for row in panels]
            _colour_bar(figure, drawn, below, DIFFERENCE)
        elif c == 0:
            below = [row[i] for row in panels for i, other in enumerate(columns) if not other.is_difference]
            _colour_bar(figure, drawn, below, RELATIVE_WEIGHT, ticks=limit ** np.linspace(-1, 1, 5))
    _label(table, "key", "query")
    when = format_span(queries)
    if when != format_span(keys):
        when = f"queries: {when}; keys: {format_span(keys)}"
    figure.suptitle(f"{title}\n{when}", fontsize=11, parse_math=False)
    return figure


def _colour_bar(
    figure: Figure, drawn: AxesImage, axes: list[Axes], label: str, ticks: np.ndarray | None = None
) -> None:
    bar = figure.colorbar(
        drawn, ax=axes, location="bottom", aspect=40, shrink=0.8, pad=0.01, extend="both", label=label, ticks=ticks
    )  # fmt: skip
    if ticks is not None:
        bar.set_ticks(ticks.tolist(), labels=[_format_factor(tick) for tick in ticks])
        bar.minorticks_off()
    bar.ax.tick_params(labelsize=8)


def _format_factor(factor: float) -> str:
    return f"{factor:.2g}" if factor >= 1 else f"1/{1 / factor:.2g}"


def curve_figure(
    curves: Mapping[str, Sequence[Float[np.ndarray, " length"]]],
    heads: Sequence[int],
    when: Timeline,
    title: str,
    ylabel: str,
    *,
    level: float | None = None,
    marked: Sequence[Int[np.ndarray, " marked"]] | None = None,
) -> Figure:
    """Curves over time, with one panel per head.

    Args:
        curves: by name, one curve per head.
        level: height of a dashed line for uniform attention.
        marked: positions to shade, of each head.
    """
    figure, table = _panels(len(heads), 0.5)
    for h, axis in enumerate(table.flat[: len(heads)]):
        for (name, series), colour, dashes in zip(
            curves.items(), (FIRST, SECOND), ("-", (0, (3, 2))), strict=True
        ):
            axis.plot(
                np.arange(len(when)), series[h], color=colour, linestyle=dashes, linewidth=1.3, label=name
            )
        if level is not None:
            axis.axhline(level, color="#777777", linewidth=0.9, linestyle="--", label="uniform attention")
        if marked is not None:
            for position in marked[h]:
                axis.axvspan(position - 0.5, position + 0.5, color="#f3d9a4", zorder=0, linewidth=0)
        axis.set_title(f"head {heads[h]}", fontsize=9)
        axis.set_xlim(-0.5, len(when) - 0.5)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(axis="y", labelsize=8)
        mark_time(axis, when, "x")
    handles, labels = table[0, 0].get_legend_handles_labels()
    if marked is not None:
        handles.append(Patch(color="#f3d9a4"))
        labels.append("selected query")
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    _label(table, "", ylabel)
    figure.suptitle(f"{title}\n{format_span(when)}", fontsize=11, parse_math=False)
    return figure


def landmark_figure(
    attention: Float[np.ndarray, "heads landmarks"],
    kernel: Float[np.ndarray, "heads taps"] | None,
    starts: Int[np.ndarray, " landmarks"],
    heads: Sequence[int],
    when: Timeline,
    title: str,
) -> Figure:
    """Attention to each landmark, drawn over its segment, and the kernel of the convolution if there is one.

    `starts` holds the first positions of the segments.
    """
    rows = 1 if kernel is None else 2
    figure, axes = subplots(rows, 1, figsize=(10, 2.9 * rows + 0.6), squeeze=False, layout="constrained")
    top = axes[0, 0]
    edges = np.append(starts, len(when)) - 0.5
    for edge in edges:
        top.axvline(edge, color="#e4e4e4", linewidth=0.7, zorder=0)
    for h, values in enumerate(attention):
        top.stairs(values, edges, color=f"C{h}", linewidth=1.4, label=f"head {heads[h]}")
    top.axhline(1, color="#777777", linewidth=0.9, linestyle="--")
    top.set_xlim(-0.5, len(when) - 0.5)
    top.set_ylabel(RELATIVE_WEIGHT, fontsize=9)
    top.set_title("mean attention to each landmark, over its segment", fontsize=9)
    mark_time(top, when, "x")
    if kernel is not None:
        below, half = axes[1, 0], kernel.shape[1] // 2
        for h, values in enumerate(kernel):
            below.plot(
                np.arange(-half, half + 1), values, color=f"C{h}", marker="o", markersize=2.5, linewidth=1
            )
        below.axhline(0, color="#777777", linewidth=0.9, linestyle="--")
        below.axvline(0, color="#777777", linewidth=0.9, linestyle=":")
        below.set_title("kernel of the convolution: weight of each neighbour's value", fontsize=9)
        below.set_xlabel("positions after the query (negative: before it)", fontsize=9)
        below.set_ylabel("weight", fontsize=9)
        below.tick_params(labelsize=8)
    for axis in axes[:, 0]:
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(axis="y", labelsize=8)
    figure.legend(loc="outside lower center", ncols=len(attention), frameon=False, fontsize=9)
    figure.suptitle(f"{title}\n{format_span(when)}", fontsize=11, parse_math=False)
    return figure


def _panels(heads: int, shape: float) -> tuple[Figure, np.ndarray]:
    """A near-square table of axes, one for each head; `shape` is the height of a panel divided by its width."""
    across = int(np.ceil(np.sqrt(heads)))
    down = -(-heads // across)
    width = 10 / across if across > 1 else 7
    figure, table = subplots(
        down, across, figsize=(width * across, width * shape * down + 1.6), squeeze=False, sharex=True, sharey=True,
        layout="constrained",
    )  # fmt: skip
    for axis in table.flat[heads:]:
        axis.set_visible(False)
    return figure, table


def _label(table: np.ndarray, across: str, down: str) -> None:
    """Label the lowest visible axes of each column and the first of each row."""
    for column in table.T:
        lowest = [axis for axis in column if axis.get_visible()][-1]
        lowest.set_xlabel(across, fontsize=9)
        lowest.tick_params(labelbottom=True)
    for axis in table[:, 0]:
        axis.set_ylabel(down, fontsize=9)


def _weight_limit(images: Sequence[np.ndarray]) -> float:
    """The factor over uniform attention that has the darkest colour: the 99.5% quantile of the weights, at most 16."""
    values = np.concatenate([image[np.isfinite(image)] for image in images])
    doublings = np.abs(np.log2(values.clip(2**-4, 2**4)))
    return 2 ** max(np.ceil(4 * float(np.quantile(doublings, 0.995))) / 4, 0.25)


def _difference_scale(images: Sequence[np.ndarray]) -> CenteredNorm:
    largest = float(np.quantile(np.abs(np.concatenate([image.ravel() for image in images])), 0.995))
    return CenteredNorm(0, max(largest, 0.01))
