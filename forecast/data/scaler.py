"""Scale each column by numbers taken from the training rows: x → (x − center) / scale."""

import warnings
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler
from torch import Tensor

from forecast.errors import ConfigError

SCALERS = ("standard", "minmax", "robust", "none")


class Scaler:
    """An affine map per column; `center` and `scale` are float64 tensors of shape (columns,)."""

    def __init__(self, center: Float64[Tensor, " columns"], scale: Float64[Tensor, " columns"]) -> None:
        self.center = center
        self.scale = scale

    @classmethod
    def fit(cls, kind: str, values: Float[np.ndarray, "rows columns"], columns: Sequence[str]) -> "Scaler":
        """Take the numbers from `values`, the training rows.

        `standard`: mean and deviation; `minmax`: to [0, 1]; `robust`: median and interquartile range, the deviation
        where that is zero, as of demand that is mostly none; `none`: as is. A constant column is scaled by 1, with a
        warning. Raises ConfigError for another `kind`.
        """
        if kind == "none":
            center, scale = np.zeros(len(columns)), np.ones(len(columns))
        elif kind == "standard":
            fitted = StandardScaler().fit(values)
            center, scale = fitted.mean_, fitted.scale_
        elif kind == "minmax":
            fitted = MinMaxScaler().fit(values)
            center, scale = fitted.data_min_, 1 / fitted.scale_
        elif kind == "robust":
            fitted = RobustScaler().fit(values)
            low, high = np.percentile(values, (25, 75), axis=0)
            deviation = np.asarray(StandardScaler().fit(values).scale_)
            center, scale = fitted.center_, np.where(high > low, np.asarray(fitted.scale_), deviation)
        else:
            raise ConfigError(f"data.scaler={kind} is not one of {', '.join(SCALERS)}")
        if kind != "none":
            warn_constant(np.ptp(values, axis=0) == 0, columns)
        return cls(torch.tensor(center, dtype=torch.float64), torch.tensor(scale, dtype=torch.float64))

    @classmethod
    def fit_in_parts(
        cls, kind: str, parts: Iterable[Float[np.ndarray, "rows columns"]], columns: Sequence[str]
    ) -> "Scaler":
        """The same, for `standard` and `minmax`, from training rows too many to hold at a time.

        Means and deviations of parts are merged as Chan, Golub and LeVeque (1979) do.
        """
        count, mean, squares = 0, np.zeros(len(columns)), np.zeros(len(columns))
        lowest, highest = np.full(len(columns), np.inf), np.full(len(columns), -np.inf)
        for values in parts:
            rows, own = len(values), values.mean(0)
            around = values - own
            squares += np.einsum("rc,rc->c", around, around) + (own - mean) ** 2 * count * rows / (
                count + rows
            )
            mean += (own - mean) * rows / (count + rows)
            lowest, highest = np.minimum(lowest, values.min(0)), np.maximum(highest, values.max(0))
            count += rows
        still = lowest == highest
        warn_constant(still, columns)
        scale = np.sqrt(squares / count) if kind == "standard" else highest - lowest
        center = torch.from_numpy(mean if kind == "standard" else lowest)
        return cls(center, torch.from_numpy(np.where(still, 1.0, scale)))

    def transform(self, values: Float[Tensor, "*shape columns"]) -> Float64[Tensor, "*shape columns"]:
        """Data units to scaled, in float64."""
        return (values.double() - self.center.to(values.device)) / self.scale.to(values.device)

    def inverse(self, values: Float[Tensor, "*shape columns"]) -> Float64[Tensor, "*shape columns"]:
        """Scaled to data units, in float64: a large center would eat the digits of float32."""
        return values.double() * self.scale.to(values.device) + self.center.to(values.device)

    def select(self, index: Sequence[int]) -> "Scaler":
        """The scaler of some of the columns."""
        return Scaler(self.center[list(index)], self.scale[list(index)])

    def state_dict(self) -> dict[str, Tensor]:
        return {"center": self.center, "scale": self.scale}

    @classmethod
    def from_state_dict(cls, state: dict[str, Tensor]) -> "Scaler":
        return cls(state["center"], state["scale"])


def warn_constant(still: Bool[np.ndarray, " columns"], columns: Sequence[str]) -> None:
    constant = [name for name, is_still in zip(columns, still, strict=True) if is_still]
    if constant:
        warnings.warn(f"constant in the training rows, so scaled by 1: {', '.join(constant)}", stacklevel=3)
