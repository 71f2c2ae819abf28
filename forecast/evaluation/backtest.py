"""Results of a backtest, and adaptive intervals.

Conformal intervals that follow drift: each offset is updated with the errors of earlier forecasts.

The offset q of probability τ begins at its value of the calibration. With each error e = truth − forecast that becomes
known, it moves by η · (τ − 1[e ≤ q]): down where the error lies at or below it, up where the error lies above. This is
online gradient descent on the pinball loss, the quantile tracker of Angelopoulos, Candès and Tibshirani 2023. Over T
updates, the share of errors at or below their offset differs from τ by |last − first offset| / (η · T), whatever the
errors are. No distribution is assumed, and drift is allowed.

The error of step h (0: the first) is known h + 1 rows after the origin of its forecast. The offsets of a forecast thus
use the errors of forecasts that began at least h + 1 rows earlier.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from forecast.data import Panel
from forecast.data.row_ranges import PerSeries
from forecast.data.scaler import Scaler
from forecast.evaluation.conformal import Calibration
from forecast.evaluation.errors import Errors, ErrorSums
from forecast.evaluation.intervals import IntervalSums, map_quantiles
from forecast.evaluation.levels import Level, bounds

ORIGINS_AT_ONCE = 4096
"""Number of forecasts whose errors are computed at once."""

PerOrigin = Int64[np.ndarray, " origins"]
Values = Float64[np.ndarray, "origins pred_len n_targets"]

RATE, MAX_RATE = 0.002, 0.1
"""Step size for each row between two forecasts, as a share of the width of the calibrated 80% interval; largest step.

Chosen on validation rows, see docs/intervals.md."""

SERIES_AT_ONCE = 256
"""Number of series whose intervals are adapted at once."""


@dataclass(frozen=True)
class Origins:
    """Origins of forecasts, ordered by series: the row of a panel that each forecast predicts first.

    Attributes:
        rows: row number of each origin.
        series: number of the series of each origin.
        positions: position in the grid of the date of each origin.
        stride: rows between two origins of a series.
    """

    rows: PerOrigin
    series: PerOrigin
    positions: PerOrigin
    stride: int

    @classmethod
    def between(cls, panel: Panel, first: PerSeries, stop: PerSeries, stride: int) -> "Origins":
        """Take every `stride`-th row of first[s] … stop[s] − 1 of each series s; none if stop[s] ≤ first[s]."""
        counts = -((first - stop).clip(max=0) // stride)
        series = np.repeat(np.arange(len(panel)), counts)
        number = np.arange(len(series)) - (counts.cumsum() - counts)[series]
        rows = first[series] + stride * number
        return cls(rows, series, rows - panel.starts[series] + panel.grid_starts[series], stride)

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, chosen: PerOrigin) -> "Origins":
        """Select origins by their numbers, which ascend."""
        return Origins(self.rows[chosen], self.series[chosen], self.positions[chosen], self.stride)

    def overlap(self, horizon: int) -> int:
        """The largest number of consecutive dates of origins whose forecasts of `horizon` steps share a step."""
        dates = np.unique(self.positions)
        return int((np.searchsorted(dates, dates + horizon) - np.arange(len(dates))).max())

    def first_rows(self, n_series: int) -> tuple[PerSeries, PerSeries]:
        """Row of the first origin and number of origins of each series; 0 and 0 for a series without origins."""
        counts = np.bincount(self.series, minlength=n_series)
        first = np.zeros_like(counts)
        first[counts > 0] = self.rows[(counts.cumsum() - counts)[counts > 0]]
        return first, counts


@dataclass
class Backtest:
    """Forecasts from every origin beside the truth, in original units.

    Attributes:
        title, attention: names of the data and of the attention type.
        columns: names of the targets.
        panel: the data.
        origins: where the forecasts begin.
        truth: true values of the forecast steps.
        forecasts: forecasts of the model and of each baseline, by name.
        intervals: running scores of the intervals by method, conformal, and perhaps adaptive and quantile.
        bounds: bounds of the model's intervals in original units, by names such as `conformal-lo-80`, see
            `name_bounds`; NaN where there is no forecast.
        scaler: of the scaled errors: that of the first model that forecast the series, NaN until then.
        naive_mae: denominator of MASE (series, n_targets), from the training rows of that model; NaN for a series
            without training rows.
        trainings: positions in the grid; each model was trained on all rows before one. Empty if the model came from a
            checkpoint.
        training_seconds: seconds of each training.
        notes: cautions on how to read the scores.
        seen: numbers of origins among the rows of `training` and of `validation` of the model of a checkpoint.
        is_untrained: whether every training kept only the linear model.
    """

    title: str
    attention: str
    columns: list[str]
    panel: Panel
    origins: Origins
    truth: Values
    forecasts: dict[str, Values]
    intervals: dict[str, IntervalSums]
    scaler: Scaler
    naive_mae: Float64[Tensor, "series n_targets"]
    bounds: dict[str, Values] = field(init=False)
    trainings: list[int] = field(default_factory=list)
    training_seconds: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)
    is_untrained: bool = False

    def __post_init__(self) -> None:
        names = [name for method, sums in self.intervals.items() for name in name_bounds(method, sums.levels)]
        self.bounds = {name: np.full(self.truth.shape, np.nan) for name in names}

    @property
    def n_series(self) -> int:
        """Number of series with at least one forecast."""
        return len(np.unique(self.origins.series))

    @property
    def dates(self) -> pd.DatetimeIndex:
        """The first date of each forecast."""
        return self.panel.dates(self.origins.rows)

    @property
    def zoned_dates(self) -> pd.DatetimeIndex:
        """`dates` in the time zone of the data."""
        return self.panel.utc_offset.zoned(self.dates)

    @property
    def training_dates(self) -> pd.DatetimeIndex:
        """The first date after the known rows, of each training."""
        return self.panel.grid[np.array(self.trainings, dtype=np.int64)]

    @property
    def known_until(self) -> pd.DatetimeIndex:
        """The last date of the known rows, of each training, in the time zone of the data."""
        return self.panel.utc_offset.zoned(self.panel.grid[np.array(self.trainings, dtype=np.int64) - 1])

    @property
    def latest_training(self) -> PerOrigin:
        """The number of the latest training before each origin."""
        return np.searchsorted(self.trainings, self.origins.positions, side="right") - 1

    @cached_property
    def errors(self) -> dict[str, Errors]:
        """Errors of the model and of each baseline, by name."""
        return {name: self._sum_errors(forecasts) for name, forecasts in self.forecasts.items()}

    def scaled_errors(self, name: str) -> Values:
        """Scaled errors, forecast − truth, of every value."""
        series = torch.from_numpy(self.origins.series)
        forecast, truth = (
            self.scaler.error_values(self.scaler.transform(torch.from_numpy(values), series), series)
            for values in (self.forecasts[name], self.truth)
        )
        return (forecast - truth).numpy()

    def add_intervals(
        self, method: str, chosen: PerOrigin, quantiles: Float[Tensor, "origins pred_len n_targets quantiles"]
    ) -> None:
        """Keep the bounds of the intervals of some origins, and add their scores; quantiles in original units."""
        sums, series = self.intervals[method], torch.from_numpy(self.origins.series[chosen])
        for name, probability in name_bounds(method, sums.levels).items():
            self.bounds[name][chosen] = quantiles[..., sums.at.index(probability)].numpy()
        to_scale = partial(self.scaler.transform, series=series)
        sums.update(
            map_quantiles(to_scale, quantiles), to_scale(torch.from_numpy(self.truth[chosen])), series
        )

    def _sum_errors(self, forecasts: Values) -> Errors:
        sums = ErrorSums(self.truth.shape[1], self.scaler, self.naive_mae)
        for part in torch.arange(len(self.origins)).split(ORIGINS_AT_ONCE):
            series = torch.from_numpy(self.origins.series[part.numpy()])
            forecast, truth = (
                self.scaler.transform(torch.from_numpy(values[part.numpy()]), series)
                for values in (forecasts, self.truth)
            )
            sums.update(forecast, truth, series)
        return sums.compute()


def name_bounds(method: str, levels: Sequence[Level]) -> dict[str, float]:
    """The probability of each bound of the intervals of a method, by its name, such as `conformal-lo-80`."""
    return {
        f"{method}-{side}-{level:g}": probability
        for level in levels
        for side, probability in zip(("lo", "hi"), bounds(level), strict=True)
    }


def adapt(
    calibration: Calibration, errors: Float[Tensor, "series origins steps n_targets"], stride: int
) -> Iterator[Float[Tensor, "series quantiles steps n_targets"]]:
    """Yield the offsets at each origin, in the order of time, and last those at the origin after them.

    Args:
        calibration: the offsets before the first update.
        errors: scaled errors, truth − forecast, of earlier forecasts; NaN where the truth is missing or not known.
        stride: rows between two origins of a series.
    """
    n_series, n_origins, n_steps, _ = errors.shape
    first = calibration.offsets.to(errors)
    spread = first[calibration.quantiles.index(0.9)] - first[calibration.quantiles.index(0.1)]
    rate = min(RATE * stride, MAX_RATE) * spread  # (steps, n_targets)
    probability = torch.tensor(calibration.quantiles).to(errors)[:, None, None]
    step = torch.arange(n_steps)
    delay = step // stride + 1  # origins until the error of each step is known
    offsets = first.expand(n_series, *first.shape).clone()
    for origin in range(n_origins + 1):
        known = origin - delay
        error = errors[:, known.clamp(min=0), step][:, None]  # (series, 1, steps, n_targets)
        moved = offsets + rate * (probability - (error <= offsets).to(errors))
        counts = (known >= 0)[:, None] & error.isfinite()
        offsets = torch.where(counts, moved, offsets)
        yield offsets.sort(dim=1).values  # updates can cross


def adaptive_quantiles(
    calibration: Calibration,
    origins: Origins,
    point: Float[Tensor, "origins pred_len n_targets"],
    truth: Float[Tensor, "origins pred_len n_targets"],
) -> Iterator[tuple[PerOrigin, Float[Tensor, "chosen pred_len n_targets quantiles"]]]:
    """Yield adaptive quantiles of past forecasts, whose offsets follow the errors of each series.

    Args:
        calibration: the offsets at the first origin.
        origins: of one series after the other, in the order of time.
        point, truth: scaled forecasts of these origins, and true values.

    Yields:
        Numbers of some of the origins, and their scaled quantiles.
    """
    n_series = int(origins.series.max()) + 1
    first, counts = origins.first_rows(n_series)
    number = (origins.rows - first[origins.series]) // origins.stride
    for part in np.array_split(np.flatnonzero(counts), -(-np.count_nonzero(counts) // SERIES_AT_ONCE)):
        place = np.full(n_series, -1)
        place[part] = np.arange(len(part))
        mine = np.flatnonzero(place[origins.series] >= 0)
        errors = torch.full((len(part), int(counts[part].max()), *point.shape[1:]), torch.nan)
        errors[place[origins.series[mine]], number[mine]] = (truth - point)[mine]
        adapted = adapt(calibration, errors, origins.stride)
        for origin, offsets in zip(range(errors.shape[1]), adapted, strict=False):
            here = mine[number[mine] == origin]
            own = offsets[place[origins.series[here]]]
            yield here, point[here][..., None] + own.permute(0, 2, 3, 1)
