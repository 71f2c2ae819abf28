"""The regular grid of dates of a table, and the step between them."""

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64, Int64

from forecast.data.calendars import WEEKDAYS, Calendar, CalendarSetting, find_calendar
from forecast.data.files.cells import FRAME
from forecast.data.files.order import SeriesRows
from forecast.data.files.table_rows import TableRows
from forecast.data.files.timezone import find_skipping_zone
from forecast.data.row_ranges import PerSeries
from forecast.data.time_features import describe_frequency, infer_frequency, name_step, parse_frequency
from forecast.system.checks import check_choice
from forecast.system.errors import ConfigError, DataError

MAX_EXAMINED_SERIES = 20
"""Largest number of series, the longest ones, from which the step is inferred."""

MAX_SKIPPED_HOURS = 100
"""Gaps are examined for changes of the clocks if there are no more."""

STEPS = "dates", "rows"
MAX_DATES_PER_ROW = 2
"""Dates per row from which series do not share one calendar."""

SPARSE, MAX_PLACES_PER_ROW = 10, 1_000
"""Dates of the grid, and of all series from their first to their last ones, per row from which the step is wrong."""


@dataclass(frozen=True)
class Spacing:
    """The steps between rows.

    Attributes:
        freq, steps, calendar: see `forecast.data.files.table_source.TableSource`.

    Raises:
        ConfigError: values that cannot be combined.
    """

    freq: str | None = None
    steps: str = "dates"
    calendar: CalendarSetting = None

    def __post_init__(self) -> None:
        check_choice("data.steps", self.steps, STEPS)
        if self.calendar is not None and self.steps != "rows":
            raise ConfigError(
                "data.calendar gives the dates of rows that are taken as steps: set data.steps=rows"
            )


class Grid(NamedTuple):
    """The dates of a panel, from the first of all series to the last.

    Attributes:
        dates: each of them is a step.
        freq: the step between two dates.
        calendar: the dates that follow with `steps=rows`; None with `steps=dates`.
    """

    dates: pd.DatetimeIndex
    freq: str
    calendar: Calendar | None = None


class Places(NamedTuple):
    """The row numbers of the rows of a table once missing rows are inserted.

    Attributes:
        of_rows: the new number of each row.
        lengths: the number of rows of each series, with those inserted.
    """

    of_rows: Int64[np.ndarray, " rows"]
    lengths: PerSeries

    @property
    def starts(self) -> PerSeries:
        """The first row of each series."""
        return self.lengths.cumsum() - self.lengths

    def place_rows(
        self, block: Float64[np.ndarray, "rows columns"]
    ) -> Float64[np.ndarray, "more_rows columns"]:
        """The rows of a block at their new places, NaN elsewhere."""
        n_rows = int(self.lengths.sum())
        if n_rows == len(block):
            return block
        placed = np.full((n_rows, block.shape[1]), np.nan)
        placed[self.of_rows] = block
        return placed


def find_grid(series: SeriesRows, spacing: Spacing, *, is_part: bool = False) -> Grid:
    """Find the dates of all series. Those of a part of a table may lie far apart.

    Raises DataError if the step or the calendar cannot be inferred, or does not fit the dates.
    """
    if spacing.steps == "rows":
        return _dates_of_rows(series, spacing)
    return _even_dates(series, spacing.freq, is_part=is_part)


def _dates_of_rows(series: SeriesRows, spacing: Spacing) -> Grid:
    """The dates at which any series has a row. Raises DataError for series that share few dates."""
    rows, starts = series.rows, series.starts
    dates, places = np.unique(rows.dates, return_inverse=True)
    needed = int((places[series.stops - 1] - places[starts] + 1).sum())
    if needed > MAX_DATES_PER_ROW * len(rows):
        raise DataError(
            f"{rows.cells.path}: data.steps=rows needs series with the same dates, and these {len(starts):,} have "
            f"{len(rows):,} rows for {needed:,} dates: set data.steps=dates, or give one series (data.ids)"
        )
    grid = pd.DatetimeIndex(dates)
    calendar = find_calendar(str(rows.cells.path), rows.utc_offset.local(grid), spacing.calendar)
    return Grid(grid, spacing.freq or calendar.freq, calendar)


def _even_dates(series: SeriesRows, freq: str | None, *, is_part: bool) -> Grid:
    """Evenly spaced dates, whose step is `freq` or inferred."""
    step = parse_frequency(freq or _infer_step(series))
    rows, starts = series.rows, series.starts
    first, last = rows.dates.min(), rows.dates.max()
    two = pd.date_range(first, periods=2, freq=step).to_numpy()
    places = float(((rows.dates[series.stops - 1] - rows.dates[starts]) / (two[1] - two[0])).sum())
    dates = places if is_part else (last - first) / (two[1] - two[0])
    if dates > SPARSE * len(rows) + (10_000 if len(starts) > 1 else 0):
        raise DataError(
            f"{rows.cells.path}: only {len(rows):,} dates for {dates:,.0f} steps of {step.freqstr} from first to last: "
            "set data.freq"
        )
    if places > MAX_PLACES_PER_ROW * len(rows):
        raise DataError(
            f"{rows.cells.path}: {len(starts):,} series have {len(rows):,} rows for {places:,.0f} steps of "
            f"{step.freqstr}: set a longer step (data.freq), or leave out series of few rows (data.ids)"
        )
    grid = pd.date_range(first, last, freq=step).as_unit("ns")
    if not len(grid) or grid[0] != first:
        row = int(rows.dates.argmin())
        message = f"{rows.subject(row)}cannot begin a grid of step {step.freqstr}: set data.freq"
        raise rows.error(message, row, rows.roles.date)
    others = ~find_dates(grid, rows.dates[starts])[1]
    if others.any():
        row = int(starts[int(others.argmax())])
        raise rows.error(
            f"not on the other series' grid of dates, every {describe_frequency(step.freqstr)} from {grid[0]}: "
            "correct it, or set data.freq", row, rows.roles.date,
        )  # fmt: skip
    return Grid(grid, step.freqstr)


def _infer_step(series: SeriesRows) -> str:
    """Infer the step from one of the longest series or its beginning, else take the most common step."""
    rows, starts, ends = series
    longest = np.argsort(starts - ends, kind="stable")[:MAX_EXAMINED_SERIES]
    if ends[longest[0]] - starts[longest[0]] < 3:
        where = "" if rows.roles.id is None else " in any series"
        count = int(ends[longest[0]] - starts[longest[0]])
        raise DataError(
            f"{rows.cells.path}: too few rows{where} to tell the step between them ({count}): set data.freq"
        )
    for s in longest:
        length = int(ends[s] - starts[s])
        while length >= min(8, ends[s] - starts[s]):
            try:
                return infer_frequency(pd.DatetimeIndex(rows.dates[starts[s] : starts[s] + length]))
            except DataError:
                length //= 2
    return step_with_gaps(rows.dates[starts[longest[0]] : ends[longest[0]]], rows.dates)


def step_with_gaps(longest: np.ndarray, all_dates: np.ndarray) -> str:
    """Return the step between dates of which some are missing.

    It is the longest one of months, weeks and business days that all dates fit; else the most common step of `longest`,
    the dates of the longest series in ascending order.
    """
    gaps, counts = np.unique(np.diff(longest), return_counts=True)
    most_common = name_step(gaps[counts.argmax()])
    if gaps[0] < np.timedelta64(1, "D"):
        return most_common
    dates = pd.DatetimeIndex(np.unique(all_dates))
    for is_there, letter in ((dates.is_month_start, "S"), (dates.is_month_end, "E")):
        if is_there.all():
            months = int(np.gcd.reduce(np.diff(dates.year * 12 + dates.month)))
            return f"{months}M{letter}" if months > 1 else f"M{letter}"
    weekdays = np.unique(dates.day_of_week)
    if len(weekdays) == 1:
        return f"W-{WEEKDAYS[weekdays[0]].upper()}"
    if weekdays[-1] < 5 and gaps[0] == np.timedelta64(1, "D"):
        return "B"
    return most_common


def find_dates(
    grid: pd.DatetimeIndex, dates: np.ndarray
) -> tuple[Int64[np.ndarray, " dates"], Bool[np.ndarray, " dates"]]:
    """The places of dates on an ascending grid, or of their successors, and whether the grid has the dates."""
    there = grid.to_numpy()
    places = np.minimum(np.searchsorted(there, dates), len(there) - 1)
    return places, there[places] == dates


def place_on_grid(series: SeriesRows, grid: Grid) -> Places:
    """Find the place of each row once missing rows are inserted.

    Warns where only hours that clocks skip in spring are missing. Raises DataError for a date between two dates of the
    grid.
    """
    rows, starts = series.rows, series.starts
    if np.array_equal(grid.dates.to_numpy(), rows.dates):
        return Places(np.arange(len(rows)), series.stops - starts)
    at, is_there = find_dates(grid.dates, rows.dates)
    if not is_there.all():
        row = int(is_there.argmin())
        message = (
            f"{rows.subject(row)}does not follow {rows.date(row - 1)} by the step {grid.freq}: correct the date, or "
            "set data.freq"
        )
        raise rows.error(message, row, rows.roles.date)
    _warn_of_skipped_hours(rows, at, grid.freq)
    lengths = at[series.stops - 1] - at[starts] + 1
    begins = lengths.cumsum() - lengths
    return Places(at + np.repeat(begins - at[starts], series.stops - starts), lengths)


def _warn_of_skipped_hours(rows: TableRows, at: Int64[np.ndarray, " rows"], freq: str) -> None:
    """Warn if the only rows that are missing are hours that clocks skip in spring."""
    gaps = np.flatnonzero((np.diff(at) > 1) & (rows.codes[1:] == rows.codes[:-1])) + 1
    if rows.utc_offset.minutes is not None or not 0 < len(gaps) <= MAX_SKIPPED_HOURS:
        return
    step, first = parse_frequency(freq), int(gaps[0])
    zones = [find_skipping_zone(date + step) for date in pd.DatetimeIndex(rows.dates[gaps - 1])]
    if all(zones):
        advice = (
            f"localize it first (tz_localize({zones[0]!r}))"
            if rows.cells.path == FRAME
            else f"set data.timezone, such as {zones[0]}, or give dates in UTC"
        )
        warnings.warn(
            f"{rows.cells.path}: no row between {rows.date(first - 1)} and {rows.date(first)}: where clocks went "
            f"forward, {advice}",
            stacklevel=2,
        )
