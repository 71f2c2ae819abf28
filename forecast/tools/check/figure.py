"""The figure of a panel: curves with their split and gaps, their average season and their autocorrelation."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float, Shaped
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from forecast.data.panel import describe_size
from forecast.data.time_features import choose_evenly_spaced, parse_frequency
from forecast.reports.figures import TRUTH_COLOUR, format_dates, save, style_axis, subplots
from forecast.tools.check.columns import format_date
from forecast.tools.check.diagnosis import Diagnosis
from forecast.tools.check.gaps import runs
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
LABEL = 24
"""Largest number of characters of a series id in a label."""
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
DAY, QUARTER_HOUR = pd.Timedelta(days=1), pd.Timedelta(minutes=15)


@dataclass(frozen=True)
class Curve:
    """One column of one series.

    Attributes:
        raw: values of the file, NaN where they are missing.
        interpolated: the values with lines across gaps.
        parts: rows of this series in each split.
    """

    label: str
    dates: pd.DatetimeIndex
    raw: Float[np.ndarray, " rows"]
    interpolated: Float[np.ndarray, " rows"]
    parts: dict[str, range]


def save_figure(diagnosis: Diagnosis, path: Path) -> None:
    save(draw_figure(diagnosis), path)


def draw_figure(diagnosis: Diagnosis) -> Figure:
    panel = diagnosis.file
    curves = [cut_curve(diagnosis, series, name) for series, name in choose_curves(diagnosis)]
    profiles = [average_by(curve.dates, panel.freq) for curve in curves]
    profile = next((each for each in profiles if each), None)
    widths = (3.2, 1.3, 1.3) if profile else (3.2, 1.3)
    figure, axes = subplots(
        len(curves), len(widths), figsize=(15, 2.2 * len(curves) + 1.2), squeeze=False, width_ratios=widths
    )
    for row, (curve, own_profile) in enumerate(zip(curves, profiles, strict=True)):
        draw_curve(axes[row, 0], curve)
        if own_profile:
            draw_profile(axes[row, 1], curve, own_profile)
        elif profile:
            axes[row, 1].set_axis_off()
        draw_autocorrelation(axes[row, -1], diagnosis, curve)
    if profile:
        axes[0, 1].set_title(f"by {profile.name}: mean, quartiles shaded", fontsize=9)
    axes[0, -1].set_title("autocorrelation by lag; dotted: seasons", fontsize=9)
    label_parts(axes[0, 0], diagnosis)
    figure.suptitle(describe_figure(diagnosis, len(curves)), fontsize=11, parse_math=False)
    figure.tight_layout()
    return figure


def describe_figure(diagnosis: Diagnosis, curves: int) -> str:
    panel = diagnosis.file
    count, of = (len(panel), "series") if diagnosis.counts_series else (len(diagnosis.columns), "columns")
    more = f", {curves} of {count:,} {of}" if curves < count else ""
    return (
        f"{diagnosis.name}: {describe_size(panel, f'{panel.n_rows:,} rows')}, {panel.describe_step()}, "
        f"{format_date(panel.first_date)} to {format_date(panel.last_date)}{more}"
    )


def label_parts(axis: Axes, diagnosis: Diagnosis) -> None:
    """Write the number of rows of each split above an axis."""
    for number, part in enumerate(diagnosis.parts):
        axis.annotate(
            f"{part.name} {part.n_rows:,}", (0.01 + 0.14 * number, 1.03), xycoords="axes fraction", fontsize=9,
            bbox={"facecolor": PARTS[part.name], "edgecolor": "none", "pad": 2},
        )  # fmt: skip
    if diagnosis.gaps:
        axis.annotate("missing", (0.9, 1.03), xycoords="axes fraction", fontsize=9, color=MISSING)


def choose_curves(diagnosis: Diagnosis) -> list[tuple[int, str]]:
    """The series and columns to draw, evenly spaced over all, the first and the last always among them."""
    n_series, names = len(diagnosis.file), list(diagnosis.targets)
    if n_series * len(names) == 1:
        names = [*names, *(name for name in diagnosis.panel.columns if name != names[0])]
        return [(0, name) for name in names[:MAX_CURVES]]
    chosen = choose_evenly_spaced(n_series * len(names), MAX_CURVES).tolist()
    return [(i // len(names), names[i % len(names)]) for i in chosen]


def cut_curve(diagnosis: Diagnosis, series: int, name: str) -> Curve:
    panel = diagnosis.file
    start, end = int(panel.starts[series]), int(panel.ends[series])
    names = (
        shorten(str(panel.ids[series])),
        name if len(diagnosis.targets) > 1 else "",
    )  # a table has the id ""
    return Curve(
        label="\n".join(filter(None, names)) or name,
        dates=panel.local_dates(np.arange(start, end)),
        raw=np.asarray(diagnosis.panel.values)[start:end, diagnosis.panel.columns.index(name)],
        interpolated=np.asarray(diagnosis.interpolated.values)[
            start:end, diagnosis.panel.columns.index(name)
        ],
        parts={
            part.name: range(int(part.first[series]) - start, int(part.stop[series]) - start)
            for part in diagnosis.parts
        },
    )


def shorten(text: str) -> str:
    """Cut the middle out of a text of more than `LABEL` characters: ids often differ at their ends."""
    return text if len(text) <= LABEL else f"{text[: LABEL // 2 - 3]}...{text[-LABEL // 2 :]}"


def draw_curve(axis: Axes, curve: Curve) -> None:
    values, dates = curve.raw, curve.dates
    for name, rows in curve.parts.items():
        if rows:
            stop = min(rows.stop, len(dates) - 1)
            axis.axvspan(dates[rows.start], dates[stop], color=PARTS[name], linewidth=0)  # pyright: ignore[reportArgumentType]
    for start, length in zip(*runs(np.isnan(values)), strict=True):
        stop = min(start + length, len(dates) - 1)
        axis.axvspan(dates[max(0, start - 1)], dates[stop], color=MISSING, alpha=0.5, linewidth=0.8)  # pyright: ignore[reportArgumentType]
    shown = envelope(values)
    axis.plot(dates[shown], values[shown], color=TRUTH_COLOUR, linewidth=0.7)
    format_dates(axis, 3, 9)
    if len(dates) > 1:
        axis.set_xlim(dates[0], dates[-1])  # pyright: ignore[reportArgumentType]
    axis.set_ylabel(curve.label, parse_math=False)
    tidy(axis)


def envelope(values: Float[np.ndarray, " rows"]) -> np.ndarray:
    """Rows that draw the same line: the lowest and the highest of each stretch, and the missing ones."""
    width = max(1, len(values) // POINTS)
    if width < 3:
        return np.arange(len(values))
    whole = values[: len(values) // width * width].reshape(-1, width)
    first = np.arange(len(whole)) * width
    low = np.where(np.isnan(whole), np.inf, whole).argmin(1) + first
    high = np.where(np.isnan(whole), -np.inf, whole).argmax(1) + first
    open_rows = runs(np.isnan(values))[0]
    rest = np.arange(len(whole) * width, len(values))
    return np.unique(np.concatenate([low, high, open_rows, rest]))


@dataclass(frozen=True)
class Profile:
    """The phase of each row in a day (hours), a week (weekday) or a year (month), by which values are averaged."""

    name: str
    phase: Shaped[np.ndarray, " rows"]


def average_by(dates: pd.DatetimeIndex, freq: str) -> Profile | None:
    """The phases of these dates; None if hours of less than two days would be averaged."""
    step = parse_frequency(freq)
    if not isinstance(step, pd.offsets.Day | pd.offsets.BusinessDay | pd.offsets.Tick):
        return Profile("month", dates.month.to_numpy())
    if not isinstance(step, pd.offsets.Tick) or step.nanos >= DAY.value:
        return Profile("weekday", dates.day_of_week.to_numpy())
    if len(dates) * step.nanos < 2 * DAY.value:
        return None
    short = step.nanos < QUARTER_HOUR.value
    return Profile("hour of day", (dates.hour if short else dates.hour + dates.minute / 60).to_numpy())


def draw_profile(axis: Axes, curve: Curve, profile: Profile) -> None:
    phases = np.unique(profile.phase)
    groups = [curve.interpolated[profile.phase == each] for each in phases]
    low, high = np.transpose([np.quantile(group, (0.25, 0.75)) for group in groups])
    axis.fill_between(phases, low, high, color=SEASON, alpha=0.2, linewidth=0)
    axis.plot(
        phases,
        [group.mean() for group in groups],
        color=SEASON,
        linewidth=1.5,
        marker="." if len(phases) < 32 else None,
    )
    if profile.name == "weekday":
        axis.set_xticks(phases, [WEEKDAYS[int(each)] for each in phases])
    elif profile.name == "hour of day":
        axis.set_xticks(range(0, 25, 6))
    tidy(axis)


def choose_lags(diagnosis: Diagnosis, rows: int) -> int:
    """Two of the longest season or three of the baselines' season, at most half of the rows."""
    longest = max((season.rows for season in diagnosis.seasons if season.rows <= MAX_LAG / 2), default=0)
    wanted = max(2 * longest, 3 * diagnosis.season, 40)
    return min(MAX_LAG, wanted, math.ceil(rows / 2))


def draw_autocorrelation(axis: Axes, diagnosis: Diagnosis, curve: Curve) -> None:
    lags = choose_lags(diagnosis, len(curve.interpolated))
    correlation = autocorrelation(curve.interpolated[:, None], lags)[:, 0]
    for season in diagnosis.seasons:
        if season.rows < len(correlation):
            axis.axvline(season.rows, color=SEASON, linewidth=1, linestyle=":")
    axis.axhline(0, color="#999999", linewidth=0.8)
    axis.plot(np.arange(1, len(correlation)), correlation[1:], color=TRUTH_COLOUR, linewidth=1)
    axis.set_ylim(min(-0.3, correlation.min()), 1)
    tidy(axis)


def tidy(axis: Axes) -> None:
    axis.tick_params(labelsize=8)
    style_axis(axis)
