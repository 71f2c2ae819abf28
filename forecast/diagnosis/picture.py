"""The picture of a table: each column in time with its split and gaps, its average season, its autocorrelation."""

import math
from dataclasses import dataclass
from pathlib import Path

import matplotlib.dates as mdates
import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from forecast.data import Table
from forecast.data.calendar import parse_frequency
from forecast.diagnosis.columns import day
from forecast.diagnosis.diagnosis import Diagnosis
from forecast.diagnosis.gaps import date_at, runs
from forecast.diagnosis.seasons import autocorrelation
from forecast.plots import TRUTH, save, subplots
from forecast.spread import spread

PICTURED = 6  # columns
POINTS = 1_500  # drawn of a series, as the lowest and highest of each stretch
PARTS = {"train": "#dfe7ec", "val": "#f3e3b8", "test": "#cfe6d0"}
MISSING = "#d62728"
SEASON = "#0b6e99"
LAGS = 1_000  # of the autocorrelation, at most
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
DAY, QUARTER_HOUR = pd.Timedelta(days=1), pd.Timedelta(minutes=15)


def draw(found: Diagnosis, path: Path) -> None:
    save(figure(found), path)


def figure(found: Diagnosis) -> Figure:
    chosen, profile = pictured(found), profile_of(found.table)
    widths = (3.2, 1.3, 1.3) if profile else (3.2, 1.3)
    made, axes = subplots(
        len(chosen), len(widths), figsize=(15, 2.2 * len(chosen) + 1.2), squeeze=False, width_ratios=widths
    )
    lags = picture_lags(found)
    correlations = autocorrelation(
        found.table.values[:, [found.table.columns.index(c) for c in chosen]], lags
    )
    for row, name in enumerate(chosen):
        draw_series(axes[row, 0], found, name)
        if profile:
            draw_profile(axes[row, 1], found, name, profile)
        draw_autocorrelation(axes[row, -1], found, correlations[:, row])
    if profile:
        axes[0, 1].set_title(f"by {profile.name}: mean, middle half", fontsize=9)
    axes[0, -1].set_title("autocorrelation by lag, seasons dotted", fontsize=9)
    for number, part in enumerate(found.parts):
        axes[0, 0].annotate(
            f"{part.name} {len(part.rows):,}", (0.01 + 0.14 * number, 1.03), xycoords="axes fraction", fontsize=9,
            bbox={"facecolor": PARTS[part.name], "edgecolor": "none", "pad": 2},
        )  # fmt: skip
    if found.gaps:
        axes[0, 0].annotate("missing", (0.9, 1.03), xycoords="axes fraction", fontsize=9, color=MISSING)
    more = f", {len(chosen)} of {len(found.columns)} columns" if len(chosen) < len(found.columns) else ""
    made.suptitle(
        f"{found.name}: {len(found.table.dates):,} rows, every {found.table.freq}, "
        f"{day(date_at(found.table.dates, 0))} to {day(date_at(found.table.dates, -1))}{more}",
        fontsize=11,
        parse_math=False,
    )
    made.tight_layout()
    return made


def pictured(found: Diagnosis) -> list[str]:
    """The targets, evenly chosen, the last always among them."""
    names = list(found.targets)
    if len(names) == 1:
        names = [*names, *(name for name in found.table.columns if name != names[0])]
        return names[:PICTURED]
    return [names[i] for i in spread(len(names), PICTURED)]


def draw_series(axis: Axes, found: Diagnosis, name: str) -> None:
    values = found.unfilled.values[:, found.unfilled.columns.index(name)]
    dates = found.unfilled.dates
    for part in found.parts:
        stop = min(part.rows.stop, len(dates) - 1)
        axis.axvspan(dates[part.rows.start], dates[stop], color=PARTS[part.name], linewidth=0)  # pyright: ignore[reportArgumentType]
    for start, length in zip(*runs(np.isnan(values)), strict=True):
        stop = min(start + length, len(dates) - 1)
        axis.axvspan(dates[max(0, start - 1)], dates[stop], color=MISSING, alpha=0.5, linewidth=0.8)  # pyright: ignore[reportArgumentType]
    shown = envelope(values)
    axis.plot(dates[shown], values[shown], color=TRUTH, linewidth=0.7)
    ticks = mdates.AutoDateLocator(minticks=3, maxticks=9)
    axis.xaxis.set_major_locator(ticks)
    axis.xaxis.set_major_formatter(mdates.ConciseDateFormatter(ticks))
    axis.set_xlim(dates[0], dates[-1])  # pyright: ignore[reportArgumentType]
    axis.set_ylabel(name, parse_math=False)
    tidy(axis)


def envelope(values: Float[np.ndarray, " rows"]) -> np.ndarray:
    """Rows to draw so that the line looks the same: the lowest and the highest of each stretch, and missing ones."""
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
    """By what values are averaged: each row's hour of day, weekday or month."""

    name: str
    phase: np.ndarray  # (rows,)


def profile_of(table: Table) -> Profile | None:
    """None where there are not yet two days to average the hours of."""
    dates, step = table.dates, parse_frequency(table.freq)
    if not isinstance(step, pd.offsets.Day | pd.offsets.BusinessDay | pd.offsets.Tick):
        return Profile("month", dates.month.to_numpy())
    if not isinstance(step, pd.offsets.Tick) or step.nanos >= DAY.value:
        return Profile("weekday", dates.day_of_week.to_numpy())
    if len(dates) * step.nanos < 2 * DAY.value:
        return None
    short = step.nanos < QUARTER_HOUR.value
    return Profile("hour of day", (dates.hour if short else dates.hour + dates.minute / 60).to_numpy())


def draw_profile(axis: Axes, found: Diagnosis, name: str, profile: Profile) -> None:
    values = found.table.values[:, found.table.columns.index(name)]
    phases = np.unique(profile.phase)
    groups = [values[profile.phase == each] for each in phases]
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


def picture_lags(found: Diagnosis) -> int:
    """Two of the longest season, three of the baselines', as far as the rows go."""
    longest = max((season.rows for season in found.seasons if season.rows <= LAGS / 2), default=0)
    wanted = max(2 * longest, 3 * found.season, 40)
    return min(LAGS, wanted, math.ceil(len(found.table.dates) / 2))


def draw_autocorrelation(axis: Axes, found: Diagnosis, correlation: Float[np.ndarray, " lags"]) -> None:
    for season in found.seasons:
        if season.rows < len(correlation):
            axis.axvline(season.rows, color=SEASON, linewidth=1, linestyle=":")
    axis.axhline(0, color="#999999", linewidth=0.8)
    axis.plot(np.arange(1, len(correlation)), correlation[1:], color=TRUTH, linewidth=1)
    axis.set_ylim(min(-0.3, correlation.min()), 1)
    tidy(axis)


def tidy(axis: Axes) -> None:
    axis.tick_params(labelsize=8)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
