"""Errors and intervals of a model and of the baselines: of a split, a batch of windows at a time, and of a backtest."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from forecast.data import Batch, DataModule, Panel
from forecast.data.row_ranges import PerSeries
from forecast.data.scaler import Scaler
from forecast.evaluation.baselines import Baseline, FittedBaselines
from forecast.evaluation.conformal import Calibration, window_stride
from forecast.evaluation.errors import Errors, ErrorSums, window_errors
from forecast.evaluation.intervals import (
    IntervalSums,
    make_interval_sums,
    map_quantiles,
    name_coverage,
    tabulate_coverage,
)
from forecast.evaluation.scores import CONFORMAL, DECILES, LABELS, MODEL, SCALED_SCORES, Level, bounds
from forecast.models.layers import sum_over_processes

Points = Float[Tensor, "batch pred_len n_targets"]

BATCH = 256  # windows that are scored at once
MAX_SCORED = 1 << 24  # quantiles that are scored at once: 64 MiB of float32, a few times over

PerOrigin = Int64[np.ndarray, " origins"]
Values = Float64[np.ndarray, "origins pred_len n_targets"]


@dataclasses.dataclass(frozen=True)
class Results:
    """Scores of the model and of the baselines on one split.

    Those of a window are sums of errors, divided by the mean number of measured values of a window, see
    `errors.window_errors`. The columns of coverage are those of `intervals.name_coverage`.
    """

    errors: dict[str, Errors]  # of the model (first) and of each baseline
    windows: dict[str, Tensor]  # by forecaster (n_windows, scores), in the order of `SCALED_SCORES`
    intervals: dict[str, dict[str, Any]]  # by method, from `IntervalSums.compute`
    coverage_by_step: dict[str, Float64[np.ndarray, " pred_len"]]
    coverage_by_variable: dict[str, Float64[np.ndarray, " n_targets"]]
    coverage_by_window: dict[str, Float64[np.ndarray, " n_windows"]]  # NaN without true values
    baselines: dict[str, Baseline]

    @cached_property
    def scores(self) -> dict[str, dict[str, float]]:
        """Average scores of the model (first) and of each baseline, by name."""
        return {name: errors.scores() for name, errors in self.errors.items()}

    @property
    def best_baseline(self) -> str:
        """The baseline with the lowest MSE."""
        return min(LABELS, key=lambda name: self.scores[name]["mse"])

    @property
    def skill(self) -> float:
        """1 − MSE / MSE of the best baseline; NaN if the best baseline makes no error."""
        mse, best = self.scores[MODEL]["mse"], self.scores[self.best_baseline]["mse"]
        return 1 - mse / best if best > 0 else math.nan

    def content(self) -> dict[str, Any]:
        """The results in the layout of metrics.json."""
        return {
            "test": self.scores[MODEL],
            "baselines": {name: scores for name, scores in self.scores.items() if name != MODEL},
            "skill": self.skill,
            "intervals": self.intervals,
            "best_baseline": self.best_baseline,
        }


class SplitScorer:
    """The scores of the model and of the baselines on the windows of `data.tested_split`.

    The quantiles of the model are trained (`loss=quantile`), or its calibration puts them around its point forecast.
    Those of a baseline, which only its CRPS reads, come from its calibration.

    `probabilities`: those of the quantiles in the forecasts of the model; None without any.
    """

    def __init__(
        self,
        data: DataModule,
        fitted: FittedBaselines,
        calibrations: Mapping[str, Calibration],
        probabilities: tuple[float, ...] | None,
        levels: Sequence[Level],
        device: torch.device,
    ) -> None:
        self.data, self.device, self.baselines = data, sums_device(device), fitted.baselines()
        scaler, n_windows = data.target_scaler.to(self.device), data.n_windows[data.tested_split]
        self._calibrations = {name: calibrations[name].deciles() for name in self.baselines}
        self._calibrations[MODEL] = calibrations[MODEL]
        self._sums = {name: new_sums(fitted, data, device) for name in (MODEL, *self.baselines)}
        self._windows = {name: torch.zeros(n_windows, len(SCALED_SCORES)).double() for name in self._sums}
        self._intervals = {
            name: {CONFORMAL: IntervalSums(DECILES, (), scaler, data.pred_len).to(self.device)}
            for name in self.baselines
        }
        of_model = make_interval_sums(calibrations[MODEL], probabilities, levels, scaler, data.pred_len)
        self._intervals[MODEL] = {method: sums.to(self.device) for method, sums in of_model.items()}
        self._covered = {method: torch.zeros(len(sums.levels), n_windows).double() for method, sums in of_model.items()}

    def update(self, point: Points, forecast: Float[Tensor, "batch pred_len n_targets ..."], batch: Batch) -> None:
        predictions = forecast_baselines(self.baselines, self.data, self.data.tested_split, batch)
        for name, prediction in {MODEL: point, **predictions}.items():
            crps = self._score_intervals(name, prediction, forecast, batch)
            self._sums[name].update(prediction, batch.future, batch.series, crps)
            self._windows[name][batch.index.cpu()] = window_errors(
                prediction, batch.future, self.data.target_scaler, batch.series, crps
            )

    def _score_intervals(self, name: str, point: Points, forecast: Tensor, batch: Batch) -> Tensor:
        """Add the intervals of a forecaster, and return the CRPS of each value, of trained quantiles if it has any."""
        calibration, found = self._calibrations[name], []
        at_once = max(1, MAX_SCORED // (point.shape[1:].numel() * len(calibration.quantiles)))
        parts = (each.split(at_once) for each in (point, forecast, batch.future, batch.series, batch.index))
        for points, trained, future, series, index in zip(*parts, strict=True):
            around = self.data.target_scaler.clip(calibration.around(points.float()), series)
            updates = {
                method: sums.update(around if method == CONFORMAL else trained, future, series)
                for method, sums in self._intervals[name].items()
            }
            if name == MODEL:
                for method, (_, covered) in updates.items():
                    self._covered[method][:, index.cpu()] = covered.cpu()
            found.append([*updates.values()][-1][0])  # the trained quantiles come last
        return torch.cat(found)

    def compute(self) -> Results:
        """The results over the batches of all processes. Every process must call this."""
        errors = {name: sums.compute() for name, sums in self._sums.items()}
        observed, intervals = errors[MODEL].observed_fraction, self._intervals[MODEL]
        windows, covered = (
            {name: sum_over_processes(each.to(self.device)).cpu() for name, each in of_windows.items()}
            for of_windows in (self._windows, self._covered)
        )
        return Results(
            errors,
            {name: each / observed for name, each in windows.items()},
            {method: sums.compute() for method, sums in intervals.items()},
            coverage_by_step=tabulate_coverage(intervals, "step"),
            coverage_by_variable=tabulate_coverage(intervals, "variable"),
            coverage_by_window=name_coverage(intervals, covered),
            baselines=self.baselines,
        )


class ValidationErrors:
    """The errors of the model and of the baselines on validation windows, to which their intervals are calibrated."""

    def __init__(
        self, data: DataModule, fitted: FittedBaselines, levels: Sequence[Level], device: torch.device
    ) -> None:
        self.data, self.levels, self.device, self.baselines = data, levels, device, fitted.baselines()
        n_windows = data.n_windows["val"]
        self._stride = window_stride(n_windows, errors_per_window=data.pred_len * data.n_targets)
        shape = -(-n_windows // self._stride), data.pred_len, data.n_targets
        self._forecasts = {name: torch.zeros(shape) for name in (MODEL, *self.baselines)}
        self._truth = torch.zeros(shape)

    def update(self, point: Points, batch: Batch) -> None:
        """Add a batch of point forecasts within the bounds."""
        index = batch.index.cpu()
        kept = index % self._stride == 0
        predictions = forecast_baselines(self.baselines, self.data, "val", batch)
        places = index[kept] // self._stride
        self._truth[places] = batch.future.float().cpu()[kept]
        for name, found in {MODEL: point, **predictions}.items():
            self._forecasts[name][places] = found.float().cpu()[kept]

    def calibrate(self) -> dict[str, Calibration]:
        """The calibration of the model and of each baseline, by name. Every process must call this."""
        windows, every = self.data.windows["val"], self._stride
        index = torch.arange(0, len(windows), every, device=windows.device)
        fit = partial(Calibration.fit, horizons=windows.count_horizons(every), joint=windows.align(index))
        truth = sum_over_processes(self._truth.to(self.device))
        forecasts = ((name, sum_over_processes(one.to(self.device))) for name, one in self._forecasts.items())
        return {name: fit(one, truth, self.levels) for name, one in forecasts}


def forecast_baselines(
    baselines: Mapping[str, Baseline], data: DataModule, split: str, batch: Batch
) -> dict[str, Points]:
    windows = data.windows[split]
    with torch.autocast(batch.past.device.type, enabled=False):
        found = {name: baseline(windows, batch) for name, baseline in baselines.items()}
    return {name: data.target_scaler.clip(prediction, batch.series) for name, prediction in found.items()}


def score_windows(
    forecasters: Mapping[str, Callable[[Batch], Points]],
    data: DataModule,
    fitted: FittedBaselines,
    split: str,
    *,
    stride: int = 1,
) -> dict[str, dict[str, float]]:
    """The scores of scaled point forecasts on every `stride`-th window of a split, as training measures them."""
    windows = data.windows[split]
    sums = {name: new_sums(fitted, data, windows.device) for name in forecasters}
    for index in torch.arange(0, len(windows), stride).split(BATCH):
        batch = windows.gather(index.to(windows.device))
        for name, point in forecasters.items():
            sums[name].update(data.target_scaler.clip(point(batch), batch.series), batch.future, batch.series)
    return {name: each.compute().scores() for name, each in sums.items()}


def new_sums(fitted: FittedBaselines, data: DataModule, device: torch.device) -> ErrorSums:
    """Empty sums of the errors of the targets, with the MASE denominators of the baselines, for batches on a device."""
    sums = ErrorSums(data.pred_len, data.target_scaler, fitted.naive_mae_of(data.panel.ids))
    return sums.to(sums_device(device))


def sums_device(device: torch.device) -> torch.device:
    """The device on which errors are summed: this one if it supports float64, otherwise the CPU."""
    return torch.device("cpu") if device.type == "mps" else device


@dataclasses.dataclass(frozen=True)
class Origins:
    """Origins of forecasts, ordered by series: the row of a panel that each forecast predicts first."""

    rows: PerOrigin
    series: PerOrigin  # number of its series
    positions: PerOrigin  # of its date in the grid
    stride: int  # rows between two origins of a series

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


@dataclasses.dataclass
class Backtest:
    """Forecasts from every origin beside the truth, in original units.

    `scaler`, of the scaled errors, is that of the first model that forecast the series, NaN until then. `naive_mae`,
    the denominator of MASE, is from the training rows of that model, NaN for a series without any.
    """

    title: str  # name of the data
    attention: str
    columns: list[str]  # the targets
    panel: Panel
    origins: Origins
    truth: Values
    forecasts: dict[str, Values]  # of the model and of each baseline
    intervals: dict[str, IntervalSums]  # of the model by method, and of each library that forecasts quantiles
    scaler: Scaler
    naive_mae: Float64[Tensor, "series n_targets"]
    bounds: dict[str, Values] = dataclasses.field(init=False)  # by `name_bounds`; NaN without a forecast
    # positions in the grid; each model was trained on all rows before one. Empty if the model came from a checkpoint
    trainings: list[int] = dataclasses.field(default_factory=list)
    training_seconds: list[float] = dataclasses.field(default_factory=list)
    # forecasts of other libraries: quantiles on a last axis, of which the middle one is the point forecast
    of_libraries: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)  # cautions on how to read the scores
    # origins among the rows of `training` and of `validation` of the model of a checkpoint
    seen: dict[str, int] = dataclasses.field(default_factory=dict)
    is_untrained: bool = False  # whether every training kept only the linear model

    def __post_init__(self) -> None:
        names = [name for method, sums in self.intervals.items() for name in name_bounds(method, sums.levels)]
        self.bounds = {name: np.full(self.truth.shape, np.nan) for name in names}
        steps = self.truth.shape[1]
        self.sums = {name: ErrorSums(steps, self.scaler, self.naive_mae) for name in self.forecasts}

    @property
    def baselines(self) -> list[str]:
        """Names of the baselines, those of other libraries last."""
        return [name for name in self.forecasts if name != MODEL]

    @property
    def n_series(self) -> int:
        """Number of series with at least one forecast."""
        return len(np.unique(self.origins.series))

    @property
    def zoned_dates(self) -> pd.DatetimeIndex:
        """The first date of each forecast, in the time zone of the data."""
        return self.panel.utc_offset.zoned(self.panel.dates(self.origins.rows))

    @property
    def known_until(self) -> pd.DatetimeIndex:
        """The last date of the known rows, of each training, in the time zone of the data."""
        return self.panel.utc_offset.zoned(self.panel.grid[np.array(self.trainings, dtype=np.int64) - 1])

    @cached_property
    def errors(self) -> dict[str, Errors]:
        """Errors of the model and of each baseline, by name."""
        return {name: sums.compute() for name, sums in self.sums.items()}

    @cached_property
    def interval_scores(self) -> dict[str, dict[str, Any]]:
        """The scores of the intervals by method, see `IntervalSums.compute`."""
        return {method: sums.compute() for method, sums in self.intervals.items()}

    @property
    def best_baseline(self) -> str:
        """The baseline with the lowest MSE."""
        return min(self.baselines, key=lambda name: self.errors[name].scores()["mse"])

    def scaled_errors(self, name: str) -> Values:
        """Scaled errors, forecast − truth, of every value."""
        series = torch.from_numpy(self.origins.series)
        forecast, truth = (
            self.scaler.error_values(self.scaler.transform(torch.from_numpy(values), series), series)
            for values in (self.forecasts[name], self.truth)
        )
        return (forecast - truth).numpy()

    def add_forecasts(
        self, name: str, chosen: PerOrigin, forecasts: Float64[Tensor, "origins pred_len n_targets"]
    ) -> None:
        """Keep the forecasts of some origins, in original units, and add their errors."""
        self.forecasts[name][chosen] = forecasts.numpy()
        to_scale, series = self._scale(chosen)
        self.sums[name].update(to_scale(forecasts), to_scale(torch.from_numpy(self.truth[chosen])), series)

    def add_intervals(
        self, method: str, chosen: PerOrigin, quantiles: Float[Tensor, "origins pred_len n_targets quantiles"]
    ) -> None:
        """Keep the bounds of the intervals of some origins, and add their scores; quantiles in original units."""
        sums, (to_scale, series) = self.intervals[method], self._scale(chosen)
        for name, probability in name_bounds(method, sums.levels).items():
            self.bounds[name][chosen] = quantiles[..., sums.at.index(probability)].numpy()
        scaled = map_quantiles(to_scale, quantiles)
        sums.update(scaled, to_scale(torch.from_numpy(self.truth[chosen])), series)

    def _scale(self, chosen: PerOrigin) -> tuple[Callable[[Tensor], Tensor], Tensor]:
        """What scales values of these origins, and their series."""
        series = torch.from_numpy(self.origins.series[chosen])
        return partial(self.scaler.transform, series=series), series


def name_bounds(method: str, levels: Sequence[Level]) -> dict[str, float]:
    """The probability of each bound of the intervals of a method, by its name, such as `conformal-lo-80`."""
    return {
        f"{method}-{side}-{level:g}": probability
        for level in levels
        for side, probability in zip(("lo", "hi"), bounds(level), strict=True)
    }
