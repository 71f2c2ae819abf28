"""The regular grid of dates of a table: order, step, one row per date, and the alignment of its rows to a panel."""

import warnings
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64, Int64

from forecast.data.calendars import Calendar, CalendarSetting, find_calendar
from forecast.data.files.cells import FRAME
from forecast.data.files.table_rows import Block, TableRows, take_static
from forecast.data.panel import Panel
from forecast.data.row_ranges import PerSeries, RowRanges, find_target_rows, ranges
from forecast.data.time_features import (
    describe_frequency,
    infer_calendar_step,
    infer_frequency,
    name_step,
    parse_frequency,
)
from forecast.system.errors import DataError, RowOrderError, TooFewRows
from forecast.system.formatting import plural, shorten

DUPLICATES = ("first", "last", "mean", "sum")
STEPS = ("dates", "rows")

MAX_EXAMINED_SERIES = 20  # largest number of series, the longest ones, from which the step is inferred
MAX_DATES_PER_ROW = 2  # dates per row from which series do not share one calendar

_OTHER_STEP = ": correct the date, or give another step (data.freq)"

SPARSE = 10  # dates of the grid per row from which the step is wrong

MAX_PLACES_PER_ROW = 1_000
"""Steps of all series, from the first to the last row of each, per row from which the step is wrong."""


def align(
    rows: TableRows,
    freq: str | None,
    *,
    steps: str = "dates",
    calendar: CalendarSetting = None,
    sort: bool = True,
    duplicates: str | None = None,
    is_part: bool = False,
) -> Panel:
    """Return the panel of these rows, in the order in which its series appear.

    Missing numbers and the values of missing rows are NaN. A series begins with its first row that has a
    value of some target and ends with the last such row. Rows after that give only future covariates.

    Args:
        freq, steps, calendar: see `forecast.data.files.sources.TableSource`.
        sort, duplicates: see `order_rows`.
        is_part: the rows are a part of a series, which may begin and end with missing values.

    Raises DataError, which names the line, for repeated dates, dates between two steps, infinite numbers, and a static
    column that changes; ConfigError for an option that is not possible.
    """
    _refuse_infinite(rows)
    rows = order_rows(rows, sort=sort, duplicates=duplicates)
    ends = rows.stops
    if not is_part:
        rows, ends = _cut_to_targets(rows)
    if steps == "rows":
        grid, days = _dates_of_rows(rows, calendar)
        freq = freq or days.freq
    else:
        days, freq = None, parse_frequency(freq or _infer_step(rows)).freqstr
        grid = _even_dates(rows, freq, is_part)
    static, roles = take_static(rows), rows.roles
    at, lengths = _place_on_grid(rows, grid, freq)
    starts = lengths.cumsum() - lengths
    return Panel(
        ids=rows.ids.rename(roles.id),
        grid=grid.as_unit("ns" if roles.id is not None else rows.unit).rename(roles.date),
        freq=freq,
        grid_starts=_find_dates(grid, rows.dates[rows.starts])[0],
        starts=starts,
        ends=at[ends - 1] + 1,
        stops=starts + lengths,
        targets=roles.targets or (),
        values=_insert_rows(rows.values, at, int(lengths.sum())),
        static=static,
        past_covariates=roles.past,
        future_covariates=roles.future_covariates,
        as_of=roles.as_of,
        future=_insert_rows(rows.future, at, int(lengths.sum())) if roles.future else None,
        utc_offset=rows.utc_offset,
        texts=rows.texts,
        calendar=days,
    )


def _insert_rows(block: Block, at: Int64[np.ndarray, " rows"], n_rows: int) -> Float64[np.ndarray, "n_rows columns"]:
    """Of `n_rows` rows, those of a block at their places, NaN elsewhere."""
    if n_rows == len(block):
        return block
    placed = np.full((n_rows, block.shape[1]), np.nan)
    placed[at] = block
    return placed


def _refuse_infinite(rows: TableRows) -> None:
    """Raise DataError for the first infinite number."""
    for block, names in ((rows.values, rows.roles.values), (rows.future, rows.roles.future)):
        infinite = np.isinf(block)
        if infinite.any():
            row, column = divmod(int(infinite.argmax()), len(names))
            other = "" if rows.cells.path == FRAME else ", or set data.na_values=[inf,-inf]"
            advice = f": correct it{other}"
            raise rows.error("an infinite number", row, names[column], advice)


def order_rows(rows: TableRows, *, sort: bool, duplicates: str | None) -> TableRows:
    """Put the rows of each series together and in the order of their dates; the series in that of their first rows.

    Args:
        sort: sort the rows of a series by date; otherwise rows out of order are refused.
        duplicates: what becomes of rows of one series and date: the `first` or `last` one, or the `mean` or `sum` of
            their numbers, see `_merge`. None: they are refused.

    Raises DataError for the first row that is out of order or repeats a date.
    """
    codes, present = pd.factorize(rows.codes)
    rows = replace(rows, ids=rows.ids[present], codes=codes.astype(np.int32))  # type: ignore[reportArgumentType, reportCallIssue]
    if (codes[1:] < codes[:-1]).any():
        rows = rows.take(np.argsort(codes, kind="stable"))
    falls = (np.diff(rows.codes) == 0) & (rows.dates[1:] < rows.dates[:-1])
    if falls.any() and not sort:
        row = int(falls.argmax()) + 1
        typed, layout = ("", "") if rows.cells.path == FRAME else (", or set data.sort=true", "data=long and ")
        are_several = not rows.roles.id_columns and len(np.unique(rows.dates)) < len(rows.dates)
        several = f" (several series need {layout}data.id_column)" if are_several else ""
        error = rows.error(f"{rows.subject(row)}comes after {rows.date(row - 1)}", row, rows.roles.date)
        raise RowOrderError(str(error), f": sort the rows by date{several}{typed}")
    if falls.any():
        rows = rows.take(np.lexsort((rows.dates, rows.codes)))
    same = (np.diff(rows.codes) == 0) & (rows.dates[1:] == rows.dates[:-1])
    if same.any():
        if duplicates is None:
            _refuse_duplicate(rows, int(same.argmax()) + 1, int(same.argmax()))
        rows = _merge(rows, str(duplicates), same)
    return rows


def _refuse_duplicate(rows: TableRows, row: int, other: int) -> NoReturn:
    """Raise DataError for a date that comes twice; clocks that go back may be the cause."""
    cells, position = rows.place(other)
    fact = str(rows.error(f"{rows.subject(row)}is in {cells.line(position)} too", row, rows.roles.date))
    is_frame, has_ids = rows.cells.path == FRAME, bool(rows.roles.id_columns)
    several = "data.id_column" if is_frame else "data=long and data.id_column"
    several = "in data.id_column all columns that tell them apart" if has_ids else several
    advice = f"remove one; several series need {several}"
    if not is_frame:
        advice = (
            f"remove one, or set data.duplicates=first, last, mean or sum; several series need {several}, "
            "times of day in a second column both in data.date_column, and clocks that went back data.timezone"
        )
    raise RowOrderError(fact, f": {advice}")


def _merge(rows: TableRows, duplicates: str, same: Bool[np.ndarray, " rows_but_one"]) -> TableRows:
    """One row per series and date, with a warning. Sums and means count the numbers that are there.

    Rows without any value whose date has a row with values are left out first. Texts keep the first value.
    With `sum`, only targets are added up: the sales of departments add up to those of a store, and the temperature of
    the store stands in each of their rows. Covariates get their mean.
    """
    note, how = "", dict.fromkeys(rows.roles.numbers, duplicates)
    if duplicates not in ("first", "last"):
        how |= dict.fromkeys(rows.roles.covariates, "mean") | dict.fromkeys(rows.texts, "first")
        columns = {kind: [name for name in how if how[name] == kind] for kind in ("sum", "mean", "first")}
        note = ": " + "; ".join(f"{kind} of {shorten(names)}" for kind, names in columns.items() if names)
    path, merged = rows.place(int(same.argmax()) + 1)[0].path, plural(int(same.sum()), "row")
    setting = f"(data.duplicates={duplicates}{note})"
    warnings.warn(f"{path}: merged {merged} with the row before, of the same date {setting}", stacklevel=3)
    date = np.cumsum(np.append(True, ~same)) - 1
    has_value = np.isfinite(rows.values).any(1) | np.isfinite(rows.future).any(1)
    kept = np.flatnonzero(has_value | ~(np.bincount(date, weights=has_value) > 0)[date])
    rows, date = rows.take(kept), date[kept]
    firsts = np.unique(date, return_index=True)[1]
    if duplicates == "last":
        return rows.take(np.append(firsts[1:], len(rows)) - 1)
    first = rows.take(firsts)
    pairs = (first.values, rows.values, rows.roles.values), (first.future, rows.future, rows.roles.future)
    for block, whole, names in pairs:
        for column, name in enumerate(names):
            numbers = pd.Series(whole[:, column]).groupby(date)
            if how[name] != "first":
                block[:, column] = numbers.mean() if how[name] == "mean" else numbers.sum(min_count=1)
    return first


def _cut_to_targets(rows: TableRows) -> tuple[TableRows, PerSeries]:
    """The rows that `find_target_rows` keeps, and of each series the row after its last value of a target."""
    names, ids = rows.roles.targets or (), rows.ids if rows.roles.id is not None else None
    where, targets, keep_end = str(rows.cells.path), rows.values[:, : len(names)], bool(rows.roles.future)
    ranges_of_series = RowRanges(rows.starts, rows.stops)
    firsts, ends, stops = find_target_rows(where, targets, names, ranges_of_series, ids, keep_end)
    lengths = stops - firsts
    ends = lengths.cumsum() - lengths + ends - firsts
    return rows if len(rows) == lengths.sum() else rows.take(ranges(firsts, stops)), ends


def _dates_of_rows(rows: TableRows, asked: CalendarSetting) -> tuple[pd.DatetimeIndex, Calendar]:
    """The dates at which any series has a row, and the calendar of those that follow.

    Raises DataError for series that share few dates.
    """
    starts = rows.starts
    dates, places = np.unique(rows.dates, return_inverse=True)
    needed = int((places[rows.stops - 1] - places[starts] + 1).sum())
    if needed > MAX_DATES_PER_ROW * len(rows):
        raise DataError(
            f"{rows.cells.path}: data.steps=rows needs series with the same dates, and these {len(starts):,} have "
            f"{len(rows):,} rows for {needed:,} dates: set data.steps=dates, or give one series (data.ids)"
        )
    grid = pd.DatetimeIndex(dates)
    return grid, find_calendar(str(rows.cells.path), rows.utc_offset.local(grid), asked)


def _even_dates(rows: TableRows, freq: str, is_part: bool) -> pd.DatetimeIndex:
    """Dates from the first of all series to the last, `freq` apart. Those of a part of a table may lie far apart."""
    starts = rows.starts
    first, last = rows.dates.min(), rows.dates.max()
    offset = parse_frequency(freq)
    begin: Any = offset.rollforward(pd.Timestamp(first))  # type: ignore[reportArgumentType]
    step = np.timedelta64(begin + offset - begin)
    places = float(((rows.dates[rows.stops - 1] - rows.dates[starts]) / step).sum())
    dates = places if is_part else (last - first) / step
    is_sparse = dates > SPARSE * len(rows) + (10_000 if len(starts) > 1 else 0)
    if is_sparse or places > MAX_PLACES_PER_ROW * len(rows):
        raise DataError(
            f"{rows.cells.path}: only {len(rows):,} rows for {max(dates, places):,.0f} steps of {freq} from first to "
            "last: correct the dates, give another step (data.freq), or leave out series of few rows (data.ids)"
        )
    grid = pd.date_range(pd.Timestamp(first), pd.Timestamp(last), freq=freq).as_unit("ns")
    if not len(grid) or grid[0] != first:
        row = int(rows.dates.argmin())
        message = f"{rows.subject(row)}cannot begin a grid of step {freq}"
        raise rows.error(message, row, rows.roles.date, _OTHER_STEP)
    others = ~_find_dates(grid, rows.dates[starts])[1]
    if others.any():
        message = f"not on the other series' grid of dates, every {describe_frequency(freq)} from {grid[0]}"
        raise rows.error(message, int(starts[int(others.argmax())]), rows.roles.date, _OTHER_STEP)
    return grid


def _infer_step(rows: TableRows) -> str:
    """Infer the step from one of the longest series or its beginning.

    Else it is a step of the calendar that all dates fit, or the most common step of the longest series. Steps of months
    come first: a few of them may be as many days long.
    """
    longest = np.argsort(rows.starts - rows.stops, kind="stable")[:MAX_EXAMINED_SERIES]
    of_series = [rows.dates[rows.starts[s] : rows.stops[s]] for s in longest]
    if (count := len(of_series[0])) < 3:
        where = "" if rows.roles.id is None else " in any series"
        problem = f"too few rows{where} to tell the step between them ({count})"
        raise TooFewRows(f"{rows.cells.path}: {problem}: give it (data.freq)")
    gaps = np.diff(of_series[0])
    if gaps.min() >= np.timedelta64(28, "D") and (step := _infer_calendar_step(rows)):
        return step
    for dates in of_series:
        length = len(dates)
        while length >= min(8, len(dates)):
            try:
                return infer_frequency(pd.DatetimeIndex(dates[:length]))
            except DataError:
                length //= 2
    if step := _infer_calendar_step(rows):
        return step
    steps, counts = np.unique(gaps, return_counts=True)
    step = steps[counts.argmax()]
    if step >= np.timedelta64(28, "D") and (gaps % step).any():
        raise DataError(
            f"{rows.cells.path}: the dates are not on the first or the last days of months, nor on a weekday of one of "
            "their weeks: write months as 2024-01 (text such as 2024-01-15 is read so with data.date_format=%Y-%m-15)"
        )
    return name_step(step)


def _infer_calendar_step(rows: TableRows) -> str | None:
    """The step of the calendar that the dates of all series fit; sorts them, so that it comes after what is cheaper."""
    return infer_calendar_step(pd.DatetimeIndex(np.unique(rows.dates)))


def _find_dates(
    grid: pd.DatetimeIndex, dates: np.ndarray
) -> tuple[Int64[np.ndarray, " dates"], Bool[np.ndarray, " dates"]]:
    """The places of dates on an ascending grid, or of their successors, and whether the grid has the dates."""
    there = grid.to_numpy()
    places = np.minimum(np.searchsorted(there, dates), len(there) - 1)
    return places, there[places] == dates


def _place_on_grid(rows: TableRows, grid: pd.DatetimeIndex, freq: str) -> tuple[Int64[np.ndarray, " rows"], PerSeries]:
    """The number of each row once missing rows are inserted, and the number of rows of each series then.

    Raises DataError for a date between two dates of the grid.
    """
    starts = rows.starts
    at, is_there = _find_dates(grid, rows.dates)
    if not is_there.all():
        row = int(is_there.argmin())
        message = f"{rows.subject(row)}does not follow {rows.date(row - 1)} by the step {freq}"
        raise rows.error(message, row, rows.roles.date, _OTHER_STEP)
    lengths = at[rows.stops - 1] - at[starts] + 1
    begins = lengths.cumsum() - lengths
    return at + np.repeat(begins - at[starts], rows.stops - starts), lengths
