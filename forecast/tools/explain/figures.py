"""Figures of attention and of inputs, with their captions.

Attention maps and curves have one panel per head and time on the axes. Weights are relative to uniform attention, on a
logarithmic colour scale: double and half are equally strong colours. White is uniform attention, red is more and blue
is less.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from forecast.attention import Curves
from forecast.data.time_features import choose_evenly_spaced
from forecast.reports.figures import TRUTH_COLOUR, style_axis, subplots
from forecast.tools.explain.importance import Importance
from forecast.tools.explain.maps import Layer, LayerMap, Timeline

MAX_HEADS = 8  # of a picture
MAX_NAMES, MAX_TICKS = 20, 4  # names of variables on an axis, and dates
MAX_BARS = 30  # of the picture of importances
WEIGHTS, INVISIBLE, SELECTED = "RdBu_r", "#c8c8c8", "#f3d9a4"
FIRST, SECOND = "#0b6e99", "#c2571a"
RELATIVE_WEIGHT = "× uniform attention"
COLOURS = (
    "Each row is a query, each column a key. White: as much weight as uniform attention gives. Red: more. Blue: less, "
    "or a negative weight. Grey: steps that a causal layer does not read. Solid lines separate variables or encoders."
)
IMPORTANCE = (
    "Each bar is the increase of the squared error when all windows read this input from another window, in a random "
    "order; the black line is the standard deviation over the repeats. History is the course of the values around "
    "their mean, level is this mean. Lags count steps back from the first forecast step. Inputs that carry the same "
    "information share their importance."
)


class Picture(NamedTuple):
    """A figure, the name of its file and its caption."""

    name: str
    figure: Figure
    caption: str


def draw_layer(measured: LayerMap) -> list[Picture]:
    """The map of a layer, and the quantities that its attention type adds."""
    return [draw_map(measured), *(draw_curves(measured.layer, curves) for curves in measured.curves)]


def draw_map(measured: LayerMap) -> Picture:
    """One map for each head, with queries from top to bottom and keys from left to right."""
    layer, heads = measured.layer, min(MAX_HEADS, len(measured.weights))
    queries, keys = layer.queries, layer.keys
    relative = measured.weights[:heads].numpy() * len(keys)
    if layer.call.causal:
        relative *= np.arange(1, len(queries) + 1)[:, None] / len(keys)
        relative[:, ~np.tri(len(queries), dtype=bool)] = np.nan
    doublings = np.abs(np.log2(relative[np.isfinite(relative)].clip(2**-4, 2**4)))
    limit = 2 ** max(float(np.quantile(doublings, 0.995)), 0.25)  # of the darkest colour, at most 16
    figure, axes = _panels(heads, min(max(len(queries) / len(keys), 0.5), 1))
    palette = matplotlib.colormaps[WEIGHTS].with_extremes(bad=INVISIBLE)
    for axis, image in zip(axes, relative, strict=True):
        norm = LogNorm(1 / limit, limit)
        drawn = axis.imshow(image.clip(min=1 / limit), cmap=palette, norm=norm, aspect="auto")
        mark_time(axis, keys, "x")
        mark_time(axis, queries, "y")
        axis.set_xlabel("key", fontsize=9)
    figure.supylabel("query", fontsize=9)
    ticks = (limit ** np.linspace(-1, 1, 5)).tolist()
    bar = figure.colorbar(drawn, ax=axes, location="bottom", aspect=40, shrink=0.8, pad=0.01, extend="both")
    bar.set_ticks(ticks, labels=[f"{tick:.2g}" for tick in ticks])
    bar.minorticks_off()
    bar.set_label(RELATIVE_WEIGHT)
    figure.suptitle(f"{layer.title}\nkeys: {format_span(keys)}", fontsize=11, parse_math=False)
    return Picture(layer.file, figure, caption_map(measured))


def caption_map(measured: LayerMap) -> str:
    """How to read the picture of a map."""
    layer, attention = measured.layer, measured.layer.call.attention
    what = ""
    if measured.is_influence:
        what = (
            "This layer does not mix values with weights. Row i shows how much the output at position i changes if one "
            "position is replaced by the mean of all positions, as shares of the row. "
        )
    elif attention.uses_only_values:
        what = "A control: the map is the same in every window. "
    elif reason := attention.why_equal_to_softmax(len(layer.queries), len(layer.keys)):
        what = f"The layer {reason}, so its map is that of softmax. "
    return f"{what}{COLOURS} {describe_positions(layer)}"


def describe_positions(layer: Layer) -> str:
    patch_len = layer.keys.patch_len
    what = "one step, or several after distilling" if patch_len is None else f"a patch of {patch_len} steps"
    what = f"A position is {what}, dated at the middle."
    if layer.keys.origin is not None:
        what += f" Dashed: the origin of the forecast; the horizon after it enters as {layer.horizon_input}."
    return what


def draw_curves(layer: Layer, curves: Curves) -> Picture:
    """The quantities that an attention type adds to its map, over time; weights relative to uniform attention."""
    when = layer.queries if curves.over == "query" else layer.keys
    factor = 1 if curves.unit else len(when)
    heads = min(MAX_HEADS, layer.call.q.shape[1])
    figure, axes = _panels(heads, 0.5)
    styles: tuple[dict[str, Any], ...] = (
        {"color": FIRST, "linestyle": "-"},
        {"color": SECOND, "linestyle": (0, (3, 2))},
    )
    for head, axis in enumerate(axes):
        for (name, values), style in zip(curves.values.items(), styles, strict=False):
            values = factor * values[0, head].numpy()
            axis.plot(np.arange(len(when)), values, **style, linewidth=1.3, label=name)
        if not curves.unit:
            axis.axhline(1.0, color="#777777", linewidth=0.9, linestyle="--", label="uniform attention")
        for position in [] if curves.selected is None else curves.selected[0, head].nonzero()[:, 0].tolist():
            axis.axvspan(position - 0.5, position + 0.5, color=SELECTED, zorder=0, linewidth=0)
        axis.set_xlim(-0.5, len(when) - 0.5)
        axis.spines[["top", "right"]].set_visible(False)
        mark_time(axis, when, "x")
    figure.supylabel(curves.unit or RELATIVE_WEIGHT, fontsize=9)
    handles, labels = axes[0].get_legend_handles_labels()
    if curves.selected is not None:
        handles, labels = [*handles, Patch(color=SELECTED)], [*labels, "selected query"]
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    figure.suptitle(f"{layer.title}, {curves.name}\n{format_span(when)}", fontsize=11, parse_math=False)
    name = f"{layer.file}-{curves.name.replace(' ', '-')}"
    return Picture(name, figure, f"{curves.caption} {describe_positions(layer)}")


def _panels(heads: int, shape: float) -> tuple[Figure, list[Axes]]:
    """A near-square table of axes, one for each head; `shape` is the height of a panel divided by its width."""
    across = int(np.ceil(np.sqrt(heads)))
    down = -(-heads // across)
    width = 10 / across if across > 1 else 7
    figure, table = subplots(
        down, across, figsize=(width * across, width * shape * down + 1.6), squeeze=False, sharex=True, sharey=True,
        layout="constrained",
    )  # fmt: skip
    for head, axis in enumerate(table.flat):
        axis.set_visible(head < heads)
        axis.set_title(f"head {head}", fontsize=9)
        axis.tick_params(labelsize=8, labelbottom=head + across >= heads)
    return figure, list(table.flat[:heads])


def mark_time(axis: Axes, when: Timeline, which: Literal["x", "y"]) -> None:
    """Label an axis with dates; draw a dashed line at the origin and solid lines between stretches."""
    places, labels = time_ticks(when)
    side = axis.xaxis if which == "x" else axis.yaxis
    side.set_ticks(places, labels, parse_math=False)
    line = axis.axvline if which == "x" else axis.axhline
    if when.origin is not None:
        line(when.origin, color="black", linewidth=1, linestyle="--")
    for stretch in when.stretches[1:]:
        line(stretch.start - 0.5, color="black", linewidth=1)


def time_ticks(when: Timeline) -> tuple[np.ndarray, list[str]]:
    """Positions and their dates; for several variables, the middle of each variable and its name."""
    if names := when.names:
        every = slice(None, None, -(-len(names) // MAX_NAMES))
        middles = [(stretch.start + stretch.stop - 1) / 2 for stretch in when.stretches]
        return np.array(middles[every]), names[every]
    places = choose_evenly_spaced(len(when), MAX_TICKS)
    return places, [f"{date:%Y-%m-%d\n%H:%M}" for date in when.when[places]]


def format_span(when: Timeline) -> str:
    return f"{when.when.min():%Y-%m-%d %H:%M} to {when.when.max():%Y-%m-%d %H:%M}"


def draw_importance(found: Sequence[Importance], title: str) -> Picture:
    """Bars of the increase of MSE with its standard deviation, the most important inputs first."""
    bars = sorted(found, key=lambda one: -one.mse)[:MAX_BARS]
    figure, axis = subplots(figsize=(10, 0.22 * len(bars) + 1.1), layout="constrained")
    values, deviations = [one.mse for one in bars], [one.mse_std for one in bars]
    places = np.arange(len(bars))
    drawn = axis.barh(places, values, height=0.7, color=FIRST, xerr=deviations, ecolor=TRUTH_COLOUR)
    axis.bar_label(drawn, [f"{value:.2g}" for value in values], padding=4, fontsize=7)
    axis.set_yticks(places, [one.group.label for one in bars], fontsize=8, parse_math=False)
    axis.invert_yaxis()
    axis.margins(x=0.1, y=0.01)
    axis.axvline(0, color="#777777", linewidth=0.8)
    axis.set_xlabel("increase of MSE (scaled)", fontsize=9)
    style_axis(axis)
    figure.suptitle(title, fontsize=11, parse_math=False)
    return Picture("importance", figure, IMPORTANCE)
