"""An explanation: the inputs of the forecasts are measured, the attention layers drawn on one window, and both written.

The output folder has one PNG file per picture, the numbers as CSV, and an HTML page with everything.

Attention maps and curves have one panel per head and time on the axes. Weights are relative to uniform attention, on a
logarithmic colour scale: double and half are equally strong colours. White is uniform attention, red is more and blue
is less.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import matplotlib
import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from omegaconf import DictConfig
from rich.console import Console

from forecast.attention import Curves
from forecast.data import Batch, DataModule, Windows
from forecast.data.time_features import choose_evenly_spaced
from forecast.inference.model import TrainedModel
from forecast.inference.origins import find_date, note_on_windows
from forecast.models.base import FULL_WEIGHT
from forecast.reports.figures import TRUTH_COLOUR, style_axis, subplots
from forecast.reports.templates import render
from forecast.system.errors import ConfigError
from forecast.system.files import atomic_folder
from forecast.system.formatting import plural
from forecast.system.progress import track
from forecast.tools.explain.importance import Importance, WindowSample, measure_importance, tabulate_importance
from forecast.tools.explain.maps import Layer, LayerMap, Timeline, list_layers, measure_layer, record_calls
from forecast.training.create_model import summarize_attention

MAX_NAMED = 10  # most important inputs that the terminal and the page name
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


# ---- the explanation


class Section(NamedTuple):
    """A part of the page: a heading, lines below it, and pictures."""

    title: str
    lines: Sequence[str]
    pictures: Sequence[Picture]


def explain_model(config: DictConfig, trained: TrainedModel, data: DataModule, output: Path) -> None:
    window = choose_window(data, config.split, config.window)
    layers = measure_layers(config, trained, data, window)
    notes = describe_layers(trained)
    if config.split == "test" and (note := note_on_windows(trained, data)):  # as after a refit
        notes.append(f"{note}; the run's best.ckpt was trained on earlier rows only")
    importance, sections = [], []
    if config.importance_windows and len(data.windows[config.split]) > 1:  # one has none to be permuted with
        title, importance = study_inputs(config, trained, data)
        strongest = sorted(importance, key=lambda one: -one.mse)[:MAX_NAMED]
        lines = [f"{one.group.label} {one.mse:+.3g} ± {one.mse_std:.2g}" for one in strongest]
        sections.append(Section(title, lines, [draw_importance(importance, title)]))
    for measured in track(layers, "Drawing"):
        lines = [f"{name}: {value:.3g}" for name, value in measured.numbers.items()]
        sections.append(Section(measured.layer.title, lines, draw_layer(measured)))
    of_series = f", series {window.series}" if window.series else ""
    title = f"Explanation of the {config.split} window of {window.origin} of {data.title}{of_series}"
    facts = [*notes, *describe_window(trained, data, window, choose_variable(trained) if layers else None)]
    with atomic_folder(output) as folder:
        write_page(folder, title, facts, sections)
        if importance:
            tabulate_importance(importance).to_csv(folder / "importance.csv", index=False)
        names = ((one.layer.call.name, one.layer.attention_type, one.numbers.items()) for one in layers)
        if rows := [(name, kind, *number) for name, kind, numbers in names for number in numbers]:
            table = pd.DataFrame(rows, columns=["layer", "kind", "number", "value"])
            table.to_csv(folder / "numbers.csv", index=False)
        files = sorted(path.name for path in folder.iterdir())
    Console(soft_wrap=True, highlight=False, markup=False).print(title, style="bold")
    of_sections = (line for part in sections for line in (part.title, *(f"  {one}" for one in part.lines)))
    print(*notes, *of_sections, sep="\n")
    others = [name for name in files if not name.endswith(".png")]
    print(f"saved in {output}: {', '.join(others)} and {plural(len(files) - len(others), 'picture')}")


def windows_at_every_step(data: DataModule, split: str) -> Windows:
    """The windows of a split, with those that data.eval_stride leaves out."""
    windows = data.windows[split]
    first = np.maximum(data.panel.starts, data.rows[split][0] - data.seq_len).tolist()
    starts = zip(first, windows.starts, strict=True)
    return windows.with_starts([range(row if rows else rows.stop, rows.stop) for row, rows in starts])


@dataclass(frozen=True)
class Window:
    series: str  # id of the series that the window lies in; empty for a table
    dates: pd.DatetimeIndex  # of the past and the horizon (seq_len + pred_len), as local times of the data
    batch: Batch  # of this window alone, scaled

    @property
    def origin(self) -> pd.Timestamp:
        """The date of the first forecast step."""
        return pd.Timestamp(self.dates[self.batch.past.shape[1]])  # type: ignore[return-value]


def choose_window(data: DataModule, split: str, wanted: str) -> Window:
    """The window that `wanted` names: first, last, or the date of its first forecast step.

    Series follow one another, and a date means the first series that has such a window. Raises ConfigError for a split
    or window that does not exist.
    """
    if split not in data.windows:
        splits = ", ".join(data.windows)
        raise ConfigError(f"split={split}: the data have no such split; choose one of {splits}")
    windows, panel = windows_at_every_step(data, split), data.panel
    if wanted in ("first", "last"):
        number = 0 if wanted == "first" else len(windows) - 1
    else:
        try:
            position = find_date(panel, "window", wanted)
        except ConfigError as error:
            raise ConfigError(f"{error}; or give first or last") from None
        rows = (panel.starts - panel.grid_starts + position - windows.seq_len).tolist()
        before = np.cumsum([0, *map(len, windows.starts)]).tolist()
        found = zip(before, windows.starts, rows, strict=False)
        number = next((n + starts.index(row) for n, starts, row in found if row in starts), None)
        if number is None:
            edges = np.array([[starts.start, starts.stop - 1] for starts in windows.starts if starts])
            dates = panel.local_dates(edges.ravel() + windows.seq_len)
            raise ConfigError(
                f"window={wanted}: forecasts of the {split} split begin from {dates.min()} to {dates.max()}, "
                f"{panel.describe_step()}; give first, last or such a date"
            )
    batch = windows.gather(torch.tensor([number], device=windows.device))
    steps = np.arange(-windows.seq_len, windows.pred_len)
    dates = panel.local_dates(int(windows.origins(batch.index)) + steps)
    return Window(str(panel.ids[int(batch.series)]), dates, batch)


def measure_layers(config: DictConfig, trained: TrainedModel, data: DataModule, window: Window) -> list[LayerMap]:
    """The chosen layers on a window; none if they do not change the forecast.

    Raises ConfigError for a slot that the model lacks, or a map that is too large.
    """
    if adds_nothing(trained):
        return []
    network, batch = trained.network, window.batch
    _, calls = record_calls(network, batch.past, batch.past_time, batch.future_time)
    variable = choose_variable(trained)
    if variable is not None:
        last = calls[0].q.shape[2] - 1  # layers over variables: those of the last patch
        over_variables = {layer.name for layer in network.attention_layers() if layer.slot == "variables"}
        calls = [call.select_sequence(last if call.name in over_variables else variable) for call in calls]
    layers = list_layers(network, calls, window.dates, data.seq_len, trained.feature_columns)
    slots = dict.fromkeys(layer.place.slot for layer in layers)
    if layers and config.slot not in ("all", *slots):
        raise ConfigError(f"slot={config.slot}: this model has the slots {', '.join(slots)}; give one, or all")
    return [measure_layer(layer) for layer in layers if config.slot in ("all", layer.place.slot)]


def study_inputs(config: DictConfig, trained: TrainedModel, data: DataModule) -> tuple[str, list[Importance]]:
    """The importance of the inputs on windows of the split, and a sentence on how it was measured."""
    windows, every = data.windows[config.split], windows_at_every_step(data, config.split)
    sample = WindowSample(data, windows, every, most=config.importance_windows)
    mse = sample.score(trained.forecast_batch, sample.batch)
    title = (
        f"Importance: increase of the MSE, {mse:.3g} on {len(sample)} {config.split} windows, when an input is that of "
        f"other windows ({config.repeats} repeats)"
    )
    return title, measure_importance(trained.forecast_batch, sample, config.repeats)


def choose_variable(trained: TrainedModel) -> int | None:
    """The number of the variable whose layers over time are shown; None in models without a sequence per variable."""
    columns = {"axes": trained.feature_columns, "independent": trained.target_columns}
    numbered = columns.get(trained.network.tokens)
    return None if numbered is None else numbered.index(main_target(trained))


def main_target(trained: TrainedModel) -> str:
    """The target that is drawn: data.target if it is a target, else the last one."""
    columns, wanted = trained.target_columns, trained.config["data"]["target"]
    return wanted if wanted in columns else columns[-1]


def describe_window(trained: TrainedModel, data: DataModule, window: Window, variable: int | None) -> list[str]:
    facts = [
        f"checkpoint {trained.path}",
        f"forecast from {window.origin} to {window.dates[-1]}, {data.panel.describe_step()}, from the "
        f"{data.seq_len} steps since {window.dates[0]}",
    ]
    if variable is not None:
        name = main_target(trained)
        facts.append(
            f"layers over time are those of {name}; layers over variables are those of the last patch of the horizon"
            if trained.network.tokens == "axes"
            else f"each variable is forecast independently: this is {name}"
        )
    return facts


def adds_nothing(trained: TrainedModel) -> bool:
    """Whether the attention layers do not change the forecast."""
    return trained.is_untrained or trained.network.shrinkage_weight == 0


def describe_layers(trained: TrainedModel) -> list[str]:
    """Say which part the attention layers have in the forecast."""
    network = trained.network
    if not network.attention_layers():
        return [f"{type(network).__name__} names no attention layers, so none are drawn"]
    if adds_nothing(trained):
        return [
            f"this model is the {network.warm_start_name} alone: its attention layers are untrained, do not change "
            "the forecast and are not drawn"
        ]
    notes = [f"attention {trained.config['model']['attention']['name']}"]
    if cross := summarize_attention(network).get("cross"):
        notes[0] += f"; cross-attention {cross.type.lower()}"
    if network.shrinkage_weight < FULL_WEIGHT:
        weight = f"{network.shrinkage_weight:.0%}"
        notes.insert(0, f"shrinkage weight of the attention layers in the forecast: {weight}")
    return notes


def write_page(folder: Path, title: str, facts: Sequence[str], sections: Sequence[Section]) -> None:
    """Write the pictures as PNG files, and index.html with everything, into `folder`."""
    pictures = (picture for section in sections for picture in section.pictures)
    images = {picture.name: _save_picture(folder, picture) for picture in pictures}
    template = Path(__file__).with_name("page.html")
    page = render(template, title=title, facts=facts, sections=sections, images=images)
    (folder / "index.html").write_text(page, encoding="utf-8")


def _save_picture(folder: Path, picture: Picture) -> str:
    path = folder / f"{picture.name}.png"
    picture.figure.savefig(path, dpi=110)
    return base64.b64encode(path.read_bytes()).decode()
