"""Figures of runs and forecasts, and their common style."""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib.dates as mdates
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from forecast.evaluation.scores import BASELINES
from forecast.reports.colours import attention_colour
from forecast.reports.plotted_forecast import Band, PlottedForecast
from forecast.system.files import atomic_file

MODEL_COLOUR = attention_colour("full")
BASELINE_LINES = {
    facts.label: {"color": facts.colour, "linestyle": facts.dashes} for facts in BASELINES.values()
}
TRUTH_COLOUR = "#222222"
MAX_TICKS = 8
MAX_LABEL = 22
"""Largest number of characters in a line of a label of the vertical axis."""

TITLE_WIDTH = 64
"""Letters in a line of the title of a window."""


def subplots(
    rows: int = 1,
    columns: int = 1,
    *,
    figsize: tuple[int | float, int | float],
    layout: Any = None,
    **options: Any,
) -> tuple[Figure, Any]:
    """Create a figure and its axes as pyplot does, but without pyplot, which would affect the figures of a notebook."""
    figure = Figure(figsize=figsize, layout=layout)
    return figure, figure.subplots(rows, columns, **options)


def style_axis(axis: Axes, which: Literal["major", "both"] = "major") -> None:
    """Draw a light grid, and leave out the upper and the right border."""
    axis.grid(alpha=0.25, which=which)
    axis.spines[["top", "right"]].set_visible(False)


def label_values(axis: Axes, label: str) -> None:
    """Label the vertical axis: a long name in several lines, and large numbers in full, such as 1,500,000."""
    lines = textwrap.wrap(label, MAX_LABEL, max_lines=3, placeholder=" ...")
    axis.set_ylabel("\n".join(lines), fontsize=9 if len(lines) < 3 else 8, parse_math=False)
    axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))


def format_dates(axis: Axes, min_ticks: int, max_ticks: int) -> None:
    """Label the horizontal axis with round dates."""
    ticks = mdates.AutoDateLocator(minticks=min_ticks, maxticks=max_ticks)
    axis.xaxis.set_major_locator(ticks)
    axis.xaxis.set_major_formatter(DateFormatter(ticks, show_offset=False))


class DateFormatter(mdates.ConciseDateFormatter):
    """Concise dates; below the first one that is visible, the year, month or day that it lacks.

    Matplotlib writes what the last date lacks at the end of the axis, which may be another month.
    """

    def format_ticks(self, values: Any) -> list[str]:
        labels = super().format_ticks(values)
        assert self.axis is not None
        visible = [i for i, value in enumerate(values) if value >= min(self.axis.get_view_interval())]
        if len(values) < 2 or not visible:
            return labels
        first, days = visible[0], values[1] - values[0]
        date = mdates.num2date(values[first], tz=self._tz)
        lacks = "%Y-%b-%d" if days < 1 else "%Y-%b" if days < 28 else "%Y" if days < 365 else ""
        if lacks and labels[first] != date.strftime("%Y"):
            labels[first] += f"\n{date.strftime(lacks)}"
        return labels


def forecast_figure(
    dates: Sequence[pd.DatetimeIndex],
    truth: Sequence[np.ndarray],
    forecasts: Mapping[str, Sequence[np.ndarray]],
    variables: Sequence[str],
    pred_len: int,
    title: str,
    attention: str,
    names: Sequence[str] = (),
    band: Band | None = None,
) -> Figure:
    """Draw forecasts and truth in a grid with one row for each variable and one column for each window.

    Args:
        dates: of each window, (shown + pred_len,) timestamps.
        truth: of each window, (shown + pred_len, variables) in original units.
        forecasts: by label, of each window, (pred_len, variables) in original units.
        variables: names of the variables.
        pred_len: number of forecast steps.
        title: title of the figure.
        attention: attention type of the model, which has a colour of its own.
        names: titles of the windows, if they have any.
        band: intervals of the model.
    """
    figure, axes = subplots(
        len(variables), len(dates), figsize=(4.6 * len(dates), 2.3 * len(variables) + 0.9), squeeze=False
    )
    for w, when in enumerate(dates):
        for v, variable in enumerate(variables):
            axis = axes[v, w]
            axis.plot(when, truth[w][:, v], color=TRUTH_COLOUR, linewidth=1.1, label="truth", zorder=3)
            # the forecasts begin at the last known value
            known, ahead = truth[w][-pred_len - 1, v], when[-pred_len - 1 :]
            if band is not None:
                low, high = (np.append(known, side[w, :, v]) for side in (band.low, band.high))
                fill_band(axis, ahead, low, high, band.level, attention_colour(attention))
            for name, windows in forecasts.items():
                values = np.append(known, windows[w][:, v])
                axis.plot(ahead, values, linewidth=1.6, label=name, **style_line(name, attention))
            axis.axvline(when[-pred_len - 1], color="#999999", linewidth=0.8, linestyle=":")
            format_dates(axis, 2, 8)
            axis.tick_params(axis="x", labelsize=8)
            style_axis(axis)
            label_values(axis, variable if w == 0 else "")
            if v == 0 and names:
                axis.set_title(textwrap.fill(names[w], TITLE_WIDTH), fontsize=9, parse_math=False)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.suptitle(title, fontsize=11, parse_math=False)
    figure.legend(handles, labels, loc="lower center", ncols=len(labels), frameon=False)
    figure.tight_layout(rect=(0, 0.09 if len(variables) < 3 else 0.05, 1, 1))
    return figure


def prediction_figure(forecasts: Sequence[PlottedForecast], title: str) -> Figure:
    """Draw one row of axes for each forecast: recent history, forecast, bounds, and the truth where it is known.

    The recent history is as long as four horizons, at least 48 steps, so that the forecast stays visible.
    """
    size = 9, 1.9 * len(forecasts) + 1.1
    has_same_dates = all(found.dates.equals(forecasts[0].dates) for found in forecasts)
    figure, axes = subplots(len(forecasts), 1, figsize=size, sharex=has_same_dates, squeeze=False)
    for axis, found in zip(axes[:, 0], forecasts, strict=True):
        # Lines of the forecast begin at the last known value.
        dates, known = found.history_dates[-1:].append(found.dates), found.history[-1]
        recent = slice(-max(4 * len(found.dates), 48), None)
        axis.plot(
            found.history_dates[recent],
            found.history[recent],
            color=TRUTH_COLOUR,
            linewidth=1.1,
            label="history",
        )
        for level in sorted(found.low, reverse=True):
            low, high = (np.append(known, side[level]) for side in (found.low, found.high))
            fill_band(axis, dates, low, high, level, MODEL_COLOUR)
        axis.plot(dates, np.append(known, found.values), color=MODEL_COLOUR, linewidth=1.8, label="forecast")
        if np.isfinite(found.truth).any():
            truth = np.append(known, found.truth)
            axis.plot(dates, truth, color=TRUTH_COLOUR, linewidth=1.1, linestyle="--", label="truth")
        axis.axvline(found.history_dates[-1], color="#999999", linewidth=0.8, linestyle=":")
        format_dates(axis, 3, 10)
        style_axis(axis)
        label_values(axis, found.label)
    add_legend(figure, axes[0, 0], title)
    return figure


def add_legend(figure: Figure, axis: Axes, title: str) -> None:
    """Add the title, and below the axes a legend that names equal lines once."""
    handles = dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    figure.suptitle(title, fontsize=11, parse_math=False)
    figure.tight_layout(rect=(0, 0.4 / figure.get_figheight(), 1, 1))
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncols=len(handles), frameon=False)


def fill_band(
    axis: Axes, dates: pd.Index, low: np.ndarray, high: np.ndarray, level: int | float, colour: str
) -> None:
    """Fill the interval of a level, in percent; intervals of higher levels are paler."""
    axis.fill_between(
        dates,
        low,
        high,
        color=colour,
        linewidth=0,
        alpha=0.5 - 0.4 * level / 100,
        label=f"{level:g}% interval",
    )


def style_line(label: str, attention: str) -> dict[str, str]:
    """Return the colour and the dashes of a line: those of a baseline, or else of the model's attention type."""
    return BASELINE_LINES.get(label, {"color": attention_colour(attention)})


def step_figure(errors: Mapping[str, np.ndarray], title: str, attention: str, season: int) -> Figure:
    """Draw the scaled MSE at each step of the horizon: errors[label] (pred_len,), one line for each label.

    `attention` is the attention type of the model, which has a colour of its own. Ticks are multiples of `season`, if
    the horizon has several of them.
    """
    figure, axis = subplots(figsize=(7, 3.6))
    for name, values in errors.items():
        axis.plot(
            np.arange(1, len(values) + 1), values, label=name, **style_line(name, attention),
            linewidth=1.3 if name in BASELINE_LINES else 3,  # visible below an equal baseline
        )  # fmt: skip
    axis.set(xlabel="step of the horizon", ylabel="MSE (scaled)")
    axis.set_title(title, parse_math=False)
    axis.set_ylim(bottom=0)
    steps = max(map(len, errors.values()))
    if season > 1 and steps >= season:
        axis.set_xticks(np.arange(0, steps + 1, season * max(1, steps // (MAX_TICKS * season))))
    style_axis(axis)
    label_ends(
        axis, {name: (values[-1], style_line(name, attention)["color"]) for name, values in errors.items()}
    )
    figure.tight_layout()
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write a figure to a file, complete or not at all."""
    with atomic_file(path) as temporary:
        figure.savefig(temporary, dpi=110)


def label_ends(axis: Axes, lines: Mapping[str, tuple[float, str]], *, gap: float = 0.06) -> None:
    """Write the names of lines beside their right ends, in their colours, without overlap.

    Args:
        axis: the axes, whose limits are final.
        lines: by name, the last value of the line and its colour.
        gap: least distance of two names, as a fraction of the height.
    """
    to_axes = axis.transData + axis.transAxes.inverted()
    x = axis.get_xlim()[0]
    heights = {name: float(to_axes.transform((x, value))[1]) for name, (value, _) in lines.items()}
    names = sorted(heights, key=heights.__getitem__)
    places = spread_out([heights[name] for name in names], gap)
    for name, place in zip(names, places, strict=True):
        style: Any = {"color": lines[name][1], "fontsize": 9, "va": "center", "transform": axis.transAxes}
        axis.text(1.01, place, name, parse_math=False, **style)


def spread_out(places: Sequence[float], gap: float) -> list[float]:
    """Move ascending places at least `gap` apart, with the least sum of squares (pool adjacent violators)."""
    blocks: list[list[float]] = []
    for number, place in enumerate(places):
        blocks.append([place - number * gap])
        while len(blocks) > 1 and np.mean(blocks[-2]) > np.mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    means = [float(np.mean(block)) for block in blocks for _ in block]
    return [mean + number * gap for number, mean in enumerate(means)]
