"""The places of the rows of a table once its missing dates are inserted."""

import warnings
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64

from forecast.data.files.cells import FRAME
from forecast.data.files.grid import Grid, find_dates
from forecast.data.files.order import SeriesRows
from forecast.data.files.table_rows import TableRows
from forecast.data.files.timezone import find_skipping_zone
from forecast.data.row_ranges import PerSeries
from forecast.data.time_features import future_dates

MAX_SKIPPED_HOURS = 100
"""Gaps are examined for changes of the clocks if there are no more."""


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
    first, dates = int(gaps[0]), pd.DatetimeIndex(rows.dates)
    before = dates[gaps - 1]
    skipped = pd.DatetimeIndex([future_dates(before[i : i + 1], freq, 1)[0] for i in range(len(gaps))])
    if zone := find_skipping_zone(dates, rows.codes, skipped):
        advice = (
            f"localize it first (tz_localize({zone!r}))"
            if rows.cells.path == FRAME
            else f"set data.timezone, such as {zone}, or give dates in UTC"
        )
        warnings.warn(
            f"{rows.cells.path}: no row between {rows.date(first - 1)} and {rows.date(first)}: where clocks went "
            f"forward, {advice}",
            stacklevel=2,
        )
