"""The map from original units to scaled units, and back: x → (f(x) − center) / scale; and its fit."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float32, Float64, Int64
from torch import Tensor

from forecast.data.row_ranges import PerSeries, RowRanges, RunningStatistics, Values, pieces_of, ranges
from forecast.data.source import ASINH, LOG1P, NONE, SCALERS, Domain
from forecast.system.errors import DataError, check_choice

NORMAL_DEVIATION = 0.6744897501960817  # median absolute deviation of the standard normal distribution
SAMPLED_ROWS = 1 << 16  # most rows that the parameters of one series are fitted to, evenly spaced

QUARTILE_ROWS = 1 << 20  # most training rows of a series that `robust` takes its quartiles from, evenly spaced


def fit(kind: str, values: Float[np.ndarray, " rows"]) -> tuple[float, float]:
    """Location and shape of a transform: m and s of `asinh`, else 0 and 1. Missing values (NaN) do not count."""
    values = values[np.isfinite(values)].astype(np.float64)
    if kind != ASINH or not len(values) or values.min() == values.max():
        return 0.0, 1.0
    median = float(np.median(values))
    deviation = float(np.median(np.abs(values - median))) / NORMAL_DEVIATION
    return median, deviation or float(values.std())


Columns = Float64[Tensor, "... columns"]


def apply(
    values: Columns, kinds: Sequence[str], location: Columns, shape: Columns, *, inverse: bool = False
) -> Columns:
    """Transform columns, or with `inverse` transformed ones back; those outside its range from the end of it."""
    for kind, functions in _FUNCTIONS.items():
        if kind in kinds:
            columns = torch.tensor([kind == one for one in kinds], device=values.device)
            values = torch.where(columns, functions[inverse](values, location, shape), values)
    return values


# asinh and sinh from functions that ONNX Runtime has in float64
def _asinh(values: Tensor) -> Tensor:
    size = values.abs()
    return values.sign() * torch.log1p(size + size.square() / (1 + (size.square() + 1).sqrt()))


def _sinh(values: Tensor) -> Tensor:
    return (values.expm1() - (-values).expm1()) / 2


_ABOVE_MINUS_1 = -1 + torch.finfo(torch.float64).eps
_FUNCTIONS: dict[str, tuple[Callable[[Tensor, Tensor, Tensor], Tensor], ...]] = {
    LOG1P: (lambda x, *_: x.clamp(min=_ABOVE_MINUS_1).log1p(), lambda y, *_: y.expm1()),
    ASINH: (
        lambda x, location, shape: _asinh((x - location) / shape),
        lambda y, location, shape: _sinh(y) * shape + location,
    ),
}
"""Of each transform, the function and its inverse, of values, location and shape."""

PARAMETERS = ("center", "scale", "location", "shape", "error_unit")
"""The tensors of a scaler, in the order of `Scaler.tensors`."""

Series = int | Int64[Tensor, " batch"] | None
"""One series, the series of each window, or None where window i is of series i or there is one series."""

Some = Int64[Tensor, " some"]  # numbers of some series

Parameter = Float[Tensor, "series columns"]
Shaped = Float[Tensor, "*shape columns"]
Forecasts = Float[Tensor, "batch steps columns ..."]
Block = Float[np.ndarray, "rows columns"]
Groups = Float64[np.ndarray, "groups columns"]


class Scaler:
    """The map from original units to scaled units, and back, of each series and column.

    Args:
        center, scale: (series, columns), float64; a scaled value is (f(x) − center) / scale.
        domain: the transform f of each column, and the bounds of its forecasts; None: neither.
        location, shape: parameters of the transforms (series, columns), see `fit`.
        error_unit: unit of scaled errors in original units (series, columns); None: `scale`. It differs from `scale`
            for transformed columns, where it is the scale of x, and after a refit, where it is that of the tested
            model.
    """

    def __init__(
        self,
        center: Parameter,
        scale: Parameter,
        domain: Domain | None = None,
        location: Parameter | None = None,
        shape: Parameter | None = None,
        error_unit: Parameter | None = None,
    ) -> None:
        self.center, self.scale = center.double(), scale.double()
        self.domain = Domain.unlimited(center.shape[-1]) if domain is None else domain
        self.location = torch.zeros_like(self.center) if location is None else location
        self.shape = torch.ones_like(self.scale) if shape is None else shape
        self.error_unit = self.scale.clone() if error_unit is None else error_unit

    def __len__(self) -> int:
        return len(self.center)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self.center, self.scale, self.location, self.shape, self.error_unit

    @property
    def error_unit_is_scale(self) -> bool:
        """Whether scaled errors are differences of scaled values."""
        return not self.domain.has_transforms and torch.equal(self.error_unit, self.scale)

    def transform(self, values: Shaped, series: Series) -> Float64[Tensor, "*shape columns"]:
        """Scale values of one series, or windows (batch, steps, columns) of these series; in float64."""
        return self._scale(values.double(), *self._of(series, values.device))

    def transform_panel(self, values: Block, starts: PerSeries, stops: PerSeries) -> Float32[Tensor, "rows columns"]:
        """All rows of a panel in memory, scaled."""
        scaled = torch.empty(values.shape, dtype=torch.float32)
        for rows in pieces_of(values, starts, stops):
            series, part = RowRanges(starts, stops).series_of(rows), slice(rows[0], rows[-1] + 1)
            center, scale = self.center.numpy()[series], self.scale.numpy()[series]
            scaled[part] = torch.from_numpy((self.apply_transforms(values[part], series) - center) / scale)
        return scaled

    def apply_transforms(self, values: Block, series: Int64[np.ndarray, " rows"]) -> Block:
        """f(x) of rows of these series; the values themselves where there is no transform."""
        if not self.domain.has_transforms:
            return values
        parameters = (tensor[torch.from_numpy(series)] for tensor in (self.location, self.shape))
        return apply(torch.tensor(values, dtype=torch.float64), self.domain.transforms, *parameters).numpy()

    def inverse(self, values: Shaped, series: Series) -> Float64[Tensor, "*shape columns"]:
        """Scaled values in original units, in float64: float32 would lose digits.

        Values outside the bounds become the nearest bound.
        """
        center, scale, *parameters, _ = self._of(series, values.device)
        values = apply(values.double() * scale + center, self.domain.transforms, *parameters, inverse=True)
        if self.domain.has_bounds:
            values = values.clamp(*self._bounds(values.device))
        return values

    def unscale(self, scaled: float) -> Float64[np.ndarray, "series columns"]:
        return self.inverse(torch.full_like(self.center[:, None], scaled), None)[:, 0].numpy()

    def error_values(self, values: Forecasts, series: Series) -> Forecasts:
        """Scaled values, or their quantiles, whose differences are scaled errors.

        They are (x − x₀) / `error_unit`, x₀ the value that is scaled to 0: the values themselves in a column without a
        transform whose unit is its scale.
        """
        if self.error_unit_is_scale:
            return values
        if values.ndim == 4:
            return torch.stack([self.error_values(each, series) for each in values.unbind(-1)], dim=-1)
        is_transformed = torch.tensor([kind != NONE for kind in self.domain.transforms])
        _, scale, *_, unit = self._of(series, values.device)
        linear = values.double() * (scale / unit)
        if not is_transformed.any():
            return linear
        shifted = self.inverse(values, series) - self.inverse(torch.zeros_like(values[:, :1]), series)
        return torch.where(is_transformed.to(values.device), shifted / unit, linear)

    def clip(self, values: Forecasts, series: Series) -> Forecasts:
        """Scaled forecasts, or their quantiles; those outside the bounds are at the nearest bound."""
        if not self.domain.has_bounds:
            return values
        values = values.to(torch.promote_types(values.dtype, torch.float32))
        scale = self._of(series, values.device)
        low, high = (
            torch.where(bound.isinf(), bound, self._scale(bound, *scale)).to(values.dtype)
            for bound in self._bounds(values.device)
        )
        return values.clamp(low, high) if values.ndim == 3 else values.clamp(low[..., None], high[..., None])

    def resolution(
        self, series: Int64[Tensor, " batch"], of_scale: float, of_center: float
    ) -> Float64[Tensor, "batch 1 columns"]:
        """Return the value whose scaled distance from zero is `of_scale` · scale + `of_center` · |center|."""
        center, scale, *parameters, _ = self._of(series, self.center.device)
        kinds = self.domain.transforms
        next_to_it = apply(torch.zeros_like(center), kinds, *parameters) + of_scale * scale + of_center * center.abs()
        return apply(next_to_it, kinds, *parameters, inverse=True)

    def _scale(self, values: Tensor, center: Tensor, scale: Tensor, *parameters: Tensor) -> Tensor:
        return (apply(values, self.domain.transforms, *parameters[:2]) - center) / scale

    def _bounds(self, device: torch.device) -> list[Float64[Tensor, " columns"]]:
        both = self.domain.lower, self.domain.upper
        return [torch.tensor(each, dtype=torch.float64, device=device) for each in both]

    def _of(self, series: Series, device: torch.device) -> tuple[Float64[Tensor, "..."], ...]:
        """`tensors` of one series (columns), or of windows (batch, 1, columns)."""
        if isinstance(series, int):
            return tuple(tensor[series].to(device) for tensor in self.tensors)
        chosen = slice(None) if series is None else series.to(self.center.device)
        return tuple(tensor[chosen][:, None].to(device) for tensor in self.tensors)

    def _map(self, change: Callable[[Tensor], Tensor], domain: Domain) -> "Scaler":
        center, scale, *parameters = map(change, self.tensors)
        return Scaler(center, scale, domain, *parameters)

    def select_columns(self, index: Sequence[int]) -> "Scaler":
        return self._map(lambda tensor: tensor[:, list(index)], self.domain.select_columns(index))

    def to(self, device: torch.device | str) -> "Scaler":
        return self._map(lambda tensor: tensor.to(device), self.domain)

    def copy_scales(self, other: "Scaler", *, series: Some, source: Some, columns: Sequence[int] | None = None) -> None:
        """Scale `series` as another scaler scales its series `source`, in place; it has `columns`, None: all."""
        chosen = list(range(self.center.shape[1]) if columns is None else columns)
        cells = series[:, None], torch.tensor(chosen, dtype=torch.int64)
        for mine, theirs in zip(self.tensors, other.tensors, strict=True):
            mine[cells] = theirs[source]

    def state_dict(self) -> dict[str, Any]:
        return {**dict(zip(PARAMETERS, self.tensors, strict=True)), **vars(self.domain)}

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> "Scaler":
        domain = Domain(*(tuple(state[name]) for name in ("transforms", "lower", "upper")))
        center, scale, *parameters = (state[name] for name in PARAMETERS)
        return cls(center, scale, domain, *parameters)


def fit_scaler(
    values: Values,
    columns: Sequence[str],
    first: PerSeries,
    last: PerSeries,
    *,
    kind: str,
    by: str = "series",
    others: Scaler | None = None,
    domain: Domain | None = None,
) -> Scaler:
    """A scaler fitted to the rows first[s] … last[s] − 1 of each series. Missing values (NaN) do not count.

    Args:
        values, columns: the columns to scale, of all rows of a panel, and their names.
        kind: `standard` (mean and standard deviation), `minmax` (to [0, 1]), `robust` (median and interquartile range,
            or the standard deviation where that range is zero, as for demand that is mostly zero) or `none`.
        by: `series`, each series by its own rows; `all`, every series by the rows of all.
        others: scaler of other series, for columns that are constant.
        domain: the transform of each column, whose parameters are fitted to the same rows; None: no transforms.

    A column that is constant in one of several series is scaled by the median scale of the other series: scaled by 1,
    its first change could be thousands of standard deviations. A column that is constant in all rows is scaled by 1.
    Both warn. Each series has at least one value of each column there.

    Raises ConfigError for another `kind`, and DataError for a column without a value in these rows.
    """
    check_choice("data.scaler", kind, SCALERS)
    found = _fit_transforms(by, values, first, last, domain or Domain.unlimited(len(columns)))
    if kind == "none" or not columns:
        return found
    center, scale = _center_and_scale(kind, values, RowRanges(first, last), found, by == "all")
    is_alone, is_constant = by == "all" or (len(first) == 1 and others is None), scale == 0
    if is_alone and np.isnan(center).any():
        empty = f"no value of {columns[int(np.isnan(center[0]).argmax())]} in the training rows"
        raise DataError(f"{empty}: leave the column out, or give another data.split")
    known = scale if others is None else np.concatenate([scale, others.scale.numpy()])
    medians = [np.median(one[one > 0]) if (one > 0).any() and not is_alone else 1.0 for one in known.T]
    if is_constant.any():
        counts = [(name, n) for name, n in zip(columns, is_constant.sum(0).tolist(), strict=True) if n]
        how = "by 1: " + ", ".join(name for name, _ in counts)
        if not is_alone:
            listed = ", ".join(f"{name} in {n:,}" for name, n in counts)
            how = f"by the median scale of the other series: {listed} of {len(first):,} series"
        warnings.warn(f"constant in the training rows, so scaled {how}", stacklevel=2)
    found.center[:] = torch.from_numpy(np.nan_to_num(center))
    found.scale[:] = torch.from_numpy(np.where(is_constant, medians, scale))
    found.error_unit[:] = found.scale
    if found.domain.has_transforms:
        with warnings.catch_warnings(action="ignore"):  # the fit above gave them
            untransformed = None if others is None else Scaler(others.center, others.error_unit)
            plain = fit_scaler(values, columns, first, last, kind=kind, by=by, others=untransformed)
        found.error_unit[:] = plain.scale
    return found


def _center_and_scale(
    kind: str, values: Values, rows: RowRanges, transformed: Scaler, together: bool
) -> tuple[Groups, Groups]:
    """Center and scale of each series from its rows, or of all series together.

    The center is NaN where a column has no value, and the scale is 0 there and where a column is constant.
    """
    if kind == "robust":
        return _quartiles(values, rows, transformed, together)
    found = RunningStatistics(values.shape[1], 1 if together else len(rows.first))
    for numbers in pieces_of(values, *rows):
        block, series = values[numbers], rows.series_of(numbers)
        found.add(transformed.apply_transforms(block, series), None if together else series)
    if kind == "minmax":
        center, scale = found.lowest, found.highest - found.lowest
    else:
        center, count = found.mean, np.maximum(found.count, 1)
        variance, rounding = found.squares / count, count * np.finfo(np.float64).eps
        with np.errstate(over="ignore"):  # numbers that are too large are refused once they are scaled
            # rounding alone can give a constant column a variance, as in scikit-learn
            is_rounding = variance <= rounding * variance + (rounding * center) ** 2
        scale = np.where(is_rounding, 0.0, np.sqrt(variance))
    scale = np.where(found.lowest < found.highest, scale, 0.0)
    return np.where(found.count == 0, np.nan, center), scale


def _quartiles(values: Values, rows: RowRanges, transformed: Scaler, together: bool) -> tuple[Groups, Groups]:
    """`_center_and_scale` of the kind `robust`, from at most `QUARTILE_ROWS` rows of each group, evenly spaced."""
    groups = [slice(None)] if together else [slice(s, s + 1) for s in range(len(rows.first))]
    centers, scales = [], []
    for group in groups:
        numbers = ranges(rows.first[group], rows.stop[group])
        numbers = numbers[:: -(-len(numbers) // QUARTILE_ROWS)]
        block = transformed.apply_transforms(values[numbers], rows.series_of(numbers))
        with warnings.catch_warnings(action="ignore"):  # of a column without values
            low, center, high = np.nanpercentile(block, (25, 50, 75), axis=0)
            varies = np.nanmin(block, axis=0) < np.nanmax(block, axis=0)
            deviation = np.where(varies, np.nanstd(block, axis=0), 0.0)
        centers.append(center)
        scales.append(np.where(high > low, high - low, deviation))
    return np.array(centers), np.array(scales)


def _fit_transforms(by: str, values: Values, first: PerSeries, last: PerSeries, domain: Domain) -> Scaler:
    """A scaler of center 0 and scale 1, with the transforms fitted to the rows first[s] … last[s] − 1."""
    zeros = torch.zeros(len(first), len(domain.transforms), dtype=torch.float64)
    found = Scaler(zeros, zeros + 1, domain)
    if ASINH not in domain.transforms:
        return found
    for s in range(1 if by == "all" else len(first)):
        rows = ranges(first, last) if by == "all" else np.arange(first[s], last[s])
        sample = values[rows[:: len(rows) // SAMPLED_ROWS + 1]]
        fitted = [fit(kind, sample[:, i]) for i, kind in enumerate(domain.transforms)]
        own = slice(None) if by == "all" else s
        found.location[own], found.shape[own] = torch.tensor(fitted, dtype=torch.float64).T
    return found
