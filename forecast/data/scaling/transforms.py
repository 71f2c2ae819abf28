"""Monotone transforms of columns, before scaling: how they are fitted, applied and inverted.

    log1p   log(1 + x), for counts and other values above −1
    boxcox  (x^λ − 1) / λ, for positive values (Box and Cox 1964); λ of the largest likelihood
    asinh   asinh((x − m) / s), for skewed values of both signs, such as prices; m is the median, and s the median
            absolute deviation, scaled to a standard deviation (Uniejewski, Weron and Ziel 2018)

An increasing function maps the quantiles of x to the quantiles of f(x), so that intervals are inverted exactly. The
mean is not mapped to the mean: the inverse of a forecast of the mean of f(x) is closer to the median of x.
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from forecast.data.scaling.domain import ASINH, BOXCOX, LOG1P, TRANSFORMS

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
