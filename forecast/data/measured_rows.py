"""Find the last row with a value in a range of rows, in memory or on disk."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Int64

from forecast.data.row_ranges import PerSeries
from forecast.data.stored_values import Values

_FEWEST, _MOST = 1 << 8, 1 << 16
"""Rows that are read at once: the first time, and at most."""


def last_measured(
    values: Values, first: PerSeries, last: PerSeries, *, of_any: bool = False
) -> Int64[np.ndarray, "ranges columns"]:
    """Return the last of the rows first[i] … last[i] − 1 with a value, by range i and column; −1 if there is none.

    Rows are read from the last one back to the result. No range is empty. With `of_any`, the result has one column: the
    last row with a value of any column.
    """

    def is_measured(rows: Int64[np.ndarray, " rows"]) -> Bool[np.ndarray, "rows columns"]:
        found = np.isfinite(values[rows])
        return np.asarray(found.any(axis=1, keepdims=True)) if of_any else found

    found = np.where(is_measured(last - 1), last[:, None] - 1, -1)
    for i in np.flatnonzero((found < 0).any(axis=1)).tolist():
        for rows in _backwards(int(first[i]), int(last[i]) - 1):
            latest = np.where(is_measured(rows), rows[:, None], -1).max(axis=0)
            found[i] = np.where(found[i] < 0, latest, found[i])
            if (found[i] >= 0).all():
                break
    return found


def _backwards(first: int, last: int) -> Iterator[Int64[np.ndarray, " rows"]]:
    """The rows first … last − 1 in ranges that begin at the end and grow."""
    size = _FEWEST
    while last > first:
        begin = max(first, last - size)
        yield np.arange(begin, last)
        last, size = begin, min(2 * size, _MOST)


def first_measured(values: Values, first: PerSeries, last: PerSeries) -> Int64[np.ndarray, " ranges"]:
    """The first of the rows first[i] … last[i] − 1 with a value of any column, else last[i], for each range i.

    Rows are read from the first one on to the result. No range is empty.
    """
    found = np.where(np.isfinite(values[first]).any(axis=1), first, last)
    for i in np.flatnonzero(found == last).tolist():
        begin, end, size = int(first[i]), int(last[i]), _FEWEST
        while begin < end and found[i] == end:
            rows = np.arange(begin, min(end, begin + size))
            measured = np.isfinite(values[rows]).any(axis=1)
            found[i] = rows[measured.argmax()] if measured.any() else end
            begin, size = begin + size, min(2 * size, _MOST)
    return found
