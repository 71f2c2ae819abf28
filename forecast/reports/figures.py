"""The pictures of a run: forecasts against truth, and error along the horizon."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.dates as mdates
import numpy as np
import pandas as pd
from jaxtyping import Float64
from matplotlib.figure import Figure

from forecast.system.files import whole_file

MODEL = "#0b6e99"
BASELINES = {"linear model": "#c2571a", "seasonal naive": "#7a7a7a", "naive": "#4b8b3b"}
TRUTH = "#222222"


def subplots(
    rows: int = 1,
    columns: int = 1,
    *,
    figsize: tuple[int | float, int | float],
    layout: Any = None,
    **options: Any,
) -> tuple[Figure, Any]:
    """pyplot's, without pyplot: it would take a notebook's own pictures off the screen."""
    figure = Figure(figsize=figsize, layout=layout)
    return figure, figure.subplots(rows, columns, **options)


def forecast_figure(
    dates: Sequence[pd.DatetimeIndex],
    truth: Sequence[np.ndarray],
    forecasts: Mapping[str, Sequence[np.ndarray]],
    variables: Sequence[str],
    pred_len: int,
    title: str,
    names: Sequence[str] = (),
) -> Figure:
    """A grid, a row a variable and a column a window, with a name above it where windows have `names`.

    dates[w]: (shown + pred_len,) timestamps; truth[w]: (shown + pred_len, variables) in data units;
    forecasts[name][w]: (pred_len, variables).
    """
    figure, axes = subplots(
        len(variables), len(dates), figsize=(4.6 * len(dates), 2.3 * len(variables) + 0.9), squeeze=False
    )
    for w, when in enumerate(dates):
        for v, variable in enumerate(variables):
            axis = axes[v, w]
            axis.plot(when, truth[w][:, v], color=TRUTH, linewidth=1.1, label="truth", zorder=3)
            for name, windows in forecasts.items():
                axis.plot(  # from the last known value on
                    when[-pred_len - 1 :], np.append(truth[w][-pred_len - 1, v], windows[w][:, v]), linewidth=1.6,
                    color=BASELINES.get(name, MODEL), label=name, linestyle="--" if name in BASELINES else "-",
                )  # fmt: skip
            axis.axvline(when[-pred_len - 1], color="#999999", linewidth=0.8, linestyle=":")
            ticks = mdates.AutoDateLocator(minticks=2, maxticks=8)
            axis.xaxis.set_major_locator(ticks)
            axis.xaxis.set_major_formatter(mdates.ConciseDateFormatter(ticks))
            axis.tick_params(axis="x", labelsize=8)
            axis.grid(alpha=0.25)
            axis.spines[["top", "right"]].set_visible(False)
            if w == 0:
                axis.set_ylabel(variable, parse_math=False)
            if v == 0 and names:
                axis.set_title(names[w], fontsize=9, parse_math=False)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.suptitle(title, fontsize=11, parse_math=False)
    figure.legend(handles, labels, loc="lower center", ncols=len(labels), frameon=False)
    figure.tight_layout(rect=(0, 0.09 if len(variables) < 3 else 0.05, 1, 1))
    return figure


@dataclass(frozen=True)
class PlottedForecast:
    """One variable of one series, in the units of the data: its history, forecast, bounds, and truth if known."""

    label: str
    history_dates: pd.DatetimeIndex
    history: Float64[np.ndarray, " rows"]
    dates: pd.DatetimeIndex
    values: Float64[np.ndarray, " horizon"]
    low: dict[int | float, Float64[np.ndarray, " horizon"]]
    high: dict[int | float, Float64[np.ndarray, " horizon"]]
    truth: Float64[np.ndarray, " horizon"]  # NaN where it is not known


def prediction_figure(forecasts: Sequence[PlottedForecast], title: str) -> Figure:
    """One row of axes for each forecast: recent history, forecast, bounds, and the truth where it is known.

    Of the history, four horizons are drawn, or 48 steps: with all of a long window the forecast would be a sliver at
    the edge.
    """
    size = 9, 1.9 * len(forecasts) + 1.1
    has_same_dates = all(found.dates.equals(forecasts[0].dates) for found in forecasts)
    figure, axes = subplots(len(forecasts), 1, figsize=size, sharex=has_same_dates, squeeze=False)
    for axis, found in zip(axes[:, 0], forecasts, strict=True):
        # lines into the future begin at the last known value
        dates, known = found.history_dates[-1:].append(found.dates), found.history[-1]
        recent = slice(-max(4 * len(found.dates), 48), None)
        axis.plot(
            found.history_dates[recent], found.history[recent], color=TRUTH, linewidth=1.1, label="history"
        )
        for level in sorted(found.low, reverse=True):
            low, high = (np.append(known, side[level]) for side in (found.low, found.high))
            axis.fill_between(
                dates, low, high, color=MODEL, linewidth=0, alpha=0.5 - 0.4 * level / 100, label=f"{level:g}%"
            )
        axis.plot(dates, np.append(known, found.values), color=MODEL, linewidth=1.8, label="forecast")
        if np.isfinite(found.truth).any():
            axis.plot(
                dates,
                np.append(known, found.truth),
                color=TRUTH,
                linewidth=1.1,
                linestyle="--",
                label="truth",
            )
        axis.axvline(found.history_dates[-1], color="#999999", linewidth=0.8, linestyle=":")
        ticks = mdates.AutoDateLocator(minticks=3, maxticks=10)
        axis.xaxis.set_major_locator(ticks)
        axis.xaxis.set_major_formatter(mdates.ConciseDateFormatter(ticks))
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_ylabel(found.label, parse_math=False)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.suptitle(title, fontsize=11, parse_math=False)
    figure.tight_layout(rect=(0, 0.4 / figure.get_figheight(), 1, 1))
    figure.legend(handles, labels, loc="lower center", ncols=len(labels), frameon=False)
    return figure


def step_figure(errors: Mapping[str, np.ndarray], title: str) -> Figure:
    """Scaled MSE at each step of the horizon, a line for the model and each baseline: errors[name] (pred_len,)."""
    figure, axis = subplots(figsize=(7, 3.6))
    for name, values in errors.items():
        axis.plot(
            np.arange(1, len(values) + 1), values, color=BASELINES.get(name, MODEL), label=name,
            linewidth=1.3 if name in BASELINES else 2,
        )  # fmt: skip
    axis.set(xlabel="step of the horizon", ylabel="MSE (scaled)")
    axis.set_title(title, parse_math=False)
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    figure.tight_layout()
    return figure


def backtest_figure(
    origins: pd.DataFrame,
    steps: pd.DataFrame,
    labels: Mapping[str, str],
    trainings: Sequence[pd.Timestamp],
    title: str,
) -> Figure:
    """Draw the scaled MSE by origin above, and by step of the horizon below.

    Args:
        origins: one row for each date, `forecast_start`, with a column `<name>_mse` for each name in `labels`.
        steps: the same for each `step`.
        labels: what the figure calls the model and the baselines.
        trainings: dates at which the model was trained again; dotted lines.
    """
    figure, (above, below) = subplots(2, 1, figsize=(9, 6.6))
    for axis, table, x in ((above, origins, "forecast_start"), (below, steps, "step")):
        for name, label in labels.items():
            axis.plot(
                table[x], table[f"{name}_mse"], color=BASELINES.get(label, MODEL) if name != "model" else MODEL,
                label=label if axis is above else None, linewidth=2 if name == "model" else 1.2,
                marker="o" if len(table) < 40 else None, markersize=3,
            )  # fmt: skip
        axis.set_ylim(bottom=0)
        axis.set_ylabel("MSE (scaled)")
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    for date in trainings:
        above.axvline(date, color="#999999", linewidth=0.8, linestyle=":")
    ticks = mdates.AutoDateLocator(minticks=3, maxticks=10)
    above.xaxis.set_major_locator(ticks)
    above.xaxis.set_major_formatter(mdates.ConciseDateFormatter(ticks))
    marked = "; dotted: trained again" if trainings else ""
    above.set_title(f"by origin, the first date forecast{marked}", fontsize=10)
    below.set_title("by step of the horizon, over all origins", fontsize=10)
    figure.suptitle(title, fontsize=11, parse_math=False)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    figure.legend(loc="lower center", ncols=len(labels), frameon=False)
    return figure


def kind_colour(kind: str, number: int) -> str:
    """Of the line of an attention kind, the number-th drawn: softmax dark, as what the others are measured by."""
    return TRUTH if kind == "full" else f"C{number}"


def growth_figure(rows: pd.DataFrame, title: str) -> Figure:
    """Time and peak memory of one sequence, forward and backward, against its length, both axes logarithmic."""
    rows = rows[rows["backward"]].assign(
        n=lambda r: r["length"].astype(str).str.split("/").str[0].astype(int)
    )
    measured = {
        c: unit for c, unit in {"median": "seconds", "peak_mib": "MiB"}.items() if np.any(rows[c] > 0)
    }
    figure, grid = subplots(1, len(measured), figsize=(5.5 * len(measured), 4.4), squeeze=False)
    axes = grid[0]
    for axis, (column, unit) in zip(axes, measured.items(), strict=True):
        for number, (kind, points) in enumerate(rows.groupby("kind", sort=False)):
            style = {"color": kind_colour(str(kind), number), "linewidth": 2.2 if kind == "full" else 1.6}
            style |= {"linestyle": ":", "color": "#888888"} if kind == "no mixing" else {}
            values = points[column] / points["batch"]
            axis.plot(points["n"], values, marker="o", markersize=3.5, label=kind, **style)
            if column == "median":
                low, high = points["fastest"] / points["batch"], points["slowest"] / points["batch"]
                axis.fill_between(points["n"], low, high, color=style["color"], alpha=0.15, linewidth=0)
        axis.set(xscale="log", yscale="log", xlabel="length", ylabel=f"{unit} a sequence")
        axis.grid(alpha=0.25, which="both")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False)
    figure.suptitle(title, fontsize=11)
    figure.tight_layout()
    return figure


def save(figure: Figure, path: Path) -> None:
    with whole_file(path) as temporary:
        figure.savefig(temporary, dpi=110)
