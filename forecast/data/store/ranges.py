"""Statistics of the columns of a file that is read in chunks."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float64

ROUNDED = 1e-4
"""Largest rounding error of float32, as a fraction of the column's standard deviation."""


@dataclass
class Ranges:
    """Statistics of each column so far; missing values do not count, except in `rows` and `missing`.

    count, mean, squares: number of values and their moments (Chan, Golub and LeVeque 1979); lost: largest rounding
    error of float32.
    """

    rows: int = 0
    missing: list[int] = field(default_factory=list)
    mean: list[float] = field(default_factory=list)
    squares: list[float] = field(default_factory=list)
    minimum: list[float] = field(default_factory=list)
    maximum: list[float] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> "Ranges":
        """Return the statistics from JSON, in which NaN, the range of a column without values, is null."""
        known = {
            name: [math.nan if number is None else number for number in saved[name]]
            for name in ("minimum", "maximum")
        }
        return cls(**{**saved, **known})

    def add(self, values: Float64[np.ndarray, "rows columns"]) -> "Ranges":
        """Return the statistics with more rows included."""
        rows, measured = len(values), np.isfinite(values)
        size, missing = measured.sum(0), (~measured).sum(0)
        mean = np.where(measured, values, 0).sum(0) / np.maximum(size, 1)
        squares = np.square(np.where(measured, values - mean, 0)).sum(0)
        lowest, highest = np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)
        with np.errstate(over="ignore"):
            lost = np.where(measured, np.abs(values - values.astype(np.float32)), 0).max(0)
        if self.rows > 0:
            before = self.rows - np.array(self.missing)
            total, step = np.maximum(before + size, 1), mean - self.mean
            squares = self.squares + squares + step**2 * before * size / total
            mean = self.mean + step * size / total
            lowest, highest = np.fmin(self.minimum, lowest), np.fmax(self.maximum, highest)
            lost, missing = np.maximum(self.lost, lost), self.missing + missing
        numbers = (mean, squares, lowest, highest, lost)
        return Ranges(self.rows + rows, missing.tolist(), *(part.tolist() for part in numbers))

    def without(self, rows: int, missing: list[int]) -> "Ranges":
        """Return the statistics without some rows that have no number; `missing` are their missing values."""
        left = [mine - other for mine, other in zip(self.missing, missing, strict=True)]
        return replace(self, rows=self.rows - rows, missing=left)

    def fit_float32(self) -> bool:
        """Return whether float32 is exact enough for every column. Constant columns are not counted."""
        count = np.maximum(self.rows - np.array(self.missing), 1)
        standard_deviation = np.sqrt(np.array(self.squares) / count)
        largest = np.nanmax(np.abs([*self.minimum, *self.maximum, 0.0]))
        holds = largest <= np.finfo(np.float32).max
        return bool(holds and (self.lost <= ROUNDED * standard_deviation)[standard_deviation > 0].all())
