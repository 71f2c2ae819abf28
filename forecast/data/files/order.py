"""Order of the rows of a table: each series together, by date, one row per date."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, NoReturn

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64, Int64

from forecast.data.files.advice import find_repeated_dates
from forecast.data.files.cells import FRAME
from forecast.data.files.table_rows import TableRows
from forecast.data.files.timezone import find_repeating_zone
from forecast.data.row_ranges import PerSeries
from forecast.system.checks import check_choice
from forecast.system.errors import Remedy, RowOrderError
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


def order_rows(rows: TableRows, *, sort: bool, duplicates: str | None) -> SeriesRows:
    """Put the rows of each series together and in the order of their dates.

    Args:
        sort: sort the rows of a series by date; otherwise rows out of order are refused.
        duplicates: what becomes of rows of one series and date: the `first` or `last` one, or the `mean` or `sum` of
            their numbers, see `choose_merging`. None: they are refused.

    Raises:
        DataError: for the first row that is out of order or repeats a date.
        ConfigError: an unknown value of `duplicates`.
    """
    if duplicates is not None:
        check_choice("data.duplicates", duplicates, DUPLICATES)
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
    (date,) = pd.DatetimeIndex(rows.dates[[row]])
    if rows.cells.path == FRAME:
        zone = None if rows.utc_offset.timezone else find_repeating_zone(date)
        clocks = f"; where clocks went back, localize it first (tz_localize({zone!r}, ambiguous=...))"
        keys = (
            "~frame.index.duplicated()" if rows.cells.by_index else f"~frame.duplicated({[*rows.roles.keys]})"
        )
        return f"remove one (frame[{keys}])" + (clocks if zone else "")
    advice = "remove one, or set data.duplicates=first, last, mean or sum"
    if rows.utc_offset.minutes is not None:
        return advice
    if zone := find_repeating_zone(date):
        return f"{advice} (where clocks went back, set data.timezone, such as {zone}, or give dates in UTC)"
    if zone := find_repeating_zone(date, hours=1):
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
