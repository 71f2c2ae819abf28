"""Values of a panel that stay on disk."""

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

BYTES_AT_ONCE = 1 << 23
"""Bytes read at a time where all rows are read."""


@dataclass(frozen=True)
class StoredValues:
    """Columns of an array in a file; rows are read when they are indexed, as from a NumPy array.

    mapped: the memory-mapped array (rows, all columns); file: where it lies; index: the chosen columns; minimum,
    maximum and number of missing values (NaN) of each chosen column.
    """

    mapped: Float[np.ndarray, "rows all_columns"]
    file: Path
    index: tuple[int, ...]
    minimum: tuple[float, ...]
    maximum: tuple[float, ...]
    missing: tuple[int, ...]

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
        part = self.mapped[rows]
        return (part if self.has_all_columns else part[..., list(self.index)]).astype(np.float64)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All rows, in memory."""
        return self[:] if dtype is None else self[:].astype(dtype)

    @property
    def has_all_columns(self) -> bool:
        return self.index == tuple(range(self.mapped.shape[1]))

    def select(self, index: Sequence[int]) -> "StoredValues":
        """Some of the columns."""
        names = ("index", "minimum", "maximum", "missing")
        return replace(self, **{name: tuple(getattr(self, name)[i] for i in index) for name in names})

    def remapped_for_random_access(self) -> Float[np.ndarray, "rows all_columns"]:
        """Another map of the file, for single windows: the system reads nothing ahead."""
        offset = self.file.stat().st_size - self.mapped.nbytes
        mapped = np.memmap(self.file, self.mapped.dtype, "r", offset, self.mapped.shape)
        if hasattr(mmap, "MADV_RANDOM"):
            mapped.base.madvise(mmap.MADV_RANDOM)  # type: ignore[union-attr]
        return np.asarray(mapped)

    def stretches(self, rows: range) -> Iterator[range]:
        """These rows in ranges of about `BYTES_AT_ONCE` bytes."""
        step = max(1, BYTES_AT_ONCE // (self.mapped.itemsize * self.mapped.shape[1]))
        for first in range(rows.start, rows.stop, step):
            yield range(first, min(first + step, rows.stop))
