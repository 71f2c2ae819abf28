"""Scaling of each series and column by statistics of its training rows: x → (x − center) / scale."""

import warnings
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Float32, Float64, Int64
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler
from torch import Tensor

from forecast.data.panel import PerSeries, parts, ranges
from forecast.data.stored_values import StoredValues
from forecast.system.errors import ConfigError, DataError

SCALERS = ("standard", "minmax", "robust", "none")
SCALE_BY = ("series", "all")

QUARTILE_ROWS = 1 << 20
"""Most training rows on disk that `robust` takes its quartiles from, evenly spaced."""

PerColumn = Float64[np.ndarray, " columns"]


class Scaler:
    """An affine map for each series and column; `center` and `scale` are float64 tensors (series, columns)."""

    def __init__(
        self, center: Float64[Tensor, "series columns"], scale: Float64[Tensor, "series columns"]
    ) -> None:
        self.center, self.scale = center, scale

    def __len__(self) -> int:
        return len(self.center)

    def transform(
        self, values: Float[Tensor, "*shape columns"], series: int
    ) -> Float64[Tensor, "*shape columns"]:
        """Values of one series, scaled, in float64."""
        return (values.double() - self.center[series].to(values.device)) / self.scale[series].to(
            values.device
        )

    def transform_panel(
        self, values: Float[np.ndarray, "rows columns"], starts: PerSeries, stops: PerSeries
    ) -> Float32[Tensor, "rows columns"]:
        """All rows of a panel in memory, scaled."""
        scaled = torch.empty(values.shape, dtype=torch.float32)
        center, scale, lengths = self.center.numpy(), self.scale.numpy(), stops - starts
        for part in parts(lengths):
            rows = slice(starts[part][0], stops[part][-1])
            series = np.repeat(np.arange(part.start, part.stop), lengths[part])
            scaled[rows] = torch.from_numpy((values[rows] - center[series]) / scale[series])
        return scaled

    def inverse(
        self, values: Float[Tensor, "batch steps columns"], series: Int64[Tensor, " batch"]
    ) -> Float64[Tensor, "batch steps columns"]:
        """Scaled windows of these series in the units of the data, in float64: float32 would lose digits."""
        series = series.to(self.scale.device)
        scale, center = (part[series][:, None].to(values.device) for part in (self.scale, self.center))
        return values.double() * scale + center

    def select_columns(self, index: Sequence[int]) -> "Scaler":
        """The scaler of some of the columns."""
        return Scaler(self.center[:, list(index)], self.scale[:, list(index)])

    def state_dict(self) -> dict[str, Tensor]:
        return {"center": self.center, "scale": self.scale}

    @classmethod
    def from_state_dict(cls, state: dict[str, Tensor]) -> "Scaler":
        return cls(state["center"], state["scale"])


def fit_scaler(
    kind: str,
    by: str,
    values: Float[np.ndarray, "rows columns"] | StoredValues,
    columns: Sequence[str],
    first: PerSeries,
    last: PerSeries,
    others: Float64[Tensor, "others columns"] | None = None,
) -> Scaler:
    """A scaler fitted to the rows first[s] … last[s] − 1 of each series. Missing values (NaN) do not count.

    Args:
        kind: `standard` (mean and standard deviation), `minmax` (to [0, 1]), `robust` (median and interquartile range,
            or the standard deviation where that range is zero, as for demand that is mostly zero) or `none`.
        by: `series`, each series by its own rows; `all`, every series by the rows of all.
        values: the columns to scale, of all rows of a panel.
        others: scales of other series, for columns that are constant.

    A column that is constant in one of several series is scaled by the median scale of the other series: scaled by 1,
    its first change could be thousands of standard deviations. A column that is constant in all rows is scaled by 1.
    Both warn. Each series has at least one value of each column there.

    Raises:
        ConfigError: another `kind`.
        DataError: a column without a value in these rows.
    """
    if kind not in SCALERS:
        raise ConfigError(f"data.scaler={kind} is not one of {', '.join(SCALERS)}")
    shape = len(first), len(columns)
    if kind == "none" or not columns:
        return Scaler(torch.zeros(shape, dtype=torch.float64), torch.ones(shape, dtype=torch.float64))
    if isinstance(values, StoredValues):
        center, scale = _fit_stored(kind, values, range(int(first[0]), int(last[0])), columns)
    elif by == "all" or (len(first) == 1 and others is None):
        center, scale = _fit_rows(kind, values[ranges(first, last)], columns)
    else:
        return _fit_each(kind, values, first, last, columns, others)
    each = np.tile(center, (len(first), 1)), np.tile(scale, (len(first), 1))
    return Scaler(*(torch.tensor(part, dtype=torch.float64) for part in each))


def _fit_rows(
    kind: str, values: Float[np.ndarray, "rows columns"], columns: Sequence[str]
) -> tuple[PerColumn, PerColumn]:
    """Center and scale of each column from all of these rows."""
    empty = np.isnan(values).all(axis=0)
    if empty.any():
        raise DataError(
            f"no value of {columns[int(empty.argmax())]} in the training rows: leave the column out (data.drop), or "
            "give another data.split"
        )
    fitted = {"standard": StandardScaler, "minmax": MinMaxScaler, "robust": RobustScaler}[kind]().fit(values)
    if kind == "standard":
        center, scale = fitted.mean_, fitted.scale_
    elif kind == "minmax":
        center, scale = fitted.data_min_, 1 / fitted.scale_
    else:
        low, high = np.nanpercentile(values, (25, 75), axis=0)
        deviation = np.asarray(StandardScaler().fit(values).scale_)
        center, scale = fitted.center_, np.where(high > low, np.asarray(fitted.scale_), deviation)
    _warn_of_constant_columns(np.nanmin(values, axis=0) == np.nanmax(values, axis=0), columns)
    return np.asarray(center, dtype=np.float64), np.asarray(scale, dtype=np.float64)


def _fit_stored(
    kind: str, values: StoredValues, rows: range, columns: Sequence[str]
) -> tuple[PerColumn, PerColumn]:
    """Center and scale of each column from rows on disk, a part in memory at a time.

    Means and variances of parts are merged as in Chan, Golub and LeVeque (1979).
    """
    if kind == "robust":
        return _fit_rows(kind, values[rows.start : rows.stop : -(-len(rows) // QUARTILE_ROWS)], columns)
    count, mean, squares = (np.zeros(len(columns)) for _ in range(3))
    lowest, highest = np.full(len(columns), np.inf), np.full(len(columns), -np.inf)
    for some in values.stretches(rows):
        part = values[some.start : some.stop]
        if np.isinf(part).any() or (np.isnan(part) & (np.array(values.missing) == 0)).any():
            raise DataError(
                f"{values.file.parent}: a number is not finite: the store is damaged; convert again"
            )
        size = np.isfinite(part).sum(0)
        part_mean = np.nansum(part, axis=0) / np.maximum(size, 1)
        centred = np.nan_to_num(part - part_mean)
        total = np.maximum(count + size, 1)
        squares += np.einsum("rc,rc->c", centred, centred)
        squares += (part_mean - mean) ** 2 * count * size / total
        mean += (part_mean - mean) * size / total
        lowest = np.fmin(lowest, np.fmin.reduce(part, axis=0))
        highest = np.fmax(highest, np.fmax.reduce(part, axis=0))
        count += size
    constant = lowest == highest
    _warn_of_constant_columns(constant, columns)
    scale = np.sqrt(squares / count) if kind == "standard" else highest - lowest
    return mean if kind == "standard" else lowest, np.where(constant, 1.0, scale)


def _fit_each(
    kind: str,
    values: Float[np.ndarray, "rows columns"],
    first: PerSeries,
    last: PerSeries,
    columns: Sequence[str],
    others: Float64[Tensor, "others columns"] | None,
) -> Scaler:
    """Center and scale of each series from its own rows."""
    center, scale = np.empty((len(first), len(columns))), np.empty((len(first), len(columns)))
    for part in parts(last - first):
        rows = values[ranges(first[part], last[part])].astype(np.float64)
        center[part], scale[part] = _series_statistics(kind, rows, (last - first)[part])
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
    return Scaler(torch.from_numpy(center), torch.from_numpy(np.where(constant, medians, scale)))


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
            # the variance that rounding alone can give a constant column, as in scikit-learn
            rounding = each * np.finfo(np.float64).eps
            scale = np.where(
                variance <= rounding * variance + (rounding * center) ** 2, 0.0, np.sqrt(variance)
            )
    return np.nan_to_num(center), np.nan_to_num(np.where(lowest == highest, 0.0, scale))


def _warn_of_constant_columns(constant: np.ndarray, columns: Sequence[str]) -> None:
    names = [name for name, is_constant in zip(columns, constant, strict=True) if is_constant]
    if names:
        warnings.warn(f"constant in the training rows, so scaled by 1: {', '.join(names)}", stacklevel=4)
