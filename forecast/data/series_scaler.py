"""Scale each series by numbers taken from its own training rows: x → (x − center) / scale."""

import warnings

import numpy as np
import torch
from jaxtyping import Float, Float32, Float64, Int64
from torch import Tensor

from forecast.data.panel import PerSeries, parts, segments
from forecast.data.scaler import Scaler
from forecast.errors import ConfigError

BY = ("series", "all")


class SeriesScaler:
    """An affine map per series and column; `center` and `scale` are float64 tensors of shape (series, columns)."""

    def __init__(
        self, center: Float64[Tensor, "series columns"], scale: Float64[Tensor, "series columns"]
    ) -> None:
        self.center, self.scale = center, scale

    @classmethod
    def fit(
        cls,
        kind: str,
        by: str,
        values: Float[np.ndarray, "rows columns"],
        first: PerSeries,
        last: PerSeries,
        columns: tuple[str, ...],
        others: Float64[Tensor, "others columns"] | None = None,
    ) -> "SeriesScaler":
        """Take the numbers from the rows first[s] … last[s] − 1 of each series, at least one.

        `by`: series, each alone; all, every series by the same numbers. `kind` as in `Scaler.fit`. A column that is
        constant in a series is scaled there by the median of the others' scales (1 where it is constant in all), with a
        warning that says in how many: by 1, its first change could be thousands of deviations. `others` are scales of
        series that are not among these.
        """
        shape = len(first), len(columns)
        if kind == "none" or not columns:
            return cls(torch.zeros(shape, dtype=torch.float64), torch.ones(shape, dtype=torch.float64))
        if by == "all":
            one = Scaler.fit(kind, values[segments(first, last)], columns)
            return cls(one.center.repeat(len(first), 1), one.scale.repeat(len(first), 1))
        center, scale = np.empty(shape), np.empty(shape)
        for part in parts(last - first):
            lengths = (last - first)[part]
            rows = values[segments(first[part], last[part])].astype(np.float64)
            center[part], scale[part] = _fit(kind, rows, lengths)
        still = scale == 0
        known = scale if others is None else np.concatenate([scale, others.numpy()])
        scale = np.where(
            still, [np.median(one[one > 0]) if (one > 0).any() else 1.0 for one in known.T], scale
        )
        if still.any():
            told = ", ".join(
                f"{name} in {count:,}"
                for name, count in zip(columns, still.sum(0).tolist(), strict=True)
                if count
            )
            warnings.warn(
                f"constant in the training rows, so scaled as other series are: {told} of {len(first):,} series",
                stacklevel=2,
            )
        return cls(torch.from_numpy(center), torch.from_numpy(scale))

    def transform(
        self, values: Float[np.ndarray, "rows columns"], starts: PerSeries, stops: PerSeries
    ) -> Float32[Tensor, "rows columns"]:
        """A whole table, of which series s has the rows starts[s] … stops[s] − 1, one series after the other."""
        scaled = torch.empty(values.shape, dtype=torch.float32)
        center, scale, lengths = self.center.numpy(), self.scale.numpy(), stops - starts
        for part in parts(lengths):
            rows = slice(starts[part][0], stops[part][-1])
            of = np.repeat(np.arange(part.start, part.stop), lengths[part])
            scaled[rows] = torch.from_numpy((values[rows] - center[of]) / scale[of])
        return scaled

    def inverse(
        self, values: Float[Tensor, "batch steps columns"], series: Int64[Tensor, " batch"]
    ) -> Float64[Tensor, "batch steps columns"]:
        """Scaled windows of these series in the data's own units, in float64."""
        scale, center = (part.to(values.device)[series][:, None] for part in (self.scale, self.center))
        return values.double() * scale + center

    def select(self, index: list[int]) -> "SeriesScaler":
        """The scaler of some of the columns."""
        return SeriesScaler(self.center[:, index], self.scale[:, index])

    def state_dict(self) -> dict[str, Tensor]:
        return {"center": self.center, "scale": self.scale}

    @classmethod
    def from_state_dict(cls, state: dict[str, Tensor]) -> "SeriesScaler":
        return cls(state["center"], state["scale"])


def of_one_table(scaler: Scaler | SeriesScaler) -> Scaler:
    """The scaler of a model of one table. Raises ConfigError for one of many series."""
    if isinstance(scaler, SeriesScaler):
        raise ConfigError("this works on one table, and the model was trained on many series (data=long)")
    return scaler


def _fit(
    kind: str, rows: Float64[np.ndarray, "rows columns"], lengths: PerSeries
) -> tuple[Float64[np.ndarray, "series columns"], Float64[np.ndarray, "series columns"]]:
    """Center and scale of each series, the scale 0 where a column is constant."""
    starts, each = lengths.cumsum() - lengths, lengths[:, None]
    lowest, highest = np.minimum.reduceat(rows, starts), np.maximum.reduceat(rows, starts)
    if kind == "minmax":
        center, scale = lowest, highest - lowest
    elif kind == "robust":
        series = np.split(rows, starts[1:])
        low, center, high = np.stack([np.percentile(one, (25, 50, 75), axis=0) for one in series], axis=1)
        deviations = np.stack([one.std(axis=0) for one in series])
        scale = np.where(high > low, high - low, deviations)
    else:
        with np.errstate(over="ignore"):  # numbers too large are refused once scaled
            center = np.add.reduceat(rows, starts) / each
            variance = np.add.reduceat((rows - np.repeat(center, lengths, axis=0)) ** 2, starts) / each
            # what rounding alone can make of a constant, as scikit-learn has it
            rounding = each * np.finfo(np.float64).eps
            scale = np.where(
                variance <= rounding * variance + (rounding * center) ** 2, 0.0, np.sqrt(variance)
            )
    return center, np.where(lowest == highest, 0.0, scale)
