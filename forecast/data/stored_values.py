"""Values of a panel that stay on disk."""

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

from forecast.data.row_ranges import ROWS_AT_ONCE, PerSeries, pieces

BYTES_AT_ONCE = 1 << 23
"""Bytes read at a time where all rows are read."""


@dataclass(frozen=True)
class StoredValues:
    """Columns of an array in a file; rows are read when they are indexed, as from a NumPy array.

    Attributes:
        mapped: the memory-mapped array (rows, all columns).
        file: where it lies.
        index: the chosen columns.
        minimum, maximum, missing: of each chosen column, its range and its number of missing values (NaN).
        codes: of each chosen column, the code of a category: the column is then the indicator of this category, 1 where
            the value is the code, else 0. None: the values themselves.
    """

    mapped: Float[np.ndarray, "rows all_columns"]
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

    def __getitem__(self, rows: Any) -> Float[np.ndarray, "*some columns"]:
        """These rows in float64: a slice or an array of row numbers, or a pair of rows and columns."""
        if isinstance(rows, tuple):
            rows, columns = rows
            return self[rows][:, columns]
        return self.choose(self.mapped[rows]).astype(np.float64)

    def choose(self, part: Float[np.ndarray, "*some all_columns"]) -> Float[np.ndarray, "*some columns"]:
        """The chosen columns and indicators of some rows."""
        if self.has_all_columns:
            return part
        chosen = part[..., list(self.index)]
        columns = [i for i, code in enumerate(self.codes) if code is not None]
        if columns:
            codes = np.array([self.codes[i] for i in columns], dtype=part.dtype)
            chosen[..., columns] = indicators(chosen[..., columns], codes)
        return chosen

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All rows, in memory."""
        return self[:] if dtype is None else self[:].astype(dtype)

    @property
    def has_all_columns(self) -> bool:
        return self.index == tuple(range(self.mapped.shape[1])) and not any(
            code is not None for code in self.codes
        )

    def select(self, index: Sequence[int]) -> "StoredValues":
        """Some of the columns."""
        names = ("index", "minimum", "maximum", "missing", "codes")
        return replace(self, **{name: tuple(getattr(self, name)[i] for i in index) for name in names})

    def with_indicators(self, codes: Sequence[float | None]) -> "StoredValues":
        """The indicator of a code in place of each column that has one."""
        is_indicator = [code is not None for code in codes]
        return replace(
            self,
            codes=tuple(codes),
            minimum=tuple(np.where(is_indicator, 0.0, self.minimum).tolist()),
            maximum=tuple(np.where(is_indicator, 1.0, self.maximum).tolist()),
        )

    def count_missing(self, first: PerSeries, last: PerSeries) -> Int64[np.ndarray, " columns"]:
        """Missing values of each column in the rows first[s] … last[s] − 1 of each series.

        Where any value is missing, these rows or all others are read, whichever are fewer.
        """
        in_all = np.array(self.missing, dtype=np.int64)
        if not in_all.any():
            return in_all
        if 2 * (last - first).sum() < len(self):
            return self._count_missing(first, last)
        return in_all - self._count_missing(np.append(0, last), np.append(first, len(self)))

    def _count_missing(self, first: PerSeries, last: PerSeries) -> Int64[np.ndarray, " columns"]:
        count = np.zeros(len(self.index), dtype=np.int64)
        for rows in pieces_of(self, first, last):
            count += np.isnan(self[rows]).sum(axis=0)
        return count

    def remapped_for_random_access(self) -> Float[np.ndarray, "rows all_columns"]:
        """Another map of the file, for single windows: the system reads nothing ahead."""
        offset = self.file.stat().st_size - self.mapped.nbytes
        mapped = np.memmap(self.file, self.mapped.dtype, "r", offset, self.mapped.shape)
        if hasattr(mmap, "MADV_RANDOM"):
            mapped.base.madvise(mmap.MADV_RANDOM)  # type: ignore[union-attr]
        return np.asarray(mapped)

    @property
    def rows_at_once(self) -> int:
        """Rows of about `BYTES_AT_ONCE` bytes."""
        return max(1, BYTES_AT_ONCE // (self.mapped.itemsize * self.mapped.shape[1]))


Values = Float[np.ndarray, "_rows _columns"] | StoredValues


def indicators(
    values: Float[np.ndarray, "*some columns"], codes: Float[np.ndarray, " columns"]
) -> Float[np.ndarray, "*some columns"]:
    """1 where a column has its code, else 0; NaN where the row is missing."""
    return np.where(np.isnan(values), np.nan, values == codes)


def select_columns(values: Values, index: Sequence[int]) -> Values:
    """Some columns of values in memory, as a view where all are chosen in order, or on disk."""
    if list(index) == list(range(values.shape[1])):
        return values
    return values.select(index) if isinstance(values, StoredValues) else values[:, list(index)]


def pieces_of(values: Values, first: PerSeries, last: PerSeries) -> Iterator[Int64[np.ndarray, " rows"]]:
    """The numbers of the rows first[s] … last[s] − 1 of each series, some at a time: a copy of them is small."""
    return pieces(first, last, rows_at_once(values))


def rows_at_once(values: Values) -> int:
    """The number of rows of which a copy is small."""
    return values.rows_at_once if isinstance(values, StoredValues) else ROWS_AT_ONCE
