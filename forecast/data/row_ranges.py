"""Ranges of row numbers, one for each series of a panel."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Int64

ROWS_AT_ONCE = 1 << 22
"""Rows of a panel that are worked on at a time, so that temporary arrays stay small beside the panel."""

PerSeries = Int64[np.ndarray, " series"]


class RowRanges(NamedTuple):
    """Of each series s, the rows first[s] … stop[s] − 1."""

    first: PerSeries
    stop: PerSeries

    def series_of(self, rows: Int64[np.ndarray, " rows"]) -> Int64[np.ndarray, " rows"]:
        """The number s of the range that each row lies in. The ranges ascend."""
        return np.searchsorted(self.first, rows, side="right") - 1


def ranges(starts: PerSeries, stops: PerSeries) -> Int64[np.ndarray, " rows"]:
    """The numbers starts[s] … stops[s] − 1 of every s, one range after the other."""
    lengths = stops - starts
    before = lengths.cumsum() - lengths
    return np.arange(lengths.sum()) + np.repeat(starts - before, lengths)


def select_rows(starts: PerSeries, stops: PerSeries) -> slice | Int64[np.ndarray, " rows"]:
    """The rows of `ranges`, as a slice if they follow each other: then an array is indexed without a copy."""
    if int((stops - starts).sum()) == int(stops[-1] - starts[0]):
        return slice(int(starts[0]), int(stops[-1]))
    return ranges(starts, stops)


def series_slices(lengths: PerSeries, rows: int = ROWS_AT_ONCE) -> Iterator[slice]:
    """Slices of the series that have about `rows` rows each; a longer series is a slice of its own."""
    number, is_long = lengths.cumsum() // rows, lengths >= rows
    is_border = (np.diff(number) > 0) | is_long[1:] | is_long[:-1]
    borders = [0, *(np.flatnonzero(is_border) + 1).tolist(), len(lengths)]
    for first, last in pairwise(borders):
        if last > first:
            yield slice(first, last)


def pieces(first: PerSeries, last: PerSeries, rows: int) -> Iterator[Int64[np.ndarray, " rows"]]:
    """The numbers first[s] … last[s] − 1 of every s, about `rows` at a time, which may be a part of a long series."""
    for some in series_slices(last - first, rows):
        if some.stop - some.start > 1:
            yield ranges(first[some], last[some])
        else:
            begin, end = int(first[some.start]), int(last[some.start])
            for at in range(begin, end, rows):
                yield np.arange(at, min(at + rows, end))
