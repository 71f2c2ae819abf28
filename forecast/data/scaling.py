"""The scaler of each series and column, from statistics of its training rows."""

import warnings
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from forecast.data import transforms
from forecast.data.domain import Domain
from forecast.data.row_ranges import PerSeries, ranges, series_slices
from forecast.data.scaler import Scaler
from forecast.data.stored_values import StoredValues, Values, pieces_of
from forecast.system.errors import ConfigError, DataError

SCALERS = ("standard", "minmax", "robust", "none")
SCALE_BY = ("series", "all")

QUARTILE_ROWS = 1 << 20
"""Most training rows on disk that `robust` takes its quartiles from, evenly spaced."""

PerColumn = Float64[np.ndarray, " columns"]


def fit_scaler(
    values: Values,
    columns: Sequence[str],
    first: PerSeries,
    last: PerSeries,
    *,
    kind: str,
    by: str = "series",
    others: Float64[Tensor, "others columns"] | None = None,
    domain: Domain | None = None,
) -> Scaler:
    """A scaler fitted to the rows first[s] … last[s] − 1 of each series. Missing values (NaN) do not count.

    Args:
        values: the columns to scale, of all rows of a panel.
        columns: their names, for messages.
        first, last: row numbers, see above.
        kind: `standard` (mean and standard deviation), `minmax` (to [0, 1]), `robust` (median and interquartile range,
            or the standard deviation where that range is zero, as for demand that is mostly zero) or `none`.
        by: `series`, each series by its own rows; `all`, every series by the rows of all.
        others: scales of other series, for columns that are constant.
        domain: the transform of each column, whose parameters are fitted to the same rows; None: no transforms.

    A column that is constant in one of several series is scaled by the median scale of the other series: scaled by 1,
    its first change could be thousands of standard deviations. A column that is constant in all rows is scaled by 1.
    Both warn. Each series has at least one value of each column there.

    Raises:
        ConfigError: another `kind`.
        DataError: a column without a value in these rows.
    """
    if kind not in SCALERS:
        raise ConfigError(f"data.scaler={kind} is not one of {', '.join(SCALERS)}")
    found = _fit_transforms(by, values, first, last, domain or Domain.unlimited(len(columns)))
    if kind == "none" or not columns:
        return found
    if isinstance(values, StoredValues):
        center, scale = _fit_stored(kind, values, first, last, columns, found)
    elif by == "all" or (len(first) == 1 and others is None):
        series = np.repeat(np.arange(len(first)), last - first)
        center, scale = _fit_rows(kind, found.apply_transforms(values[ranges(first, last)], series), columns)
    else:
        center, scale = _fit_each(kind, values, first, last, columns, others, found)
    found.center[:], found.scale[:] = torch.from_numpy(center), torch.from_numpy(scale)
    return found


def _fit_transforms(
    by: str,
    values: Values,
    first: PerSeries,
    last: PerSeries,
    domain: Domain,
) -> Scaler:
    """A scaler of center 0 and scale 1, with the transforms fitted to the rows first[s] … last[s] − 1."""
    zeros = torch.zeros(len(first), len(domain.transforms), dtype=torch.float64)
    found = Scaler(zeros, zeros + 1, domain)
    if not set(domain.transforms) & {transforms.BOXCOX, transforms.ASINH}:
        return found
    for s in range(1 if by == "all" else len(first)):
        rows = ranges(first, last) if by == "all" else np.arange(first[s], last[s])
        sample = values[rows[:: len(rows) // transforms.SAMPLED_ROWS + 1]]
        fitted = [transforms.fit(kind, sample[:, i]) for i, kind in enumerate(domain.transforms)]
        own = slice(None) if by == "all" else s
        found.location[own], found.shape[own] = torch.tensor(fitted, dtype=torch.float64).T
    return found


def _fit_rows(
    kind: str, values: Float[np.ndarray, "rows columns"], columns: Sequence[str]
) -> tuple[PerColumn, PerColumn]:
    """Center and scale of each column from all of these rows.

    For one long series this is several times faster than `_series_statistics`.
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
    constant = (lowest == highest) | (scale == 0)
    _warn_of_constant_columns(constant, columns)
    return center, np.where(constant, 1.0, scale)


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


def _fit_stored(
    kind: str,
    values: StoredValues,
    first: PerSeries,
    last: PerSeries,
    columns: Sequence[str],
    transformed: Scaler,
) -> tuple[PerColumn, PerColumn]:
    """Center and scale of each column from rows on disk, of which a block is in memory at a time."""
    if kind == "robust":
        sample = values[int(first[0]) : int(last[0]) : -(-int(last[0] - first[0]) // QUARTILE_ROWS)]
        return _fit_rows(kind, transformed.apply_transforms(sample, np.zeros(len(sample), int)), columns)
    found = _RunningStatistics(len(columns))
    for rows in pieces_of(values, first, last):
        block = values[rows]
        if np.isinf(block).any() or (np.isnan(block) & (np.array(values.missing) == 0)).any():
            raise DataError(
                f"{values.file.parent}: a number is not finite: the store is damaged or of another version: convert "
                "again"
            )
        found.add(transformed.apply_transforms(block, np.zeros(len(block), int)))
    _refuse_empty(found.count == 0, columns)
    constant = found.lowest == found.highest
    _warn_of_constant_columns(constant, columns)
    if kind == "standard":
        center, scale = found.mean, np.sqrt(found.squares / found.count)
    else:
        center, scale = found.lowest, found.highest - found.lowest
    return center, np.where(constant, 1.0, scale)


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


def _fit_each(
    kind: str,
    values: Float[np.ndarray, "rows columns"],
    first: PerSeries,
    last: PerSeries,
    columns: Sequence[str],
    others: Float64[Tensor, "others columns"] | None,
    transformed: Scaler,
) -> tuple[Float64[np.ndarray, "series columns"], Float64[np.ndarray, "series columns"]]:
    """Center and scale of each series from its own rows."""
    center, scale = np.empty((len(first), len(columns))), np.empty((len(first), len(columns)))
    for some in series_slices(last - first):
        series = np.repeat(np.arange(len(first))[some], (last - first)[some])
        rows = transformed.apply_transforms(values[ranges(first[some], last[some])], series).astype(
            np.float64
        )
        center[some], scale[some] = _series_statistics(kind, rows, (last - first)[some])
    constant = scale == 0
    known = scale if others is None else np.concatenate([scale, others.numpy()])
    medians = [np.median(one[one > 0]) if (one > 0).any() else 1.0 for one in known.T]
    if constant.any():
        counts = zip(columns, constant.sum(0).tolist(), strict=True)
        listed = ", ".join(f"{name} in {count:,}" for name, count in counts if count)
        warnings.warn(
            f"constant in the training rows, so scaled by the median scale of the other series: {listed} of "
            f"{len(first):,} series",
            stacklevel=2,
        )
    return center, np.where(constant, medians, scale)


def _series_statistics(
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


def _warn_of_constant_columns(constant: np.ndarray, columns: Sequence[str]) -> None:
    names = [name for name, is_constant in zip(columns, constant, strict=True) if is_constant]
    if names:
        warnings.warn(f"constant in the training rows, so scaled by 1: {', '.join(names)}", stacklevel=4)
