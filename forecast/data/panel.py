"""Many series on one grid of dates, their rows lying one after the other."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pandas as pd
from jaxtyping import Float, Int64

from forecast.data.calendar import future_dates
from forecast.data.timezone import to_move

ROWS = 1 << 22
"""Rows worked on at a time, so that what is made on the way stays small beside the table."""

PerSeries = Int64[np.ndarray, " series"]


@dataclass(frozen=True)
class Panel:
    """Series s has the rows starts[s] … stops[s] − 1, in the data's own units; those from ends[s] on are after its end.

    ids: names, in the order of the rows; firsts: the place of each series' first row in `grid`; values: of `columns`,
    NaN after the end; known: the columns that are known ahead, of all rows; static: a row a series.
    """

    ids: pd.Index
    grid: pd.DatetimeIndex
    freq: str  # the step between rows as a pandas offset alias: h, 15min, D, W-SUN, MS
    firsts: PerSeries
    starts: PerSeries
    ends: PerSeries
    stops: PerSeries
    columns: tuple[str, ...]
    values: Float[np.ndarray, "rows columns"]
    known_columns: tuple[str, ...]
    known: Float[np.ndarray, "rows known"]
    static: pd.DataFrame
    clock: int | None = None  # minutes the dates are ahead of UTC, where that is known

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def lengths(self) -> PerSeries:
        """Rows of each series up to its end."""
        return self.ends - self.starts

    @property
    def n_rows(self) -> int:
        return int(self.lengths.sum())

    @property
    def first_date(self) -> pd.Timestamp:
        return self.grid[[int(self.firsts.min())]].item()

    @property
    def last_date(self) -> pd.Timestamp:
        """Of the rows up to the ends."""
        return self.grid[[int((self.firsts + self.lengths).max()) - 1]].item()

    def series(self, rows: Int64[np.ndarray, " some"]) -> Int64[np.ndarray, " some"]:
        """The number of the series that each of these rows belongs to."""
        return np.searchsorted(self.stops, rows, side="right")

    def dates(self, rows: Int64[np.ndarray, " some"]) -> pd.DatetimeIndex:
        of = self.series(rows)
        return pd.DatetimeIndex(self.grid[rows - self.starts[of] + self.firsts[of]])

    def on_clock(self, clock: int | None) -> "Panel":
        """The panel with its dates on another clock; one of the two that is not known changes nothing."""
        move = to_move(self.clock, clock)
        return replace(self, grid=pd.DatetimeIndex(self.grid + move), clock=clock) if move else self

    def until(self, steps: int) -> "Panel":
        """The same with a grid that reaches `steps` beyond every series' end."""
        missing = int((self.firsts + self.lengths).max()) + steps - len(self.grid)
        if missing <= 0:
            return self
        grid = self.grid.append(future_dates(self.grid, self.freq, missing))
        return replace(self, grid=pd.DatetimeIndex(grid))


def segments(starts: PerSeries, stops: PerSeries) -> Int64[np.ndarray, " rows"]:
    """The numbers of the rows starts[s] … stops[s] − 1 of every s, one series after the other."""
    lengths = stops - starts
    before = lengths.cumsum() - lengths
    return np.arange(lengths.sum()) + np.repeat(starts - before, lengths)


def parts(lengths: PerSeries, rows: int = ROWS) -> Iterator[slice]:
    """Slices of the series, of about so many rows each."""
    part = lengths.cumsum() // rows
    borders = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), len(lengths)]
    for first, last in pairwise(borders):
        if last > first:
            yield slice(first, last)
