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
    """Of each series s, the rows first[s] … last[s] − 1."""

    first: PerSeries
    last: PerSeries


def ranges(starts: PerSeries, stops: PerSeries) -> Int64[np.ndarray, " rows"]:
    """The numbers starts[s] … stops[s] − 1 of every s, one range after the other."""
    lengths = stops - starts
    before = lengths.cumsum() - lengths
    return np.arange(lengths.sum()) + np.repeat(starts - before, lengths)


def series_slices(lengths: PerSeries, rows: int = ROWS_AT_ONCE) -> Iterator[slice]:
    """Slices of the series that have about `rows` rows each; a longer series is a slice of its own."""
    number = lengths.cumsum() // rows
    borders = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(lengths)]
    for first, last in pairwise(borders):
        if last > first:
            yield slice(first, last)
