"""The regular grid of dates of a table: order, step, one row per date."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64, Int64

from forecast.data.calendars import Calendar, CalendarSetting, find_calendar
from forecast.data.files.advice import find_repeated_dates
from forecast.data.files.cells import FRAME
from forecast.data.files.table_rows import TableRows
from forecast.data.files.timezone import find_repeating_zone
from forecast.data.row_ranges import PerSeries
from forecast.data.time_features import (
    date_range,
    describe_frequency,
    infer_calendar_step,
    infer_frequency,
    name_step,
    parse_frequency,
)
from forecast.system.errors import ConfigError, DataError, Remedy, RowOrderError, TooFewRows, check_choice
from forecast.system.formatting import plural, shorten

DUPLICATES = ("first", "last", "mean", "sum")


class SeriesRows(NamedTuple):
    """Rows with those of each series together and by date.

    Attributes:
        rows: of all series.
        starts: the first row of each series.
        ends: the row after the last one of each series in which a target may be measured.
    """

    rows: TableRows
    starts: PerSeries
    ends: PerSeries

    @property
    def stops(self) -> PerSeries:
        """The row after the last one of each series; the rows from `ends` on give only future covariates."""
        return np.append(self.starts[1:], len(self.rows))


def check_duplicates(duplicates: str | None) -> None:
    """Raise ConfigError for an unknown value of `duplicates`, see `order_rows`."""
    if duplicates is not None:
        check_choice("data.duplicates", duplicates, DUPLICATES)


def order_rows(rows: TableRows, *, sort: bool, duplicates: str | None) -> SeriesRows:
    """Put the rows of each series together and in the order of their dates.

    Args:
        sort: sort the rows of a series by date; otherwise rows out of order are refused.
        duplicates: what becomes of rows of one series and date: the `first` or `last` one, or the `mean` or `sum` of
            their numbers, see `choose_merging`. None: they are refused.

    Raises:
        DataError: for the first row that is out of order or repeats a date.
    """
    rows = _group_series(rows)
    falls = _follows(rows) & (rows.dates[1:] < rows.dates[:-1])
    if falls.any() and not sort:
        _refuse_order(rows, int(falls.argmax()) + 1, duplicates)
    if falls.any():
        rows = rows.take(np.lexsort((rows.dates, rows.codes)))
    same = _repeats(rows)
    if same.any():
        if duplicates is None:
            _refuse_duplicate(rows, int(same.argmax()) + 1, int(same.argmax()))
        how = choose_merging(rows, str(duplicates))
        _warn_of_merged(rows, np.flatnonzero(same) + 1, str(duplicates), how)
        rows = _merge(_without_empty(rows), str(duplicates), how)
    starts = _starts(rows)
    return SeriesRows(rows, starts, np.append(starts[1:], len(rows)))


def _follows(rows: TableRows) -> Bool[np.ndarray, " rows_but_one"]:
    """Whether a row has the series of the row above it."""
    return rows.codes[1:] == rows.codes[:-1]


def _repeats(rows: TableRows) -> Bool[np.ndarray, " rows_but_one"]:
    """Whether a row has the series and the date of the row above it."""
    return _follows(rows) & (rows.dates[1:] == rows.dates[:-1])


def _starts(rows: TableRows) -> PerSeries:
    return np.concatenate([[0], np.flatnonzero(~_follows(rows)) + 1]).astype(np.int64)


def _group_series(rows: TableRows) -> TableRows:
    """The rows of each series together, in the order in which the series appear, numbered in that order."""
    firsts = _starts(rows)
    if len(np.unique(rows.codes[firsts])) < len(firsts):
        seen, first = np.unique(rows.codes, return_index=True)
        rank = np.empty(int(seen.max()) + 1, dtype=np.int64)
        rank[seen[np.argsort(first)]] = np.arange(len(seen))
        rows = rows.take(np.argsort(rank[rows.codes], kind="stable"))
        firsts = _starts(rows)
    lengths = np.diff(firsts, append=len(rows))
    codes = np.repeat(np.arange(len(firsts), dtype=np.int32), lengths)
    return replace(rows, ids=rows.ids[rows.codes[firsts]], codes=codes)


def _refuse_order(rows: TableRows, row: int, duplicates: str | None) -> NoReturn:
    """Raise DataError for a row whose date lies before that of the row above it in its series."""
    mine = np.flatnonzero((rows.codes[:row] == rows.codes[row]) & (rows.dates[:row] == rows.dates[row]))
    if len(mine) and duplicates is None:
        _refuse_duplicate(rows, row, int(mine[0]))
    before = rows.date(row - 1)
    advice, remedies = "sort the rows by date", [Remedy({"sort": True})]
    if rows.cells.path == FRAME:
        by = f"sort_values({rows.roles.date!r}, key=pd.to_datetime)"
        advice, remedies = f"sort it (frame.{'sort_index()' if rows.cells.by_index else by})", []
    error = rows.error(f"{rows.subject(row)}comes after {before}", row, rows.roles.date)
    raise RowOrderError(str(error), advice, repeats=False, remedies=remedies)


def _refuse_duplicate(rows: TableRows, row: int, other: int) -> NoReturn:
    error = rows.error(f"{rows.subject(row)}is in {rows.line(other)} too", row, rows.roles.date)
    if rows.cells.path != FRAME and (found := find_repeated_dates(rows.cells, rows.roles)):
        what, remedies = found
        raise RowOrderError(str(error), what, repeats=True, remedies=remedies, joint=": ")
    raise RowOrderError(str(error), _advice_on_duplicate(rows, row), repeats=True)


def _advice_on_duplicate(rows: TableRows, row: int) -> str:
    """Advice on a date that comes twice: one of these may be the cause."""
    dates = pd.DatetimeIndex(rows.dates)
    if rows.cells.path == FRAME:
        zone = None if rows.utc_offset.timezone else find_repeating_zone(dates, rows.codes, row)
        clocks = f"; where clocks went back, localize it first (tz_localize({zone!r}, ambiguous=...))"
        keys = (
            "~frame.index.duplicated()" if rows.cells.by_index else f"~frame.duplicated({[*rows.roles.keys]})"
        )
        return f"remove one (frame[{keys}])" + (clocks if zone else "")
    advice = "remove one, or set data.duplicates=first, last, mean or sum"
    if rows.utc_offset.minutes is not None:
        return advice
    if zone := find_repeating_zone(dates, rows.codes, row):
        return f"{advice} (where clocks went back, set data.timezone, such as {zone}, or give dates in UTC)"
    if zone := find_repeating_zone(dates, rows.codes, row, hours=1):
        return f"{advice} (where clocks went back, set data.timezone, such as {zone}, and data.stamp=end)"
    return advice


def choose_merging(rows: TableRows, duplicates: str) -> dict[str, str]:
    """The rule by which each column of numbers, texts or booleans is merged: `sum`, `mean`, `first` or `last`.

    Texts and booleans keep the first value. With `sum`, only targets are added up: the sales of departments add up to
    those of a store, and the temperature of the store stands in each of their rows. Covariates get their mean.
    """
    columns = rows.roles.numbers
    if duplicates in ("first", "last"):
        return dict.fromkeys(columns, duplicates)
    covariates, kept = {*rows.roles.covariates}, {*rows.texts, *rows.booleans}
    of_numbers = {name: "mean" if name in covariates else duplicates for name in columns}
    return {name: "first" if name in kept else of_numbers[name] for name in columns}


def _warn_of_merged(
    rows: TableRows, merged: Int64[np.ndarray, " merged"], duplicates: str, how: Mapping[str, str]
) -> None:
    """Warn of the rows that are merged with the row before, for each file that they stand in."""
    for cells, in_file in rows.split_by_file(merged):
        read = rows.roles.future if cells is rows.ahead else rows.roles.numbers
        columns = {kind: [name for name in read if how[name] == kind] for kind in ("sum", "mean", "first")}
        told = "; ".join(f"{kind} of {shorten(names)}" for kind, names in columns.items() if names)
        note = "" if duplicates in ("first", "last") else f": {told}"
        warnings.warn(
            f"{cells.path}: merged {plural(len(in_file), 'row')} with the row before, of the same date "
            f"(data.duplicates={duplicates}{note})",
            stacklevel=3,
        )


def _without_empty(rows: TableRows) -> TableRows:
    """Leave out rows without any value whose date has a row with values."""
    date = np.cumsum(np.concatenate([[True], ~_repeats(rows)])) - 1
    has_value = np.isfinite(rows.values).any(1) | np.isfinite(rows.future).any(1)
    is_measured = np.bincount(date, weights=has_value) > 0
    kept = has_value | ~is_measured[date]
    return rows if kept.all() else rows.take(np.flatnonzero(kept))


def _merge(rows: TableRows, duplicates: str, how: Mapping[str, str]) -> TableRows:
    """One row per series and date. Sums and means count the numbers that are there."""
    firsts = np.flatnonzero(np.concatenate([[True], ~_repeats(rows)])).astype(np.int64)
    if duplicates == "last":
        return rows.take(np.append(firsts[1:], len(rows)) - 1)
    merged = rows.take(firsts)
    for block, names in ((merged.values, rows.roles.values), (merged.future, rows.roles.future)):
        whole = rows.values if block is merged.values else rows.future
        for column, name in enumerate(names):
            if how[name] != "first":
                block[:, column] = _reduce(whole[:, column], firsts, how[name])
    return merged


def _reduce(
    column: Float64[np.ndarray, " rows"], firsts: Int64[np.ndarray, " dates"], how: str
) -> Float64[np.ndarray, " dates"]:
    there = np.isfinite(column)
    count = np.add.reduceat(there, firsts, dtype=np.int64)
    total = np.add.reduceat(np.where(there, column, 0.0), firsts)
    if how == "mean":
        total = total / np.maximum(count, 1)
    return np.where(count > 0, total, np.nan)


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
        freq, steps, calendar: see `forecast.data.files.sources.TableSource`.

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
            "correct the dates, or give their step (data.freq)"
        )
    if places > MAX_PLACES_PER_ROW * len(rows):
        raise DataError(
            f"{rows.cells.path}: {len(starts):,} series have {len(rows):,} rows for {places:,.0f} steps of "
            f"{freq}: set a longer step (data.freq), or leave out series of few rows (data.ids)"
        )
    grid = date_range(pd.Timestamp(first), pd.Timestamp(last), freq=freq).as_unit("ns")
    if not len(grid) or grid[0] != first:
        row = int(rows.dates.argmin())
        message = f"{rows.subject(row)}cannot begin a grid of step {freq}"
        raise rows.error(message, row, rows.roles.date, **{**advise_step(rows), "joint": ": "})
    others = ~find_dates(grid, rows.dates[starts])[1]
    if others.any():
        row = int(starts[int(others.argmax())])
        raise rows.error(
            f"not on the other series' grid of dates, every {describe_frequency(freq)} from {grid[0]}: "
            "correct it", row, rows.roles.date, **advise_step(rows),
        )  # fmt: skip
    return Grid(grid, freq)


def advise_step(rows: TableRows) -> dict[str, Any]:
    """Advice on dates that do not fit the step: the largest step that fits all of them, which has to be tried."""
    gaps = np.diff(np.unique(rows.dates)).astype("timedelta64[ns]").astype(np.int64)
    step = name_step(np.timedelta64(int(np.gcd.reduce(gaps)), "ns"))
    fallback = ", or give another step (data.freq)"
    return {"remedies": [Remedy({"freq": step})], "joint": ", or ", "fallback": fallback}


def _infer_step(series: SeriesRows) -> str:
    """Infer the step from one of the longest series or its beginning, else take the most common step."""
    rows, starts, ends = series
    longest = np.argsort(starts - ends, kind="stable")[:MAX_EXAMINED_SERIES]
    if ends[longest[0]] - starts[longest[0]] < 3:
        where = "" if rows.roles.id is None else " in any series"
        count = int(ends[longest[0]] - starts[longest[0]])
        raise TooFewRows(
            f"{rows.cells.path}: too few rows{where} to tell the step between them ({count}): give it (data.freq)"
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
