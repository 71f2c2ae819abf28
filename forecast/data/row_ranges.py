"""Rows of series: their ranges, and their values in memory or on disk."""

import mmap
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int64

from forecast.data.files.text import quote
from forecast.system.errors import DataError
from forecast.system.formatting import plural

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


def pieces(first: PerSeries, last: PerSeries, rows: int) -> Iterator[Int64[np.ndarray, " rows"]]:
    """The numbers first[s] … last[s] − 1 of every s, about `rows` at a time, which may be a part of a long series."""
    lengths = last - first
    number, is_long = lengths.cumsum() // rows, lengths >= rows
    is_border = (np.diff(number) > 0) | is_long[1:] | is_long[:-1]
    borders = [0, *(np.flatnonzero(is_border) + 1).tolist(), len(lengths)]
    for begin, end in pairwise(borders):
        if end - begin > 1:
            yield ranges(first[begin:end], last[begin:end])
        elif end > begin:
            for at in range(int(first[begin]), stop := int(last[begin]), rows):
                yield np.arange(at, min(at + rows, stop))


BYTES_AT_ONCE = 1 << 23  # bytes read at a time where all rows are read

Cells = Float[np.ndarray, "*some columns"]


@dataclass(frozen=True)
class StoredValues:
    """Columns of an array in a file; rows are read when they are indexed, as from a NumPy array.

    Attributes:
        minimum, maximum, missing: of each chosen column, its range and its number of missing values (NaN).
        codes: of each chosen column, the code of a category: the column is then the indicator of this category, 1 where
            the value is the code, else 0. None: the values themselves.
    """

    mapped: Float[np.ndarray, "rows all_columns"]  # the memory-mapped array (rows, all columns)
    file: Path
    index: tuple[int, ...]
    minimum: tuple[float, ...]
    maximum: tuple[float, ...]
    missing: tuple[int, ...]
    codes: tuple[float | None, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.mapped), len(self.index)

    def __len__(self) -> int:
        return len(self.mapped)

    def __getitem__(self, rows: Any) -> Cells:
        """These rows in float64: a slice or an array of row numbers, or a pair of rows and columns."""
        if isinstance(rows, tuple):
            return self[rows[0]][:, rows[1]]
        return self.choose(self.mapped[rows]).astype(np.float64)

    def choose(self, part: Float[np.ndarray, "*some all_columns"]) -> Cells:
        """The chosen columns and indicators of some rows."""
        if self.index == tuple(range(self.mapped.shape[1])) and set(self.codes) <= {None}:
            return part
        return put_indicators(part[..., list(self.index)], self.codes)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All rows, in memory."""
        return self[:] if dtype is None else self[:].astype(dtype)

    def select(self, index: Sequence[int]) -> "StoredValues":
        names = ("index", "minimum", "maximum", "missing", "codes")
        return replace(self, **{name: tuple(getattr(self, name)[i] for i in index) for name in names})

    def remapped_for_random_access(self) -> Float[np.ndarray, "rows all_columns"]:
        """Another map of the file, for single windows: the system reads nothing ahead."""
        offset = self.file.stat().st_size - self.mapped.nbytes
        mapped = np.memmap(self.file, self.mapped.dtype, "r", offset, self.mapped.shape)
        if hasattr(mmap, "MADV_RANDOM"):
            mapped.base.madvise(mmap.MADV_RANDOM)  # type: ignore[union-attr]
        return np.asarray(mapped)


Values = Float[np.ndarray, "_rows _columns"] | StoredValues


def put_indicators(values: Cells, codes: Sequence[float | None]) -> Cells:
    """The values, where each column that has a code is 1 where it is the code, else 0, and NaN where it is missing."""
    columns = [i for i, code in enumerate(codes) if code is not None]
    if columns:
        found, wanted = values[..., columns], np.array([codes[i] for i in columns], dtype=values.dtype)
        values[..., columns] = np.where(np.isnan(found), np.nan, found == wanted)
    return values


def select_columns(values: Values, index: Sequence[int]) -> Values:
    """Some columns of values in memory, as a view where all are chosen in order, or on disk."""
    if list(index) == list(range(values.shape[1])):
        return values
    return values.select(index) if isinstance(values, StoredValues) else values[:, list(index)]


def select_indicators(values: Values, index: Sequence[int], codes: Sequence[float | None]) -> Values:
    """Some columns; one that has a code is the indicator of it. Values on disk stay there."""
    if not isinstance(values, StoredValues):
        return put_indicators(values[:, list(index)], codes)
    chosen, is_indicator = values.select(index), [code is not None for code in codes]
    lowest = tuple(np.where(is_indicator, 0.0, chosen.minimum).tolist())
    highest = tuple(np.where(is_indicator, 1.0, chosen.maximum).tolist())
    return replace(chosen, codes=tuple(codes), minimum=lowest, maximum=highest)


def pieces_of(values: Values, first: PerSeries, last: PerSeries) -> Iterator[Int64[np.ndarray, " rows"]]:
    """The numbers of the rows first[s] … last[s] − 1 of each series, some at a time: a copy of them is small."""
    rows = ROWS_AT_ONCE
    if isinstance(values, StoredValues):
        rows = max(1, BYTES_AT_ONCE // (values.mapped.itemsize * values.mapped.shape[1]))
    return pieces(first, last, rows)


RowNumbers = Int64[np.ndarray, "ranges columns"]
_FEWEST, _MOST = 1 << 8, 1 << 16  # rows that are read at once: the first time, and at most


def find_measured(
    values: Values, first: PerSeries, last: PerSeries, which: Literal["first", "last"], *, of_any: bool = False
) -> RowNumbers:
    """The first or the last of the rows first[i] … last[i] − 1 with a value; −1 if there is none. No range is empty.

    By range i and column; with `of_any`, in one column for a value of any of them. Rows are read up to the result, in
    ranges that grow.
    """

    def is_measured(rows: Int64[np.ndarray, " rows"]) -> Bool[np.ndarray, "rows columns"]:
        found = np.isfinite(values[rows])
        return np.asarray(found.any(axis=1, keepdims=True)) if of_any else found

    begins, step = (first, 1) if which == "first" else (last - 1, -1)
    found = np.where(is_measured(begins), begins[:, None], -1)
    for i in np.flatnonzero((found < 0).any(axis=1)).tolist():
        left, size = range(int(first[i]), int(last[i]))[::step], _FEWEST
        while left and (found[i] < 0).any():
            rows, left, size = np.array(left[:size]), left[size:], min(2 * size, _MOST)
            measured = is_measured(rows)
            nearest = np.where(measured.any(axis=0), rows[measured.argmax(axis=0)], -1)
            found[i] = np.where(found[i] < 0, nearest, found[i])
    return found


def find_target_rows(
    where: str, targets: Values, names: Sequence[str], rows: RowRanges, ids: pd.Index | None, keep_end: bool
) -> tuple[PerSeries, PerSeries, PerSeries]:
    """Find the rows of each series from its first value of a target to the last one; warn of the others.

    `ids` are of the series; None: there is one without a name. With `keep_end`, rows after the last value stay, which
    give future covariates. Returns of each series the first row that is kept, the row after the last value, and the row
    after the last one kept. Raises DataError, beginning with `where`, for a series without a value.
    """
    starts, stops = rows
    firsts, ends = rows
    if not isinstance(targets, StoredValues) or any(targets.missing):
        firsts = find_measured(targets, starts, stops, "first", of_any=True)[:, 0]
        if (empty := firsts < 0).any():
            series, others = "", "columns (data.columns)"
            if ids is not None:
                series = f" of series {quote(ids[int(empty.argmax())])}"
                others = "columns or series (data.columns, data.ids)"
            raise DataError(f"{where}: no value{series} of {', '.join(names[:20])}: choose other {others}")
        ends = find_measured(targets, starts, stops, "last", of_any=True)[:, 0] + 1
    kept = stops if keep_end else ends
    for count, what in ((firsts - starts, "before the first"), (stops - kept, "after the last")):
        if count.any():
            left_out = plural(int(count.sum()), "row")
            warnings.warn(f"{where}: left out {left_out} {what} value of a target", stacklevel=3)
    return firsts, ends, kept


def has_values(values: Values, first: PerSeries, last: PerSeries) -> Bool[np.ndarray, " series"]:
    """Whether a series has a value of every column in the rows first[s] … last[s] − 1."""
    found = np.zeros((len(first), values.shape[1]), dtype=bool)
    for rows in pieces_of(values, first, last):
        series = RowRanges(first, last).series_of(rows)
        begins = np.flatnonzero(np.diff(series, prepend=-1))
        found[series[begins]] |= np.logical_or.reduceat(np.isfinite(values[rows]), begins, axis=0)
    return np.asarray(found.all(axis=1) & (last > first))


def count_missing(values: Values, first: PerSeries, last: PerSeries) -> Int64[np.ndarray, " columns"]:
    """Missing values of each column in the rows first[s] … last[s] − 1 of each series.

    Of values on disk, of which some are missing, these rows or all others are read, whichever are fewer.
    """
    if isinstance(values, StoredValues):
        in_all = np.array(values.missing, dtype=np.int64)
        if not in_all.any():
            return in_all
        if 2 * (last - first).sum() > len(values):
            return in_all - count_missing(values, np.append(0, last), np.append(first, len(values)))
    count = np.zeros(values.shape[1], dtype=np.int64)
    for rows in pieces_of(values, first, last):
        # a third of the time of a sum over rows
        count += [np.count_nonzero(column) for column in np.isnan(values[rows]).T]
    return count


class RunningStatistics:
    """Statistics of the columns of groups of rows, such as series, whose rows come in blocks. NaN does not count.

    Means and variances of blocks are merged as in Chan, Golub and LeVeque (1979).

    `count`, `mean`, `squares`, `lowest`, `highest`: (groups, columns); `squares` are of the differences from the mean.
    """

    def __init__(self, n_columns: int, n_groups: int = 1) -> None:
        shape = n_groups, n_columns
        self.count, self.mean, self.squares = np.zeros(shape, np.int64), np.zeros(shape), np.zeros(shape)
        self.lowest, self.highest = np.full(shape, np.inf), np.full(shape, -np.inf)

    def add(self, block: Float[np.ndarray, "rows columns"], group: Int64[np.ndarray, " rows"] | None = None) -> None:
        """Add rows of these groups, which ascend; None: there is one group."""
        group = np.zeros(len(block), dtype=np.int64) if group is None else group
        begins = np.flatnonzero(np.diff(group, prepend=-1))
        some, lengths = group[begins], np.diff(begins, append=len(block))
        is_measured = np.isfinite(block)
        size = np.add.reduceat(is_measured, begins, dtype=np.int64)
        # numbers that are too large are refused once scaled
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.add.reduceat(np.where(is_measured, block, 0.0), begins) / np.maximum(size, 1)
            centred = np.where(is_measured, block - np.repeat(mean, lengths, axis=0), 0.0)
            step, total = mean - self.mean[some], np.maximum(self.count[some] + size, 1)
            self.squares[some] += np.add.reduceat(np.square(centred), begins)
            self.squares[some] += step**2 * self.count[some] * size / total
            self.mean[some] += step * size / total
        self.lowest[some] = np.fmin(self.lowest[some], np.fmin.reduceat(block, begins))
        self.highest[some] = np.fmax(self.highest[some], np.fmax.reduceat(block, begins))
        self.count[some] += size
