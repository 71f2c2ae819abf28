"""Figures of attention and of inputs, with their captions.

Attention maps and curves have one panel per head and time on the axes. Weights are relative to uniform attention, on a
logarithmic colour scale: double and half are equally strong colours. White is uniform attention, red is more and blue
is less.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import matplotlib
import matplotlib.dates as mdates
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from forecast.attention import Curves
from forecast.reports.figures import TRUTH_COLOUR, style_axis, subplots
from forecast.tools.explain.importance import Importance
from forecast.tools.explain.maps import Layer, LayerMap, Timeline

MAX_HEADS = 8
"""Largest number of heads of a picture."""
MAX_PIXELS = 500
"""Largest number of pixels of a map along one axis; larger maps are drawn as means of blocks."""
MAX_NAMES = 20
"""Largest number of names of variables on an axis."""
MAX_TICKS = 7
"""Largest number of dates on an axis."""
MAX_BARS = 30
"""Largest number of bars of the picture of importances."""
WEIGHTS, INVISIBLE, SELECTED = "RdBu_r", "#c8c8c8", "#f3d9a4"
FIRST, SECOND = "#0b6e99", "#c2571a"
RELATIVE_WEIGHT = "× uniform attention"
IMPORTANCE = (
    "Each bar is the increase of the squared error when all windows read this input from another window, in a random "
    "order; the black line is the standard deviation over the repeats. A bar of zero: the forecasts do not need the "
    "input. History is the course of the values around their mean, level is this mean. Lags count steps back from the "
    "first forecast step. Inputs that carry the same information, such as correlated columns, share their importance, "
    "so each of them alone may look unimportant."
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
    uniform = 1 / np.arange(1, len(queries) + 1)[:, None] if layer.call.causal else 1 / len(keys)
    images = [
        shrink_map(weights.numpy() / uniform, causal=layer.call.causal)
        for weights in measured.weights[:heads]
    ]
    values = np.concatenate([image[np.isfinite(image)] for image in images])
    doublings = np.abs(np.log2(values.clip(2**-4, 2**4)))
    # the darkest colour is the 99.5% quantile of the weights, at most 16 times uniform attention
    limit = 2 ** max(np.ceil(4 * float(np.quantile(doublings, 0.995))) / 4, 0.25)
    figure, axes = _panels(heads, min(max(len(queries) / len(keys), 0.5), 1))
    palette = matplotlib.colormaps[WEIGHTS].with_extremes(bad=INVISIBLE)
    for axis, image in zip(axes, images, strict=True):
        drawn = axis.imshow(
            image.clip(min=1 / limit), cmap=palette, norm=LogNorm(1 / limit, limit), aspect="auto",
            interpolation="nearest", extent=(-0.5, len(keys) - 0.5, len(queries) - 0.5, -0.5),
        )  # fmt: skip
        mark_time(axis, keys, "x")
        mark_time(axis, queries, "y")
        axis.set_xlabel("key", fontsize=9)
    figure.supylabel("query", fontsize=9)
    ticks = limit ** np.linspace(-1, 1, 5)
    bar = figure.colorbar(drawn, ax=axes, location="bottom", aspect=40, shrink=0.8, pad=0.01, extend="both")
    bar.set_ticks(ticks.tolist(), labels=[f"{t:.2g}" if t >= 1 else f"1/{1 / t:.2g}" for t in ticks])
    bar.minorticks_off()
    bar.set_label(RELATIVE_WEIGHT)
    figure.suptitle(f"{layer.title}\nkeys: {format_span(keys)}", fontsize=11, parse_math=False)
    return Picture(layer.file, figure, caption_map(measured))


def caption_map(measured: LayerMap) -> str:
    """How to read the picture of a map."""
    layer, attention = measured.layer, measured.layer.call.attention
    what = "Each row is a query, each column a key."
    if measured.is_influence:
        what = (
            "This layer does not mix values with weights. Row i shows how much the output at position i changes if one "
            "position is replaced by the mean of all positions, as shares of the row."
        )
    elif attention.uses_only_values:
        what = "A control: the map is the same in every window."
    elif reason := attention.why_equal_to_softmax(len(layer.queries), len(layer.keys)):
        what += f" The layer {reason}, so its map is that of softmax."
    colours = "White: as much weight as uniform attention gives. Red: more. Blue: less, or a negative weight."
    notes = [what, colours, describe_positions(layer)]
    if layer.call.causal:
        notes.append("Grey: later steps, which a causal layer does not read.")
    if len(layer.keys.stretches) > 1:
        parts = "the outputs of the encoders" if layer.keys.patch_len is None else "the variables"
        notes.append(f"Solid lines separate {parts}.")
    if len(measured.weights) > MAX_HEADS:
        notes.append(f"The picture shows {MAX_HEADS} of {len(measured.weights)} heads.")
    sizes = block_size(len(layer.queries)), block_size(len(layer.keys))
    if max(sizes) > 1:
        notes.append(f"A pixel is the mean over {sizes[0]} × {sizes[1]} positions.")
    return " ".join(notes)


def describe_positions(layer: Layer) -> str:
    """What a position is, and what stands in the horizon."""
    patch_len, widths = layer.keys.patch_len, sorted(set(layer.keys.widths))
    if patch_len is not None:
        what = f"A position is a patch of {patch_len} steps; its date is that of their middle."
    elif widths == [1]:
        what = "A position is one step."
    else:
        what = f"After distilling, a key represents {' or '.join(map(str, widths))} steps, dated at their middle."
    if layer.keys.origin is not None:
        what += (
            " The dashed line is the origin of the forecast; the horizon after it enters as "
            f"{layer.horizon_input}."
        )
    return what


def draw_curves(layer: Layer, curves: Curves) -> Picture:
    """The quantities that an attention type adds to its map, over time; weights relative to uniform attention."""
    when = layer.queries if curves.over == "query" else layer.keys
    factor = 1 if curves.unit else len(when)
    heads = min(MAX_HEADS, layer.call.q.shape[1])
    figure, axes = _panels(heads, 0.5)
    for head, axis in enumerate(axes):
        for (name, values), colour, dashes in zip(
            curves.values.items(), (FIRST, SECOND), ("-", (0, (3, 2))), strict=False
        ):
            values = factor * values[0, head].numpy()
            axis.plot(np.arange(len(when)), values, color=colour, linestyle=dashes, linewidth=1.3, label=name)
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
    line = axis.axvline if which == "x" else axis.axhline
    if when.origin is not None:
        line(when.origin, color="black", linewidth=1, linestyle="--")
    for stretch in when.stretches[1:]:
        line(stretch.start - 0.5, color="black", linewidth=1)


def time_ticks(when: Timeline) -> tuple[np.ndarray, list[str]]:
    """Positions of round dates and their labels; for joint variables, the middle of each variable and its name."""
    if names := when.names:
        every = slice(None, None, -(-len(names) // MAX_NAMES))
        middles = [(stretch.start + stretch.stop - 1) / 2 for stretch in when.stretches]
        return np.array(middles[every]), names[every]
    dates = mdates.date2num(when.when.to_numpy())
    locator = mdates.AutoDateLocator(minticks=1, maxticks=max(MAX_TICKS // len(when.stretches), 2))
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


def draw_importance(found: Sequence[Importance], title: str) -> Picture:
    """Bars of the increase of MSE with its standard deviation, the most important inputs first."""
    bars = sorted(found, key=lambda one: -one.mse)[:MAX_BARS]
    figure, axis = subplots(figsize=(10, 0.22 * len(bars) + 1.1), layout="constrained")
    values, deviations = [one.mse for one in bars], [one.mse_std for one in bars]
    drawn = axis.barh(
        np.arange(len(bars)), values, height=0.7, color=FIRST, xerr=deviations, ecolor=TRUTH_COLOUR
    )
    axis.bar_label(drawn, [f"{value:.2g}" for value in values], padding=4, fontsize=7)
    axis.set_yticks(np.arange(len(bars)), [one.group.label for one in bars], fontsize=8, parse_math=False)
    axis.invert_yaxis()
    axis.margins(x=0.1, y=0.01)
    axis.axvline(0, color="#777777", linewidth=0.8)
    axis.set_xlabel("increase of MSE (scaled)", fontsize=9)
    style_axis(axis)
    figure.suptitle(title, fontsize=11, parse_math=False)
    return Picture("importance", figure, IMPORTANCE)
