"""Figures of runs and forecasts, and their common style."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import matplotlib.dates as mdates
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from forecast.data.scaler import Scaler
from forecast.evaluation.scores import BASELINES
from forecast.reports.plots import PlottedForecast, attention_colour
from forecast.system.files import atomic_file

MODEL_COLOUR = attention_colour("full")
BASELINE_LINES = {facts.label: {"color": facts.colour, "linestyle": facts.dashes} for facts in BASELINES.values()}
TRUTH_COLOUR = "#222222"
MARK: dict[str, Any] = {"color": "#999999", "linewidth": 0.8, "linestyle": ":"}  # a vertical line at a date
LEGEND_COLUMNS, MAX_TICKS = 6, 8
MAX_RATIO = 4  # errors of baselines are shown up to this many times the highest error of the model
LABEL_WIDTH, TITLE_WIDTH = 22, 64  # characters in a line of a label or title


class Picture(Figure):
    """A figure that a notebook shows without pyplot."""

    def _repr_png_(self) -> bytes:
        self.savefig(content := BytesIO(), dpi=80)
        return content.getvalue()


def subplots(
    rows: int = 1, columns: int = 1, *, figsize: tuple[int | float, int | float], layout: Any = None, **options: Any
) -> tuple[Figure, Any]:
    """Create a figure and its axes as pyplot does, but without pyplot, which would affect the figures of a notebook."""
    figure = Picture(figsize=figsize, layout=layout)
    return figure, figure.subplots(rows, columns, **options)


def style_axis(axis: Axes, which: Literal["major", "both"] = "major") -> None:
    """Draw a light grid, and leave out the upper and the right border."""
    axis.grid(alpha=0.25, which=which)
    axis.spines[["top", "right"]].set_visible(False)


def label_values(axis: Axes, label: str) -> None:
    """Label the vertical axis: a long name in several lines, and large numbers in full, such as 1,500,000."""
    lines = textwrap.wrap(label.replace("/", "/ "), LABEL_WIDTH, max_lines=3, placeholder=" ...")
    lines = [line.replace("/ ", "/") for line in lines]  # joined ids break behind their sign, and not in a word
    axis.set_ylabel("\n".join(lines), fontsize=9 if len(lines) < 3 else 8, parse_math=False)
    axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))


def format_dates(axis: Axes, min_ticks: int, max_ticks: int, timezone: str | None = None) -> None:
    """Label the horizontal axis with round dates, and with their time zone if it is known."""
    ticks = mdates.AutoDateLocator(minticks=min_ticks, maxticks=max_ticks)
    axis.xaxis.set_major_locator(ticks)
    axis.xaxis.set_major_formatter(mdates.ConciseDateFormatter(ticks))
    axis.set_xlabel(timezone or "", fontsize=9)


def draw_forecast(
    axis: Axes,
    label: str,
    history: tuple[pd.Index, np.ndarray],
    dates: pd.Index,
    lines: Mapping[str, np.ndarray],
    bands: Mapping[int | float, tuple[np.ndarray, np.ndarray]],
    attention: str,
) -> None:
    """Draw known values, and lines and bands of a forecast that begin at the last one that is not missing.

    `dates`, `lines`, `bands`: of the forecast (pred_len,): dates; values by name, of which those of the `truth` have
    the colour of the history; lower and upper bounds by level in percent.
    """
    last = max(np.flatnonzero(np.isfinite(history[1])).tolist(), default=len(history[1]) - 1)
    ahead, known = history[0][last : last + 1].append(dates), history[1][last]
    axis.plot(*history, color=TRUTH_COLOUR, linewidth=1.1, label="measured")
    for level in sorted(bands, reverse=True):
        low, high = (np.append(known, side) for side in bands[level])
        fill_band(axis, ahead, low, high, level, attention_colour(attention))
    for name, values in lines.items():
        style = {"linewidth": 1.6, "label": name, **style_line(name, attention)}
        truth = {"linewidth": 1.1, "label": "measured", "color": TRUTH_COLOUR}
        axis.plot(ahead, np.append(known, values), **(truth if name == "truth" else style))
    axis.axvline(history[0][-1], **MARK)
    style_axis(axis)
    label_values(axis, label)


def forecast_figure(
    dates: Sequence[pd.DatetimeIndex],
    truth: Sequence[np.ndarray],
    forecasts: Mapping[str, Sequence[np.ndarray]],
    variables: Sequence[str],
    pred_len: int,
    title: str,
    attention: str,
    names: Sequence[str],
    bands: Mapping[int | float, tuple[np.ndarray, np.ndarray]],
    timezone: str | None,
) -> Figure:
    """Draw forecasts and truth in a grid with one row for each variable and one column for each window.

    Args:
        dates, truth, names: of each window: timestamps (shown + pred_len,), values in original units (shown + pred_len,
            variables), and title.
        forecasts: by label, of each window, (pred_len, variables) in original units.
        bands: bounds of the intervals of the model (windows, pred_len, variables), by level in percent.
    """
    size = 4.6 * len(dates), 2.3 * len(variables) + 0.9
    figure, axes = subplots(len(variables), len(dates), figsize=size, squeeze=False)
    for w, when in enumerate(dates):
        for v, variable in enumerate(variables):
            lines = {"truth": truth[w][-pred_len:, v]}
            lines |= {name: each[w][:, v] for name, each in forecasts.items()}
            sides = {level: (low[w, :, v], high[w, :, v]) for level, (low, high) in bands.items()}
            history = when[:-pred_len], truth[w][:-pred_len, v]
            label = variable if w == 0 else ""
            draw_forecast(axes[v, w], label, history, when[-pred_len:], lines, sides, attention)
            format_dates(axes[v, w], 2, 8, timezone if v == len(variables) - 1 else None)
            axes[v, w].tick_params(axis="x", labelsize=8)
        axes[0, w].set_title(textwrap.fill(names[w], TITLE_WIDTH), fontsize=9, parse_math=False)
    add_legend(figure, axes[0, 0], title)
    return figure


def prediction_figure(forecasts: Sequence[PlottedForecast], title: str) -> Figure:
    """Draw one row of axes for each forecast: recent history, forecast, bounds, and the truth where it is known.

    The recent history is as long as four horizons, at least 48 steps, so that the forecast stays visible.
    """
    size = 9, 1.9 * len(forecasts) + 1.1
    has_same_dates = all(found.dates.equals(forecasts[0].dates) for found in forecasts)
    figure, axes = subplots(len(forecasts), 1, figsize=size, sharex=has_same_dates, squeeze=False)
    for axis, found in zip(axes[:, 0], forecasts, strict=True):
        recent = slice(-max(4 * len(found.dates), 48), None)
        history = found.history_dates[recent], found.history[recent]
        lines = {"forecast": found.values, "truth": found.truth}
        bands = {level: (found.low[level], found.high[level]) for level in found.low}
        draw_forecast(axis, found.label, history, found.dates, lines, bands, "full")
        format_dates(axis, 3, 10, found.timezone if axis is axes[-1, 0] else None)
    add_legend(figure, axes[0, 0], title)
    return figure


def add_legend(figure: Figure, axis: Axes, title: str) -> None:
    """Add the title, and below the axes a legend that names equal lines once, `LEGEND_COLUMNS` in a row."""
    handles = dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    rows = -(-len(handles) // LEGEND_COLUMNS)
    figure.suptitle(title, fontsize=11, parse_math=False)
    figure.tight_layout(rect=(0, (0.15 + 0.25 * rows) / figure.get_figheight(), 1, 1))
    columns = -(-len(handles) // rows)
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncols=columns, frameon=False)


def fill_band(axis: Axes, dates: pd.Index, low: np.ndarray, high: np.ndarray, level: int | float, colour: str) -> None:
    """Fill the interval of a level, in percent; intervals of higher levels are paler."""
    alpha, label = 0.5 - 0.4 * level / 100, f"{level:g}% interval"
    axis.fill_between(dates, low, high, color=colour, linewidth=0, alpha=alpha, label=label)


def style_line(label: str, attention: str) -> dict[str, str]:
    """Return the colour and the dashes of a line: those of a baseline, or else of the model's attention type."""
    return BASELINE_LINES.get(label, {"color": attention_colour(attention)})


def step_figure(
    errors: Mapping[str, np.ndarray],
    title: str,
    attention: str,
    season: int,
    step: str,
    scaler: Scaler,
    columns: Sequence[str],
) -> Figure:
    """Draw the scaled MSE at each step of the horizon: errors[label] (pred_len,), those of the model first.

    The legend has the highest errors of baselines that are cut, see `limit_errors`; for the other arguments, see
    `label_steps` and `label_units`.
    """
    figure, axis = subplots(figsize=(7, 3.6))
    (_, of_model), *_ = errors.items()
    top = limit_errors(axis, of_model, errors.values())
    for name, values in errors.items():
        width = 1.3 if name in BASELINE_LINES else 3  # visible below an equal baseline
        label = f"{name} (to {values.max():.3g})" if values.max() > top else name
        axis.plot(np.arange(1, len(values) + 1), values, label=label, linewidth=width, **style_line(name, attention))
    label_steps(axis, len(of_model), season, step)
    label_units(axis, scaler, columns)
    axis.set_title(title, parse_math=False)
    style_axis(axis)
    axis.legend(frameon=False)
    figure.tight_layout()
    return figure


def limit_errors(axis: Axes, of_model: np.ndarray, errors: Iterable[np.ndarray]) -> float:
    """Cut errors at `MAX_RATIO` times the highest one of the model; return the upper limit, infinite if none is cut."""
    top = MAX_RATIO * float(np.nanmax(of_model))
    is_cut = 0 < top < max(float(np.nanmax(values)) for values in errors)
    axis.set_ylim(0, top if is_cut else None)
    axis.set_ylabel("MSE (scaled)")
    return top if is_cut else np.inf


def label_units(axis: Axes, scaler: Scaler, columns: Sequence[str]) -> None:
    """Label scaled MSE of one column of one series on the right too, by its root in original units."""
    if scaler.error_unit.numel() > 1 or not scaler.error_unit_is_scale:
        return
    unit = float(scaler.error_unit)
    to_units, to_scaled = (lambda mse: unit * np.sqrt(np.maximum(mse, 0))), (lambda rmse: (rmse / unit) ** 2)
    right = axis.secondary_yaxis("right", functions=(to_units, to_scaled))
    right.yaxis.set_major_locator(MaxNLocator(4, prune="lower"))  # low roots lie close together
    right.set_ylabel(f"RMSE ({columns[0]})", parse_math=False)


def label_steps(axis: Axes, pred_len: int, season: int, step: str) -> None:
    """Label a horizontal axis of the steps of the horizon.

    Ticks are multiples of the rows of a season, or of a half or quarter in a short horizon. `step` is the time of a
    step, such as "hour" or "15 minutes", see `plots.name_step_ahead`.
    """
    axis.set_xlabel(f"steps of {step} ahead" if step[0].isdigit() else f"{step}s ahead")
    while season % 2 == 0 and 3 * season > pred_len:
        season //= 2
    if season > 1 and pred_len >= 3 * season:
        axis.set_xticks(np.arange(0, pred_len + 1, season * max(1, pred_len // (MAX_TICKS * season))))


def save(figure: Figure, path: Path) -> None:
    """Write a figure to a file, complete or not at all."""
    with atomic_file(path) as temporary:
        figure.savefig(temporary, dpi=110)
