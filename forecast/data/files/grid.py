"""The regular grid of dates of a table, and the step between them."""

import warnings

import numpy as np
import pandas as pd
from jaxtyping import Int64
from pandas.tseries.frequencies import to_offset

from forecast.data.files.order import CLOCKS
from forecast.data.files.table_rows import TableRows
from forecast.data.files.timezone import looks_skipped
from forecast.data.panel import PerSeries
from forecast.data.time_features import infer_frequency, parse_frequency
from forecast.system.errors import DataError

ASKED = 20
"""Series whose dates tell the step, the longest ones."""

SKIPPED_HOURS = 100
"""Gaps are examined for changes of the clocks if there are no more."""

SPARSE = 10
"""Dates on the grid per row of the table from which the step cannot be right."""


def find_grid(
    rows: TableRows, starts: PerSeries, ends: PerSeries, freq: str | None
) -> tuple[pd.DatetimeIndex, str]:
    """Return the dates from the first of all series to the last, and their step, which is `freq` or inferred.

    Raises DataError if the step cannot be inferred or does not fit the first date of a series.
    """
    step = parse_frequency(freq or _infer_step(rows, starts, ends))
    first, last = rows.dates.min(), rows.dates.max()
    two = pd.date_range(first, periods=2, freq=step).to_numpy()
    dates = (last - first) / (two[1] - two[0])
    if dates > SPARSE * len(rows) + (10_000 if len(starts) > 1 else 0):
        raise DataError(
            f"{rows.cells.path}: {len(rows):,} dates on a grid of step {step.freqstr} with {dates:,.0f}: set data.freq"
        )
    grid = pd.date_range(first, last, freq=step).as_unit("ns")
    if not len(grid) or grid[0] != first:
        row = int(rows.dates.argmin())
        message = f"{rows.subject(row)}cannot begin a grid of step {step.freqstr}: set data.freq"
        raise rows.refuse(message, row, rows.roles.date)
    others = grid.get_indexer(pd.DatetimeIndex(rows.dates[starts])) < 0
    if others.any():
        row = int(starts[int(others.argmax())])
        raise rows.refuse(
            f"not on the other series' grid of dates, every {step.freqstr} from {grid[0]}: correct it, or set "
            "data.freq", row, rows.roles.date,
        )  # fmt: skip
    return grid, step.freqstr


def _infer_step(rows: TableRows, starts: PerSeries, ends: PerSeries) -> str:
    """Infer the step from one of the longest series or its beginning, else take the most common step."""
    longest = np.argsort(starts - ends, kind="stable")[:ASKED]
    if ends[longest[0]] - starts[longest[0]] < 3:
        series = "" if rows.roles.id is None else " in any series"
        count = int(ends[longest[0]] - starts[longest[0]])
        raise DataError(
            f"{rows.cells.path}: too few rows{series} to tell the step between them ({count}): set data.freq"
        )
    for s in longest:
        length = int(ends[s] - starts[s])
        while length >= min(8, ends[s] - starts[s]):
            try:
                return infer_frequency(pd.DatetimeIndex(rows.dates[starts[s] : starts[s] + length]))
            except DataError:
                length //= 2
    steps = np.diff(rows.dates[starts[longest[0]] : ends[longest[0]]])
    lengths, counts = np.unique(steps, return_counts=True)
    return to_offset(pd.Timedelta(lengths[counts.argmax()])).freqstr  # type: ignore[union-attr]


def place_on_grid(
    rows: TableRows, grid: pd.DatetimeIndex, freq: str, starts: PerSeries, stops: PerSeries
) -> tuple[Int64[np.ndarray, " rows"], PerSeries]:
    """Return the row number that each row has once missing rows are inserted, and the length of each series then.

    Warns where only hours that clocks skip in spring are missing. Raises DataError for a date between two dates of the
    grid.
    """
    at = np.minimum(np.searchsorted(grid.to_numpy(), rows.dates), len(grid) - 1)
    off = grid.to_numpy()[at] != rows.dates
    if off.any():
        row = int(off.argmax())
        message = (
            f"{rows.subject(row)}does not follow {rows.date(row - 1)} by the step {freq}: correct the date, or set "
            "data.freq"
        )
        raise rows.refuse(message, row, rows.roles.date)
    _warn_of_skipped_hours(rows, at, freq)
    lengths = at[stops - 1] - at[starts] + 1
    begins = lengths.cumsum() - lengths
    return at + np.repeat(begins - at[starts], stops - starts), lengths


def _warn_of_skipped_hours(rows: TableRows, at: Int64[np.ndarray, " rows"], freq: str) -> None:
    """Warn if the only rows that are missing are hours that clocks skip in spring."""
    gaps = np.flatnonzero((np.diff(at) > 1) & (rows.codes[1:] == rows.codes[:-1])) + 1
    if rows.utc_offset is not None or not 0 < len(gaps) <= SKIPPED_HOURS:
        return
    around = [(rows.date(row - 1), rows.date(row)) for row in gaps.tolist()]
    if all(looks_skipped(before, after, parse_frequency(freq)) for before, after in around):
        warnings.warn(
            f"{rows.cells.path}: no row between {around[0][0]} and {around[0][1]}: where clocks went forward, {CLOCKS}",
            stacklevel=2,
        )
