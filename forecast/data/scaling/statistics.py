"""Center and scale of columns, from statistics of rows in memory or on disk. A constant column has the scale 0."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64

from forecast.data.row_ranges import PerSeries, RowRanges
from forecast.data.scaling.scaler import Scaler
from forecast.data.stored_values import StoredValues, pieces_of
from forecast.system.errors import DataError

QUARTILE_ROWS = 1 << 20
"""Most training rows on disk that `robust` takes its quartiles from, evenly spaced."""

PerColumn = Float64[np.ndarray, " columns"]


def center_and_scale(
    kind: str, values: Float[np.ndarray, "rows columns"], columns: Sequence[str]
) -> tuple[PerColumn, PerColumn]:
    """Center and scale of each column from all of these rows; the scale is 0 where a column is constant.

    For one long series this is several times faster than `center_and_scale_by_series`.
    """
    _refuse_empty(np.asarray(np.isnan(values).all(axis=0)), columns)
    values = values.astype(np.float64)
    lowest, highest = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    if kind == "minmax":
        center, scale = lowest, highest - lowest
    elif kind == "robust":
        low, center, high = np.nanpercentile(values, (25, 50, 75), axis=0)
        scale = np.where(high > low, high - low, np.nanstd(values, axis=0))
    else:
        with np.errstate(over="ignore"):  # numbers that are too large are refused once they are scaled
            center, variance = np.nanmean(values, axis=0), np.nanvar(values, axis=0)
            scale = _standard_deviation(center, variance, np.isfinite(values).sum(0))
    return center, np.where(lowest == highest, 0.0, scale)


def center_and_scale_by_series(
    kind: str, rows: Float64[np.ndarray, "rows columns"], lengths: PerSeries
) -> tuple[Float64[np.ndarray, "series columns"], Float64[np.ndarray, "series columns"]]:
    """Center and scale of each series; the scale is 0 where a column is constant."""
    starts = lengths.cumsum() - lengths
    each = np.maximum(np.add.reduceat(np.isfinite(rows), starts, axis=0, dtype=np.int64), 1)
    lowest, highest = np.fmin.reduceat(rows, starts), np.fmax.reduceat(rows, starts)
    if kind == "minmax":
        center, scale = lowest, highest - lowest
    elif kind == "robust":
        series = np.split(rows, starts[1:])
        low, center, high = np.stack([np.nanpercentile(one, (25, 50, 75), axis=0) for one in series], axis=1)
        deviations = np.stack([np.nanstd(one, axis=0) for one in series])
        scale = np.where(high > low, high - low, deviations)
    else:
        with np.errstate(over="ignore"):  # numbers that are too large are refused once they are scaled
            center = np.add.reduceat(np.nan_to_num(rows), starts) / each
            squares = np.nan_to_num((rows - np.repeat(center, lengths, axis=0)) ** 2)
            variance = np.add.reduceat(squares, starts) / each
            scale = _standard_deviation(center, variance, each)
    return np.nan_to_num(center), np.nan_to_num(np.where(lowest == highest, 0.0, scale))


def center_and_scale_on_disk(
    kind: str, values: StoredValues, rows: RowRanges, columns: Sequence[str], transformed: Scaler
) -> tuple[PerColumn, PerColumn]:
    """Center and scale of each column from rows of some series on disk, of which a block is in memory at a time.

    The scale is 0 where a column is constant. `transformed` has the transforms of these series.
    """
    if kind == "robust":
        every = -(-int((rows.stop - rows.first).sum()) // QUARTILE_ROWS)
        sample = np.concatenate([block[::every] for block in pieces_of(values, *rows)])
        return center_and_scale(
            kind, transformed.apply_transforms(values[sample], rows.series_of(sample)), columns
        )
    found = _RunningStatistics(len(columns))
    for numbers in pieces_of(values, *rows):
        block = values[numbers]
        refuse_damaged(values, block)
        found.add(transformed.apply_transforms(block, rows.series_of(numbers)))
    _refuse_empty(found.count == 0, columns)
    if kind == "standard":
        center, scale = found.mean, np.sqrt(found.squares / found.count)
    else:
        center, scale = found.lowest, found.highest - found.lowest
    return center, np.where(found.lowest == found.highest, 0.0, scale)


class _RunningStatistics:
    """Statistics of columns whose rows come in blocks. Missing values (NaN) do not count.

    Means and variances of blocks are merged as in Chan, Golub and LeVeque (1979).
    """

    def __init__(self, n_columns: int) -> None:
        self.count, self.mean, self.squares = (np.zeros(n_columns) for _ in range(3))
        self.lowest, self.highest = np.full(n_columns, np.inf), np.full(n_columns, -np.inf)

    def add(self, block: Float[np.ndarray, "rows columns"]) -> None:
        size = np.isfinite(block).sum(0)
        mean = np.nansum(block, axis=0) / np.maximum(size, 1)
        centred = np.nan_to_num(block - mean)
        total = np.maximum(self.count + size, 1)
        self.squares += np.einsum("rc,rc->c", centred, centred)
        self.squares += (mean - self.mean) ** 2 * self.count * size / total
        self.mean += (mean - self.mean) * size / total
        self.lowest = np.fmin(self.lowest, np.fmin.reduce(block, axis=0))
        self.highest = np.fmax(self.highest, np.fmax.reduce(block, axis=0))
        self.count += size


def refuse_damaged(values: StoredValues, block: Float[np.ndarray, "rows columns"]) -> None:
    """Raise DataError for rows of a store with a number that its description excludes."""
    if np.isinf(block).any() or (np.isnan(block) & (np.array(values.missing) == 0)).any():
        raise DataError(
            f"{values.file.parent}: a number is not finite: the store is damaged or of another version: convert "
            "again"
        )


def _refuse_empty(empty: Bool[np.ndarray, " columns"], columns: Sequence[str]) -> None:
    """Raise DataError for the first of the columns that are empty in the training rows."""
    if empty.any():
        raise DataError(
            f"no value of {columns[int(empty.argmax())]} in the training rows: leave the column out, or "
            "give another data.split"
        )


def _standard_deviation(
    mean: Float64[np.ndarray, "*shape"],
    variance: Float64[np.ndarray, "*shape"],
    count: Int64[np.ndarray, "*shape"],
) -> Float64[np.ndarray, "*shape"]:
    """The root of a variance; 0 for one that rounding alone can give a constant column, as in scikit-learn."""
    rounding = count * np.finfo(np.float64).eps
    return np.where(variance <= rounding * variance + (rounding * mean) ** 2, 0.0, np.sqrt(variance))
