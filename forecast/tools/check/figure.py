"""The figure of a panel: curves with their split and gaps, and their autocorrelation."""

from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from forecast.data.time_features import choose_evenly_spaced
from forecast.reports.figures import TRUTH_COLOUR, format_dates, label_values, save, style_axis, subplots
from forecast.tools.check.diagnosis import Diagnosis
from forecast.tools.check.gaps import runs
from forecast.tools.check.report import describe_data
from forecast.tools.check.seasons import autocorrelation

MAX_CURVES = 6
"""Largest number of curves in the figure."""
POINTS = 1_500
"""Number of stretches of a long curve, which is drawn by the lowest and the highest value of each."""
PARTS = {"train": "#dfe7ec", "val": "#f3e3b8", "test": "#cfe6d0"}
MISSING = "#d62728"
SEASON = "#0b6e99"
MAX_LAG = 1_000
"""Largest lag of the autocorrelation."""


def save_figure(diagnosis: Diagnosis, path: Path) -> None:
    save(draw_figure(diagnosis), path)


def draw_figure(diagnosis: Diagnosis) -> Figure:
    curves = choose_curves(diagnosis)
    height = 2.2 * len(curves) + 1.2
    figure, axes = subplots(len(curves), 2, figsize=(13, height), squeeze=False, width_ratios=(3.2, 1.3))
    for (left, right), (series, name) in zip(axes, curves, strict=True):
        values = draw_curve(left, diagnosis, series, name)
        draw_autocorrelation(right, diagnosis, values)
    axes[0, 1].set_title("autocorrelation by lag; dotted: seasons", fontsize=9)
    for number, part in enumerate(diagnosis.parts):
        axes[0, 0].annotate(
            f"{part.name} {part.n_rows:,}", (0.01 + 0.14 * number, 1.03), xycoords="axes fraction", fontsize=9,
            bbox={"facecolor": PARTS[part.name], "edgecolor": "none", "pad": 2},
        )  # fmt: skip
    if diagnosis.gaps.missing_rows or diagnosis.gaps.missing_numbers:
        axes[0, 0].annotate("missing", (0.9, 1.03), xycoords="axes fraction", fontsize=9, color=MISSING)
    figure.suptitle(describe_data(diagnosis), fontsize=11, parse_math=False)
    figure.tight_layout()
    return figure


def choose_curves(diagnosis: Diagnosis) -> list[tuple[int, str]]:
    """The series and columns to draw, evenly spaced over all, the first and the last always among them."""
    n_series, names = len(diagnosis.file), list(diagnosis.targets)
    if n_series * len(names) == 1:
        names = [*names, *(name for name in diagnosis.panel.columns if name != names[0])]
        return [(0, name) for name in names[:MAX_CURVES]]
    chosen = choose_evenly_spaced(n_series * len(names), MAX_CURVES).tolist()
    return [(i // len(names), names[i % len(names)]) for i in chosen]


def draw_curve(axis: Axes, diagnosis: Diagnosis, series: int, name: str) -> Float[np.ndarray, " rows"]:
    """Draw a column of a series over its splits, with its gaps. Returns its values."""
    panel = diagnosis.panel
    start, end = int(panel.starts[series]), int(panel.ends[series])
    values = np.asarray(panel.values)[start:end, panel.columns.index(name)]
    dates = diagnosis.file.local_dates(np.arange(start, end))
    for part in diagnosis.parts:
        first, stop = int(part.first[series]) - start, int(part.stop[series]) - start
        if stop > first:
            axis.axvspan(dates[first], dates[min(stop, len(dates) - 1)], color=PARTS[part.name], linewidth=0)  # pyright: ignore[reportArgumentType]
    for first, length in zip(*runs(np.isnan(values)), strict=True):
        stop = min(first + length, len(dates) - 1)
        axis.axvspan(dates[max(0, first - 1)], dates[stop], color=MISSING, alpha=0.5, linewidth=0.8)  # pyright: ignore[reportArgumentType]
    shown = envelope(values)
    axis.plot(dates[shown], values[shown], color=TRUTH_COLOUR, linewidth=0.7)
    format_dates(axis, 3, 9)
    if len(dates) > 1:
        axis.set_xlim(dates[0], dates[-1])  # pyright: ignore[reportArgumentType]
    column = name if len(diagnosis.targets) > 1 or not panel.ids[series] else ""
    label_values(axis, " ".join(filter(None, (str(panel.ids[series]), column))))
    style_axis(axis)
    return values


def envelope(values: Float[np.ndarray, " rows"]) -> Int[np.ndarray, " shown"]:
    """Rows that draw the same line: the lowest and the highest of each stretch, and the first of each gap."""
    width = max(1, len(values) // POINTS)
    if width < 3:
        return np.arange(len(values))
    whole = values[: len(values) // width * width].reshape(-1, width)
    first = np.arange(len(whole)) * width
    low = np.where(np.isnan(whole), np.inf, whole).argmin(1) + first
    high = np.where(np.isnan(whole), -np.inf, whole).argmax(1) + first
    rest = np.arange(len(whole) * width, len(values))
    return np.unique(np.concatenate([low, high, runs(np.isnan(values))[0], rest]))


def draw_autocorrelation(axis: Axes, diagnosis: Diagnosis, values: Float[np.ndarray, " rows"]) -> None:
    """Draw it up to two of the longest season or three of the baselines' season, at most half of the rows."""
    longest = max((season.rows for season in diagnosis.seasons if season.rows <= MAX_LAG / 2), default=0)
    lags = min(MAX_LAG, max(2 * longest, 3 * diagnosis.season, 40), -(-len(values) // 2))
    filled = pd.Series(values).interpolate(limit_direction="both").fillna(0.0).to_numpy()
    correlation = autocorrelation(filled[:, None], lags)[:, 0]
    for season in diagnosis.seasons:
        if season.rows < len(correlation):
            axis.axvline(season.rows, color=SEASON, linewidth=1, linestyle=":")
    axis.axhline(0, color="#999999", linewidth=0.8)
    axis.plot(np.arange(1, len(correlation)), correlation[1:], color=TRUTH_COLOUR, linewidth=1)
    axis.set_ylim(min(-0.3, correlation.min()), 1)
    style_axis(axis)
