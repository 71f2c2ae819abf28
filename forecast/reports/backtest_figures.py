"""Figures of a backtest: forecasts of successive origins beside the truth, errors by origin and by step."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Int64
from matplotlib.axes import Axes
from matplotlib.dates import date2num
from matplotlib.figure import Figure

from forecast.evaluation.backtest import Backtest, Origins, name_bounds
from forecast.evaluation.levels import QUANTILE, Level
from forecast.evaluation.scores import MODEL, labels
from forecast.reports.colours import attention_colour
from forecast.reports.figures import (
    TRUTH_COLOUR,
    add_legend,
    fill_band,
    format_dates,
    label_values,
    style_axis,
    style_line,
    subplots,
)
from forecast.reports.plotted_forecast import Plot, choose_plots, describe_plots

MAX_STEPS, MIN_ORIGINS = 400, 3
"""Largest number of steps in the figure of forecasts; it has more steps for `MIN_ORIGINS` origins."""
HEADROOM = 2
"""Axes of errors end at this multiple of the largest error of the model and the best baseline."""


def draw_forecasts(backtest: Backtest) -> Figure:
    """Draw forecasts of successive origins beside the truth, with one interval, in original units.

    See `choose_plots` for the series and variables.
    """
    series = np.unique(backtest.origins.series)
    plots, interval = choose_plots(backtest.panel, series, backtest.columns), select_interval(backtest)
    size, is_shared = (9, 1.9 * len(plots) + 1.2), len({plot.series for plot in plots}) == 1
    figure, axes = subplots(len(plots), 1, figsize=size, sharex=is_shared, squeeze=False)
    for axis, plot in zip(axes[:, 0], plots, strict=True):
        draw_successive(axis, backtest, plot, interval)
        style_axis(axis)
        label_values(axis, plot.label)
        format_dates(axis, 3, 10)
    of_method = "" if interval is None else f", {interval.method} intervals"
    left_out = describe_plots(backtest.panel, len(series), len(backtest.columns))
    title = f"{backtest.title}: the last forecasts without overlap{of_method}; dotted: an origin"
    add_legend(figure, axes[0, 0], title + (f"; {left_out}" if left_out else ""))
    return figure


def draw_successive(axis: Axes, backtest: Backtest, plot: Plot, interval: "Interval | None") -> None:
    """Draw the forecasts of a variable of a series beside the truth."""
    pred_len, v = backtest.truth.shape[1], plot.variable
    chosen = select_successive(backtest.origins, plot.series, pred_len)
    windows = backtest.origins.rows[chosen][:, None] + np.arange(pred_len)
    rows = np.arange(windows[0, 0], windows[-1, -1] + 1)
    dates, windows = backtest.panel.utc_offset.shown(backtest.panel.dates(rows)), windows - rows[0]
    truth = np.full(len(rows), np.nan)
    truth[windows] = backtest.truth[chosen, :, v]
    axis.plot(dates, truth, color=TRUTH_COLOUR, linewidth=1.1, label="truth", zorder=3)
    colour = attention_colour(backtest.attention)
    for origin, window in zip(chosen, windows, strict=True):
        when, values = dates[window], backtest.forecasts[MODEL][origin, :, v]
        axis.plot(when, values, color=colour, linewidth=1.6, label="forecast")
        if interval is not None:
            low, high = (backtest.bounds[name][origin, :, v] for name in interval.bounds)
            fill_band(axis, when, low, high, interval.level, colour)
        axis.axvline(float(date2num(when[0])), color="#999999", linewidth=0.6, linestyle=":")


def select_successive(origins: Origins, series: int, pred_len: int) -> Int64[np.ndarray, " chosen"]:
    """Return the last origins of a series whose horizons do not overlap, in the order of time."""
    rows, of_series = origins.rows, np.flatnonzero(origins.series == series)
    chosen = [of_series[-1]]
    for origin in of_series[::-1]:
        if len(chosen) >= MIN_ORIGINS and rows[chosen[0]] + pred_len - rows[origin] > MAX_STEPS:
            break
        if rows[origin] + pred_len <= rows[chosen[-1]]:
            chosen.append(origin)
    return np.array(chosen[::-1], dtype=np.int64)


class Interval(NamedTuple):
    method: str
    level: Level

    @property
    def bounds(self) -> tuple[str, str]:
        """The names of the lower and the upper bound."""
        low, high = name_bounds(self.method, [self.level])
        return low, high


def select_interval(backtest: Backtest) -> Interval | None:
    """Return the method of `predict` and its lowest level; None without intervals."""
    methods = [method for method, sums in backtest.intervals.items() if sums.levels]
    if not methods:
        return None
    method = QUANTILE if QUANTILE in methods else methods[0]
    return Interval(method, min(backtest.intervals[method].levels))


def draw_errors(
    backtest: Backtest, origins: pd.DataFrame, steps: pd.DataFrame, best_baseline: str, title: str
) -> Figure:
    """Draw the scaled MSE by origin, in local time, in the upper axes, and by step of the horizon in the lower axes.

    Args:
        origins: one row for each origin, with `forecast_start` and a column `<name>_mse` for each forecaster. The
            errors of a date are averaged over its series.
        steps: one row for each `step`, with the same columns.
        best_baseline: name of the baseline that sets the limits of the axes, with the model.
        title: title of the figure.
    """
    names = labels(backtest.attention)
    by_date = origins.pivot_table(
        values=[f"{name}_mse" for name in names], index="forecast_start"
    ).reset_index()
    by_date["forecast_start"] = by_date["forecast_start"].dt.tz_localize(None)
    figure, (above, below) = subplots(2, 1, figsize=(9, 6.6))
    for axis, table, x in ((above, by_date, "forecast_start"), (below, steps, "step")):
        for name, label in names.items():
            axis.plot(
                table[x], table[f"{name}_mse"], **style_line(label, backtest.attention), label=label,
                linewidth=2 if name == MODEL else 1.2, marker="o" if len(table) < 40 else None, markersize=3,
            )  # fmt: skip
        limit_errors(axis, table, [MODEL, best_baseline])
        axis.set_ylabel("MSE (scaled)")
        style_axis(axis)
    trainings = backtest.panel.utc_offset.shown(backtest.training_dates[1:])
    for date in trainings:
        above.axvline(date, color="#999999", linewidth=0.8, linestyle=":")
    format_dates(above, 3, 10)
    marked = "; dotted: trained again" if len(trainings) else ""
    above.set_title(f"by origin, the first date forecast{marked}", fontsize=10)
    below.set_title("by step of the horizon, over all origins", fontsize=10)
    below.set_xlabel("step of the horizon")
    add_legend(figure, above, title)
    return figure


def limit_errors(axis: Axes, table: pd.DataFrame, names: Sequence[str]) -> None:
    """Begin the axis at 0, end it where the errors of these forecasters can be read, and name lines that leave it."""
    largest = float(np.nanmax(table[[f"{name}_mse" for name in names]].to_numpy()))
    top = min(axis.get_ylim()[1], HEADROOM * largest)
    axis.set_ylim(bottom=0, top=top if top > 0 else None)
    leaving = [
        line for line in axis.get_lines() if np.nanmax(np.asarray(line.get_ydata())) > axis.get_ylim()[1]
    ]
    if leaving:
        text = f"beyond the axis: {', '.join(str(line.get_label()) for line in leaving)}"
        axis.text(
            0.995, 0.97, text, ha="right", va="top", fontsize=8, transform=axis.transAxes, parse_math=False
        )
