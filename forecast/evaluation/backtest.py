"""The result of a backtest: forecasts from many origins of each series, and their errors."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from forecast.data import Panel
from forecast.data.panel import PerSeries
from forecast.evaluation.errors import Errors, ErrorSums
from forecast.evaluation.intervals import IntervalSums

ORIGINS_AT_ONCE = 4096
"""Forecasts whose errors are computed at a time."""

PerOrigin = Int64[np.ndarray, " origins"]
Values = Float64[np.ndarray, "origins pred_len n_targets"]


@dataclass(frozen=True)
class Origins:
    """Rows of a panel that are forecast first, series after series; those of a series are `stride` rows apart.

    Attributes:
        rows: row numbers.
        series: the series that each row belongs to.
        positions: position in the grid of the date of each row.
        stride: rows between two origins of a series.
    """

    rows: PerOrigin
    series: PerOrigin
    positions: PerOrigin
    stride: int

    @classmethod
    def between(cls, panel: Panel, first: PerSeries, stop: PerSeries, stride: int) -> "Origins":
        """Every `stride`-th row of first[s] … stop[s] − 1 of each series s; none where stop[s] ≤ first[s]."""
        counts = -((first - stop).clip(max=0) // stride)
        series = np.repeat(np.arange(len(panel)), counts)
        number = np.arange(len(series)) - (counts.cumsum() - counts)[series]
        rows = first[series] + stride * number
        return cls(rows, series, rows - panel.starts[series] + panel.grid_starts[series], stride)

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, chosen: PerOrigin) -> "Origins":
        """Some of the origins, in ascending order."""
        return Origins(self.rows[chosen], self.series[chosen], self.positions[chosen], self.stride)

    def first_rows(self, n_series: int) -> tuple[PerSeries, PerSeries]:
        """The first origin of each series and how many it has; 0 and 0 for a series without one."""
        counts = np.bincount(self.series, minlength=n_series)
        first = np.zeros_like(counts)
        first[counts > 0] = self.rows[(counts.cumsum() - counts)[counts > 0]]
        return first, counts


@dataclass
class Backtest:
    """Forecasts from every origin beside the truth, in the units of the data.

    Attributes:
        title, attention: names of the data and of the attention type.
        columns: the targets.
        panel: the rows that were forecast.
        origins: where the forecasts begin.
        truth: the values that were forecast.
        forecasts: of the model and of each baseline.
        intervals: running scores of the intervals. Its `scale` (series, n_targets) divides all scaled errors; it is
            the scale of the first model that forecast the series, and NaN before.
        naive_mae: denominator of MASE (series, n_targets), from the same training rows; NaN for a series without any.
        trainings: positions in the grid; a model was trained on all rows before each. Empty for a checkpoint's model.
        notes: cautions on how to read the scores.
    """

    title: str
    attention: str
    columns: list[str]
    panel: Panel
    origins: Origins
    truth: Values
    forecasts: dict[str, Values]
    intervals: IntervalSums
    naive_mae: Float64[Tensor, "series n_targets"]
    trainings: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def n_series(self) -> int:
        """Series that were forecast."""
        return len(np.unique(self.origins.series))

    @property
    def dates(self) -> pd.DatetimeIndex:
        """The first date of each forecast."""
        return self.panel.dates(self.origins.rows)

    @property
    def training_dates(self) -> pd.DatetimeIndex:
        """The date before which all rows were known, of each training."""
        return self.panel.grid[np.array(self.trainings, dtype=np.int64)]

    @property
    def known_until(self) -> pd.DatetimeIndex:
        """The last date that was known at each training."""
        return self.panel.grid[np.array(self.trainings, dtype=np.int64) - 1]

    @property
    def latest_training(self) -> PerOrigin:
        """The number of the training before each origin."""
        return np.searchsorted(self.trainings, self.origins.positions, side="right") - 1

    @cached_property
    def errors(self) -> dict[str, Errors]:
        """Errors of the model and of each baseline, averaged as those of a test are."""
        return {name: self._sum_errors(forecasts) for name, forecasts in self.forecasts.items()}

    def scaled_errors(self, name: str) -> Values:
        """Forecast − truth of every value, scaled."""
        return (self.forecasts[name] - self.truth) / self.intervals.scale.numpy()[self.origins.series][
            :, None
        ]

    def _sum_errors(self, forecasts: Values) -> Errors:
        scale = self.intervals.scale
        sums = ErrorSums(self.truth.shape[1], torch.zeros_like(scale), scale, self.naive_mae)
        for part in torch.arange(len(self.origins)).split(ORIGINS_AT_ONCE):
            series = torch.from_numpy(self.origins.series[part.numpy()])
            values = (torch.from_numpy(each[part.numpy()]) for each in (forecasts, self.truth))
            forecast, truth = (each / scale[series][:, None] for each in values)
            sums.update(forecast, truth, series)
        return sums.compute()
