"""Figures of attention and of inputs.

Attention maps and curves have one panel per head and time on the axes. Weights are relative to uniform attention, on a
logarithmic colour scale: double and half are equally strong colours. White is uniform attention, red is more and blue
is less. The importance of inputs is drawn as bars, their contributions to one forecast over its steps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import matplotlib
import matplotlib.dates as mdates
import numpy as np
import pandas as pd
from jaxtyping import Float, Float64, Int
from matplotlib.axes import Axes
from matplotlib.colors import CenteredNorm, LogNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch

from forecast.reports.figures import TRUTH_COLOUR, style_axis, subplots
from forecast.tools.explain.importance import Importance, InputKind, format_lags
from forecast.tools.explain.layers import Timeline

MAX_PIXELS = 500
"""Largest number of pixels of a map along one axis; larger maps are drawn as means of blocks."""
MAX_NAMES = 20
"""Largest number of names of variables on an axis."""
MAX_BARS = 12
"""Largest number of bars of a panel, and half of the largest number of rows of a map."""
TITLE_ROWS = 2
"""Height of the title of a panel, in bars."""
WEIGHTS, DIFFERENCES, INVISIBLE = "RdBu_r", "PuOr_r", "#c8c8c8"
FIRST, SECOND = "#0b6e99", "#c2571a"
RELATIVE_WEIGHT = "× uniform attention"
DIFFERENCE = "difference, × uniform attention"
TITLES = {
    InputKind.HISTORY: "history: values around the mean of the past",
    InputKind.LEVEL: "level: mean of the past",
    InputKind.COVARIATE: "future covariates",
    InputKind.CALENDAR: "calendar",
    InputKind.STATIC: "static covariates",
}


@dataclass(frozen=True)
class Picture:
    """A figure, the name of its file and its caption."""

    name: str
    figure: Figure
    caption: str


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
) -> Figure:
    """Maps with queries from top to bottom and keys from left to right.

    The heads of a single column are panels of a grid; several columns have one row per head.
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
            curves.items(), (FIRST, SECOND), ("-", (0, (3, 2))), strict=False
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


def block_size(length: int) -> int:
    """Number of positions in a pixel."""
    return -(-length // MAX_PIXELS)


def shrink_map(
    image: Float[np.ndarray, "query_len memory_len"], *, causal: bool = False
) -> Float[np.ndarray, "rows columns"]:
    """Means of blocks, at most `MAX_PIXELS` along each axis; NaN above the diagonal of a causal map."""
    edges = [np.arange(0, length, block_size(length)) for length in image.shape]
    sums = np.add.reduceat(np.add.reduceat(image, edges[0], axis=0), edges[1], axis=1)
    sizes = [np.diff(e, append=length) for e, length in zip(edges, image.shape, strict=True)]
    small = sums / np.outer(*sizes)
    if causal:
        last = edges[0] + sizes[0] - 1
        small[edges[1] > last[:, None]] = np.nan
    return small


def mark_time(axis: Axes, when: Timeline, which: Literal["x", "y"]) -> None:
    """Label an axis with dates; draw a dashed line at the origin and solid lines between stretches."""
    places, labels = time_ticks(when)
    side = axis.xaxis if which == "x" else axis.yaxis
    side.set_ticks(places, labels, parse_math=False)
    axis.tick_params(axis=which, labelsize=8)
    line = axis.axvline if which == "x" else axis.axhline
    if when.origin is not None:
        line(when.origin, color="black", linewidth=1, linestyle="--")
    for stretch in when.stretches[1:]:
        line(stretch.start - 0.5, color="black", linewidth=1)


def time_ticks(when: Timeline, most: int = 7) -> tuple[np.ndarray, list[str]]:
    """Positions of round dates and their labels; for joint variables, the middle of each variable and its name."""
    if names := when.names:
        every = slice(None, None, -(-len(names) // MAX_NAMES))
        middles = [(stretch.start + stretch.stop - 1) / 2 for stretch in when.stretches]
        return np.array(middles[every]), names[every]
    dates = mdates.date2num(when.when.to_numpy())
    locator = mdates.AutoDateLocator(minticks=1, maxticks=max(most // len(when.stretches), 2))
    formatter = mdates.ConciseDateFormatter(
        locator,
        formats=["%Y", "%b %Y", "%d %b", "%H:%M", "%H:%M", "%S"],
        zero_formats=["%Y", "%Y", "%d %b", "%d %b", "%H:%M", "%H:%M"],
        show_offset=False,
    )
    places, found = [], []
    for stretch in when.stretches:
        inside = dates[stretch.start : stretch.stop]
        first, last = mdates.num2date(inside[0]), mdates.num2date(inside[-1])
        ticks = np.asarray(locator.tick_values(first, last)) if len(stretch) > 1 else inside
        ticks = ticks[(ticks >= inside[0]) & (ticks <= inside[-1])]
        places += (stretch.start + np.interp(ticks, inside, np.arange(len(stretch)))).tolist()
        found += ticks.tolist()
    if len(found) == 1:  # one tick does not tell the formatter how fine its dates are
        return np.asarray(places), [f"{mdates.num2date(found[0]):%d %b %H:%M}"]
    return np.asarray(places), formatter.format_ticks(found)


def format_span(when: Timeline) -> str:
    """The first and the last date."""
    return f"{when.when.min():%Y-%m-%d %H:%M} to {when.when.max():%Y-%m-%d %H:%M}"


def importance_figure(found: Sequence[Importance], title: str) -> Figure:
    """Bars of the increase of MSE with its standard deviation: lags on the right, all other inputs on the left."""
    by_kind = {
        name: select_important([one for one in found if one.group.kind == kind])
        for kind, name in TITLES.items()
    }
    lags = [one for one in found if one.group.kind == InputKind.LAGS]
    left = {name: bars for name, bars in by_kind.items() if bars}
    right = {
        f"lags of {name}": [one for one in lags if one.group.name == name]
        for name in dict.fromkeys(one.group.name for one in lags)
    }
    rows = max(sum(len(bars) + TITLE_ROWS for bars in panels.values()) for panels in (left, right))
    figure = Figure(figsize=(10, 0.2 * rows + 1.1), layout="constrained")
    sides = figure.subfigures(1, 2, squeeze=False)[0]
    for side, panels in zip(sides, (left, right), strict=True):
        heights = [len(bars) + TITLE_ROWS for bars in panels.values()]
        spare = rows - sum(heights)  # the bars of both sides are equally high
        axes = side.subplots(
            len(panels) + (spare > 0), 1, squeeze=False, height_ratios=[*heights, *([spare] if spare else [])]
        )[:, 0]  # fmt: skip
        for axis in axes[len(panels) :]:
            axis.set_visible(False)
        for axis, (name, bars) in zip(axes, panels.items(), strict=False):
            draw_bars(axis, bars)
            axis.set_title(name, fontsize=9, loc="left", parse_math=False)
            axis.set_xlim(*find_limits([one for bars in panels.values() for one in bars]))
            axis.tick_params(labelbottom=axis is axes[len(panels) - 1])
        axes[len(panels) - 1].set_xlabel("increase of MSE (scaled)", fontsize=9)
    figure.suptitle(title, fontsize=11, parse_math=False)
    return figure


def find_limits(bars: Sequence[Importance]) -> tuple[float, float]:
    """The ends of an axis that holds all bars, their deviations and their numbers."""
    low = min(0.0, *(one.mse - one.mse_std for one in bars))
    high = max(1e-12, *(one.mse + one.mse_std for one in bars))
    return low - 0.02 * (high - low), high + 0.15 * (high - low)


def select_important(bars: Sequence[Importance]) -> list[Importance]:
    """The most important groups of a kind, the most important first."""
    return sorted(bars, key=lambda one: -one.mse)[:MAX_BARS]


def draw_bars(axis: Axes, bars: Sequence[Importance]) -> None:
    """Draw one bar for each group from top to bottom, with its value."""
    places = np.arange(len(bars))
    values = np.array([one.mse for one in bars])
    deviations = np.array([one.mse_std for one in bars])
    axis.barh(places, values, height=0.7, color=FIRST)
    axis.errorbar(values, places, xerr=deviations, fmt="none", ecolor=TRUTH_COLOUR, elinewidth=1, capsize=2)
    for place, value, deviation in zip(places, values, deviations, strict=True):
        axis.annotate(
            f"{value:.2g}", (max(value, 0) + deviation, place), xytext=(4, 0), textcoords="offset points",
            va="center", fontsize=7,
        )  # fmt: skip
    names = [one.group.name if one.group.lags is None else format_lags(one.group.lags) for one in bars]
    axis.set_yticks(places, names, fontsize=8, parse_math=False)
    axis.set_ylim(len(bars) - 0.4, -0.6)
    axis.axvline(0, color="#777777", linewidth=0.8)
    style_axis(axis)
    axis.tick_params(axis="x", labelsize=8)


def contribution_figure(
    values: Float64[np.ndarray, "groups pred_len"],
    labels: Sequence[str],
    dates: pd.DatetimeIndex,
    forecast: Float64[np.ndarray, " pred_len"],
    truth: Float64[np.ndarray, " pred_len"],
    title: str,
) -> Figure:
    """The forecast of one column and its truth, and below them the contribution of each group at each step.

    Groups are ordered by their mean absolute contribution, which stands beside their names.
    """
    size = np.abs(values).mean(axis=1)
    shown = np.argsort(-size, kind="stable")[: 2 * MAX_BARS]
    height = 0.2 * len(shown)
    figure, (above, below) = subplots(
        2, 1, figsize=(10, height + 3.4), sharex=True, layout="constrained", height_ratios=[1.6, height + 0.4]
    )
    above.plot(truth, color=TRUTH_COLOUR, linewidth=1.1, label="truth")
    above.plot(forecast, color=FIRST, linewidth=1.8, label="forecast")
    above.legend(
        frameon=False, fontsize=8, ncols=2, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0
    )
    style_axis(above)
    above.tick_params(labelsize=8)
    limit = max(float(np.quantile(np.abs(values[shown]), 0.99)), 1e-12)
    drawn = below.imshow(
        values[shown], cmap=DIFFERENCES, norm=CenteredNorm(0, limit), aspect="auto", interpolation="nearest",
        extent=(-0.5, len(dates) - 0.5, len(shown) - 0.5, -0.5),
    )  # fmt: skip
    rounding = 1e-6 * float(size.max())
    names = [f"{labels[i]}   {size[i] if size[i] > rounding else 0:.2g}" for i in shown]
    below.set_yticks(np.arange(len(shown)), names, fontsize=8, parse_math=False)
    mark_time(below, Timeline(np.arange(len(dates)), dates, seq_len=0), "x")
    bar = figure.colorbar(
        drawn, ax=below, location="bottom", aspect=40, shrink=0.8, pad=0.01, extend="both",
        label="contribution to the forecast, in original units",
    )  # fmt: skip
    bar.ax.tick_params(labelsize=8)
    figure.suptitle(title, fontsize=11, parse_math=False)
    return figure
