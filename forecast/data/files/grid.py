"""The regular grid of dates of a table, and the step between them."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int64

from forecast.data.calendars import Calendar, CalendarSetting, find_calendar
from forecast.data.files.order import SeriesRows
from forecast.data.time_features import (
    date_range,
    describe_frequency,
    infer_calendar_step,
    infer_frequency,
    name_step,
    parse_frequency,
)
from forecast.system.checks import check_choice
from forecast.system.errors import ConfigError, DataError, TooFewRows

MAX_EXAMINED_SERIES = 20
"""Largest number of series, the longest ones, from which the step is inferred."""

STEPS = "dates", "rows"

MAX_DATES_PER_ROW = 2
"""Dates per row from which series do not share one calendar."""

SPARSE = 10
"""Dates of the grid per row from which the step is wrong."""

MAX_PLACES_PER_ROW = 1_000
"""Steps of all series, from the first to the last row of each, per row from which the step is wrong."""


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
    freq = parse_frequency(freq or _infer_step(series)).freqstr
    rows, starts = series.rows, series.starts
    first, last = rows.dates.min(), rows.dates.max()
    two = date_range(pd.Timestamp(first), periods=2, freq=freq).to_numpy()
    places = float(((rows.dates[series.stops - 1] - rows.dates[starts]) / (two[1] - two[0])).sum())
    dates = places if is_part else (last - first) / (two[1] - two[0])
    if dates > SPARSE * len(rows) + (10_000 if len(starts) > 1 else 0):
        raise DataError(
            f"{rows.cells.path}: only {len(rows):,} dates for {dates:,.0f} steps of {freq} from first to last: "
            "set data.freq"
        )
    if places > MAX_PLACES_PER_ROW * len(rows):
        raise DataError(
            f"{rows.cells.path}: {len(starts):,} series have {len(rows):,} rows for {places:,.0f} steps of "
            f"{freq}: set a longer step (data.freq), or leave out series of few rows (data.ids)"
        )
    grid = date_range(pd.Timestamp(first), pd.Timestamp(last), freq=freq).as_unit("ns")
    if not len(grid) or grid[0] != first:
        row = int(rows.dates.argmin())
        message = f"{rows.subject(row)}cannot begin a grid of step {freq}: set data.freq"
        raise rows.error(message, row, rows.roles.date)
    others = ~find_dates(grid, rows.dates[starts])[1]
    if others.any():
        row = int(starts[int(others.argmax())])
        raise rows.error(
            f"not on the other series' grid of dates, every {describe_frequency(freq)} from {grid[0]}: "
            "correct it, or set data.freq", row, rows.roles.date,
        )  # fmt: skip
    return Grid(grid, freq)


def _infer_step(series: SeriesRows) -> str:
    """Infer the step from one of the longest series or its beginning, else take the most common step."""
    rows, starts, ends = series
    longest = np.argsort(starts - ends, kind="stable")[:MAX_EXAMINED_SERIES]
    if ends[longest[0]] - starts[longest[0]] < 3:
        where = "" if rows.roles.id is None else " in any series"
        count = int(ends[longest[0]] - starts[longest[0]])
        raise TooFewRows(
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

    It is a step of the calendar that all dates fit; else the most common step of `longest`, the dates of the longest
    series in ascending order.
    """
    step = infer_calendar_step(pd.DatetimeIndex(np.unique(all_dates)))
    if step is not None:
        return step
    gaps, counts = np.unique(np.diff(longest), return_counts=True)
    return name_step(gaps[counts.argmax()])


def find_dates(
    grid: pd.DatetimeIndex, dates: np.ndarray
) -> tuple[Int64[np.ndarray, " dates"], Bool[np.ndarray, " dates"]]:
    """The places of dates on an ascending grid, or of their successors, and whether the grid has the dates."""
    there = grid.to_numpy()
    places = np.minimum(np.searchsorted(there, dates), len(there) - 1)
    return places, there[places] == dates
