"""Drawing attention: maps and curves, a panel a head, with time on the axes.

One scale everywhere: weights in multiples of an even share, their logarithm coloured, so that double and half stand
out alike. White is an even share, red more, blue less.
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

from forecast.explanation.timeaxis import mark_time, span
from forecast.explanation.timeline import Timeline
from forecast.plots import subplots

PIXELS = 500
"""Pixels of a map along one axis at most; longer ones are drawn as means of square blocks."""
SHARES, DIFFERENCES, UNSEEN = "RdBu_r", "PuOr_r", "#c8c8c8"
FIRST, SECOND = "#0b6e99", "#c2571a"
EVEN_SHARE = "× an even share"
DIFFERENCE = "difference, × an even share"


@dataclass(frozen=True)
class Column:
    """Maps of one sort, one a head: in multiples of an even share, or differences of such."""

    title: str
    images: Sequence[Float[np.ndarray, "rows columns"]]
    is_difference: bool = False


def block(length: int) -> int:
    """Positions that share a pixel."""
    return -(-length // PIXELS)


def shrink(
    image: Float[np.ndarray, "query_len memory_len"], *, causal: bool = False
) -> Float[np.ndarray, "rows columns"]:
    """Means of blocks, at most PIXELS a side; NaN where a causal map has nothing."""
    edges = [np.arange(0, length, block(length)) for length in image.shape]
    sums = np.add.reduceat(np.add.reduceat(image, edges[0], axis=0), edges[1], axis=1)
    sizes = [np.diff(e, append=length) for e, length in zip(edges, image.shape, strict=True)]
    small = sums / np.outer(*sizes)
    if causal:
        last = edges[0] + sizes[0] - 1
        small[edges[1] > last[:, None]] = np.nan
    return small


def map_figure(
    columns: Sequence[Column],
    heads: Sequence[int],
    asks: Timeline,
    reads: Timeline,
    title: str,
    *,
    segments: Int[np.ndarray, " segments"] | None = None,
) -> Figure:
    """Maps with the asking step downwards and the step that is read across: one column, heads in a grid; several, a
    row a head.

    `segments`: the first positions of the landmarks' segments, marked along the upper edge.
    """
    shape = min(max(len(asks) / len(reads), 0.5), 1)  # height over width
    if len(columns) == 1:
        figure, table = _panels(len(heads), shape)
        panels = [[axis] for axis in table.flat]
    else:
        size = (3.6 * len(columns) + 0.8, 3.3 * shape * len(heads) + 1.8)
        figure, table = subplots(
            len(heads), len(columns), figsize=size, squeeze=False, sharex=True, sharey=True, layout="constrained"
        )  # fmt: skip
        panels = table.tolist()
    limit = _share_limit([image for column in columns if not column.is_difference for image in column.images])
    for c, column in enumerate(columns):
        norm = _difference_scale(column.images) if column.is_difference else LogNorm(1 / limit, limit)
        palette = matplotlib.colormaps[DIFFERENCES if column.is_difference else SHARES]
        for h, image in enumerate(column.images):
            axis = panels[h][c]
            drawn = axis.imshow(
                image if column.is_difference else image.clip(min=1 / limit),  # a logarithm needs what is positive
                cmap=palette.with_extremes(bad=UNSEEN), norm=norm, aspect="auto", interpolation="nearest",
                extent=(-0.5, len(reads) - 0.5, len(asks) - 0.5, -0.5),
            )  # fmt: skip
            name = f"head {heads[h]}"
            axis.set_title(name if len(columns) == 1 else f"{column.title}, {name}", fontsize=9)
            mark_time(axis, reads, "x")
            mark_time(axis, asks, "y")
            if segments is not None:
                edge = np.full(len(segments), -0.5)
                axis.plot(segments - 0.5, edge, "|", color="black", markersize=5, clip_on=False)
        if column.is_difference:
            below = [row[c] for row in panels]
            _colour_bar(figure, drawn, below, DIFFERENCE)
        elif c == 0:
            below = [row[i] for row in panels for i, other in enumerate(columns) if not other.is_difference]
            _colour_bar(figure, drawn, below, EVEN_SHARE, ticks=limit ** np.linspace(-1, 1, 5))
    _label(table, "step that is read", "step that asks")
    when = span(asks) if span(asks) == span(reads) else f"asking: {span(asks)}; read: {span(reads)}"
    figure.suptitle(f"{title}\n{when}", fontsize=11, parse_math=False)
    return figure


def _colour_bar(
    figure: Figure, drawn: AxesImage, axes: list[Axes], label: str, ticks: np.ndarray | None = None
) -> None:
    bar = figure.colorbar(
        drawn, ax=axes, location="bottom", aspect=40, shrink=0.8, pad=0.01, extend="both", label=label, ticks=ticks
    )  # fmt: skip
    if ticks is not None:
        bar.set_ticks(ticks.tolist(), labels=[_times(tick) for tick in ticks])
        bar.minorticks_off()
    bar.ax.tick_params(labelsize=8)


def _times(share: float) -> str:
    return f"{share:.2g}" if share >= 1 else f"1/{1 / share:.2g}"


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
    """curves[name][h] over time, a panel a head; a dashed line at `level`, ticks below at the `marked` positions."""
    figure, table = _panels(len(heads), 0.5)
    for h, axis in enumerate(table.flat[: len(heads)]):
        for (name, series), colour, dashes in zip(
            curves.items(), (FIRST, SECOND), ("-", (0, (3, 2))), strict=True
        ):
            axis.plot(
                np.arange(len(when)), series[h], color=colour, linestyle=dashes, linewidth=1.3, label=name
            )
        if level is not None:
            axis.axhline(level, color="#777777", linewidth=0.9, linestyle="--", label="an even share")
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
        labels.append("query kept")
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    _label(table, "", ylabel)
    figure.suptitle(f"{title}\n{span(when)}", fontsize=11, parse_math=False)
    return figure


def landmark_figure(
    use: Float[np.ndarray, "heads landmarks"],
    kernel: Float[np.ndarray, "heads taps"] | None,
    starts: Int[np.ndarray, " landmarks"],
    heads: Sequence[int],
    when: Timeline,
    title: str,
) -> Figure:
    """How much each landmark is asked, over the segment it stands for, and the kernel of the convolution beside it."""
    rows = 1 if kernel is None else 2
    figure, axes = subplots(rows, 1, figsize=(10, 2.9 * rows + 0.6), squeeze=False, layout="constrained")
    top = axes[0, 0]
    edges = np.append(starts, len(when)) - 0.5
    for edge in edges:
        top.axvline(edge, color="#e4e4e4", linewidth=0.7, zorder=0)
    for h, values in enumerate(use):
        top.stairs(values, edges, color=f"C{h}", linewidth=1.4, label=f"head {heads[h]}")
    top.axhline(1, color="#777777", linewidth=0.9, linestyle="--")
    top.set_xlim(-0.5, len(when) - 0.5)
    top.set_ylabel(EVEN_SHARE, fontsize=9)
    top.set_title("how much each landmark is asked, over the segment of steps that it stands for", fontsize=9)
    mark_time(top, when, "x")
    if kernel is not None:
        below, half = axes[1, 0], kernel.shape[1] // 2
        for h, values in enumerate(kernel):
            below.plot(
                np.arange(-half, half + 1), values, color=f"C{h}", marker="o", markersize=2.5, linewidth=1
            )
        below.axhline(0, color="#777777", linewidth=0.9, linestyle="--")
        below.axvline(0, color="#777777", linewidth=0.9, linestyle=":")
        below.set_title(
            "the convolution added to it: what each neighbour's value is multiplied with", fontsize=9
        )
        below.set_xlabel("positions after the one that asks (negative: before it)", fontsize=9)
        below.set_ylabel("weight", fontsize=9)
        below.tick_params(labelsize=8)
    for axis in axes[:, 0]:
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(axis="y", labelsize=8)
    figure.legend(loc="outside lower center", ncols=len(use), frameon=False, fontsize=9)
    figure.suptitle(f"{title}\n{span(when)}", fontsize=11, parse_math=False)
    return figure


def _panels(heads: int, shape: float) -> tuple[Figure, np.ndarray]:
    """A near-square table of axes, those beyond the heads hidden; `shape` is a panel's height over its width."""
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
    """Label the lowest shown axes of each column and the first of each row."""
    for column in table.T:
        lowest = [axis for axis in column if axis.get_visible()][-1]
        lowest.set_xlabel(across, fontsize=9)
        lowest.tick_params(labelbottom=True)
    for axis in table[:, 0]:
        axis.set_ylabel(down, fontsize=9)


def _share_limit(images: Sequence[np.ndarray]) -> float:
    """How many times an even share, or what part of it, has the deepest colour: all but a few weights, 16 at most."""
    values = np.concatenate([image[np.isfinite(image)] for image in images])
    doublings = np.abs(np.log2(values.clip(2**-4, 2**4)))
    return 2 ** max(np.ceil(4 * float(np.quantile(doublings, 0.995))) / 4, 0.25)


def _difference_scale(images: Sequence[np.ndarray]) -> CenteredNorm:
    largest = float(np.quantile(np.abs(np.concatenate([image.ravel() for image in images])), 0.995))
    return CenteredNorm(0, max(largest, 0.01))
