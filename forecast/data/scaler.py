"""The map from original units to scaled units, and back: x → (f(x) − center) / scale; monotone transforms f."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Float64, Int64
from torch import Tensor

from forecast.data.domain import ASINH, BOXCOX, LOG1P, NONE, TRANSFORMS, Domain
from forecast.data.row_ranges import PerSeries, series_slices

POWERS = np.arange(1, 21) / 20
"""The values of λ that are compared: 0.05, close to the logarithm, to 1. With λ > 0, zero is mapped to a number."""

NORMAL_DEVIATION = 0.6744897501960817
"""Median absolute deviation of the standard normal distribution."""

SAMPLED_ROWS = 1 << 16
"""Most rows that the parameters of one series are fitted to, evenly spaced."""


def fit(kind: str, values: Float[np.ndarray, " rows"]) -> tuple[float, float]:
    """Location and shape of a transform: m and s of `asinh`, 0 and λ of `boxcox`. Missing values (NaN) do not count."""
    values = values[np.isfinite(values)].astype(np.float64)
    if kind not in (BOXCOX, ASINH) or not len(values) or values.min() == values.max():
        return 0.0, 1.0
    if kind == ASINH:
        median = float(np.median(values))
        deviation = float(np.median(np.abs(values - median))) / NORMAL_DEVIATION
        return median, deviation or float(values.std())
    log = np.log(values)
    log -= log.mean()  # over the geometric mean, the likelihood is largest where the variance is smallest
    variances = [float((np.expm1(power * log) / power).var()) for power in POWERS]
    return 0.0, float(POWERS[int(np.argmin(variances))])


def apply(
    values: Float64[Tensor, "... columns"],
    kinds: Sequence[str],
    location: Float64[Tensor, "... columns"],
    shape: Float64[Tensor, "... columns"],
) -> Float64[Tensor, "... columns"]:
    """Transform columns. Values outside the range of a transform get the value at its end."""
    for kind, columns in _columns(values, kinds):
        if kind == LOG1P:
            found = values.clamp(min=-1 + torch.finfo(values.dtype).eps).log1p()
        elif kind == BOXCOX:
            found = torch.expm1(shape * values.clamp(min=0).log()) / shape
        else:
            found = _asinh((values - location) / shape)
        values = torch.where(columns, found, values)
    return values


def invert(
    values: Float64[Tensor, "... columns"],
    kinds: Sequence[str],
    location: Float64[Tensor, "... columns"],
    shape: Float64[Tensor, "... columns"],
) -> Float64[Tensor, "... columns"]:
    """The inverse of `apply`."""
    for kind, columns in _columns(values, kinds):
        if kind == LOG1P:
            found = values.expm1()
        elif kind == BOXCOX:
            found = torch.exp((shape * values).clamp(min=-1).log1p() / shape)
        else:
            found = _sinh(values) * shape + location
        values = torch.where(columns, found, values)
    return values


def _columns(values: Tensor, kinds: Sequence[str]) -> list[tuple[str, Tensor]]:
    """Each transform that is used, and a mask of its columns."""
    used = [kind for kind in TRANSFORMS[1:] if kind in kinds]
    return [(kind, torch.tensor([kind == one for one in kinds], device=values.device)) for kind in used]


def _asinh(values: Tensor) -> Tensor:
    """asinh from functions that ONNX Runtime has in float64."""
    size = values.abs()
    return values.sign() * torch.log1p(size + size.square() / (1 + (size.square() + 1).sqrt()))


def _sinh(values: Tensor) -> Tensor:
    """sinh from functions that ONNX Runtime has in float64."""
    return (values.expm1() - (-values).expm1()) / 2


Series = int | Int64[Tensor, " batch"] | None
"""One series, the series of each window, or None where window i is of series i or there is one series."""


class Scaler:
    """The map from original units to scaled units, and back, of each series and column.

    Args:
        center, scale: (series, columns), float64; a scaled value is (f(x) − center) / scale.
        domain: the transform f of each column, and the bounds of its forecasts; None: neither.
        location, shape: parameters of the transforms (series, columns), see `forecast.data.scaler.fit`.
        error_unit: unit of scaled errors in original units (series, columns); None: `scale`. It differs from `scale`
            for transformed columns, where it is the scale of x, and after a refit, where it is that of the tested
            model.
    """

    def __init__(
        self,
        center: Float[Tensor, "series columns"],
        scale: Float[Tensor, "series columns"],
        domain: Domain | None = None,
        location: Float64[Tensor, "series columns"] | None = None,
        shape: Float64[Tensor, "series columns"] | None = None,
        error_unit: Float64[Tensor, "series columns"] | None = None,
    ) -> None:
        self.center, self.scale = center.double(), scale.double()
        self.domain = Domain.unlimited(center.shape[-1]) if domain is None else domain
        self.location = torch.zeros_like(self.center) if location is None else location
        self.shape = torch.ones_like(self.scale) if shape is None else shape
        self.error_unit = self.scale.clone() if error_unit is None else error_unit

    def __len__(self) -> int:
        return len(self.center)

    @property
    def tensors(self) -> tuple[Float64[Tensor, "series columns"], ...]:
        """`center`, `scale`, `location`, `shape` and `error_unit`."""
        return self.center, self.scale, self.location, self.shape, self.error_unit

    @property
    def error_unit_is_scale(self) -> bool:
        """Whether scaled errors are differences of scaled values."""
        return not self.domain.has_transforms and torch.equal(self.error_unit, self.scale)

    def transform(
        self, values: Float[Tensor, "*shape columns"], series: Series
    ) -> Float64[Tensor, "*shape columns"]:
        """Scale values of one series, or windows (batch, steps, columns) of these series; in float64."""
        return self._scale(values.double(), *self._of(series, values.device))

    def transform_panel(
        self, values: Float[np.ndarray, "rows columns"], starts: PerSeries, stops: PerSeries
    ) -> Float32[Tensor, "rows columns"]:
        """All rows of a panel in memory, scaled."""
        scaled = torch.empty(values.shape, dtype=torch.float32)
        lengths = stops - starts
        for some in series_slices(lengths):
            rows = slice(starts[some][0], stops[some][-1])
            series = np.repeat(np.arange(some.start, some.stop), lengths[some])
            center, scale = self.center.numpy()[series], self.scale.numpy()[series]
            scaled[rows] = torch.from_numpy((self.apply_transforms(values[rows], series) - center) / scale)
        return scaled

    def apply_transforms(
        self, values: Float[np.ndarray, "rows columns"], series: Int64[np.ndarray, " rows"]
    ) -> Float[np.ndarray, "rows columns"]:
        """f(x) of rows of these series; the values themselves where there is no transform."""
        if not self.domain.has_transforms:
            return values
        location, shape = (tensor[torch.from_numpy(series)] for tensor in (self.location, self.shape))
        return apply(
            torch.tensor(values, dtype=torch.float64), self.domain.transforms, location, shape
        ).numpy()

    def inverse(
        self, values: Float[Tensor, "*shape columns"], series: Series
    ) -> Float64[Tensor, "*shape columns"]:
        """Scaled values in original units, in float64: float32 would lose digits.

        Values outside the bounds become the nearest bound.
        """
        center, scale, *parameters, _ = self._of(series, values.device)
        values = values.double() * scale + center
        if self.domain.has_transforms:
            values = invert(values, self.domain.transforms, *parameters)
        if self.domain.has_bounds:
            values = values.clamp(*self._bounds(values.device))
        return values

    def at(self, scaled: float) -> Float64[np.ndarray, "series columns"]:
        """The value in original units of a scaled value, in each series and column."""
        return self.inverse(torch.full_like(self.center[:, None], scaled), None)[:, 0].numpy()

    def error_values(
        self, values: Float[Tensor, "batch steps columns ..."], series: Series
    ) -> Float[Tensor, "batch steps columns ..."]:
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

    def clip(
        self, values: Float[Tensor, "batch steps columns ..."], series: Series
    ) -> Float[Tensor, "batch steps columns ..."]:
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
        zero = torch.zeros_like(center)
        if not self.domain.has_transforms:
            return of_scale * scale + of_center * center.abs()
        kinds = self.domain.transforms
        next_to_it = apply(zero, kinds, *parameters) + of_scale * scale + of_center * center.abs()
        return invert(next_to_it, kinds, *parameters)

    def _scale(
        self,
        values: Tensor,
        center: Tensor,
        scale: Tensor,
        location: Tensor,
        shape: Tensor,
        error_unit: Tensor,
    ) -> Tensor:
        if self.domain.has_transforms:
            values = apply(values, self.domain.transforms, location, shape)
        return (values - center) / scale

    def _bounds(
        self, device: torch.device
    ) -> tuple[Float64[Tensor, " columns"], Float64[Tensor, " columns"]]:
        lower, upper = (
            torch.tensor(each, dtype=torch.float64, device=device)
            for each in (self.domain.lower, self.domain.upper)
        )
        return lower, upper

    def _of(self, series: Series, device: torch.device) -> tuple[Float64[Tensor, "..."], ...]:
        """`tensors` of one series (columns), or of windows (batch, 1, columns)."""
        if isinstance(series, int):
            return tuple(tensor[series].to(device) for tensor in self.tensors)
        if series is None:
            return tuple(tensor[:, None].to(device) for tensor in self.tensors)
        series = series.to(self.center.device)
        return tuple(tensor[series][:, None].to(device) for tensor in self.tensors)

    def of_series(self, some: slice) -> "Scaler":
        """The scaler of some of the series."""
        center, scale, *parameters = (tensor[some] for tensor in self.tensors)
        return Scaler(center, scale, self.domain, *parameters)

    def select_columns(self, index: Sequence[int]) -> "Scaler":
        """The scaler of some of the columns."""
        center, scale, *parameters = (tensor[:, list(index)] for tensor in self.tensors)
        return Scaler(center, scale, self.domain.select_columns(index), *parameters)

    def to(self, device: torch.device | str) -> "Scaler":
        """The scaler on another device."""
        center, scale, *parameters = (tensor.to(device) for tensor in self.tensors)
        return Scaler(center, scale, self.domain, *parameters)

    def copy_scales(
        self,
        other: "Scaler",
        *,
        series: Int64[Tensor, " some"],
        source: Int64[Tensor, " some"],
        columns: Sequence[int] | None = None,
    ) -> None:
        """Scale series as another scaler does, in place.

        Args:
            other: the scaler whose parameters are copied.
            series: numbers of the series here that change.
            source: the number in `other` of each of these series.
            columns: the columns here that `other` has; None: all.
        """
        chosen = list(range(self.center.shape[1]) if columns is None else columns)
        cells = series[:, None], torch.tensor(chosen, dtype=torch.int64)
        for mine, theirs in zip(self.tensors, other.tensors, strict=True):
            mine[cells] = theirs[source]

    def copy_error_units(self, other: "Scaler", where: Bool[np.ndarray, " series"]) -> None:
        """Measure the errors of the series where `where` is true in the units of another scaler, in place."""
        some = torch.from_numpy(where)
        self.error_unit[some] = other.error_unit[some]

    def state_dict(self) -> dict[str, Any]:
        names = ("center", "scale", "location", "shape", "error_unit")
        return {**dict(zip(names, self.tensors, strict=True)), **vars(self.domain)}

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> "Scaler":
        domain = Domain(*(tuple(state[name]) for name in ("transforms", "lower", "upper")))
        center, scale, *parameters = (
            state[n] for n in ("center", "scale", "location", "shape", "error_unit")
        )
        return cls(center, scale, domain, *parameters)
