"""Measurement of a model and of the baselines a batch of windows at a time: the scores of a test, and calibrations."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from forecast.data import Batch, DataModule
from forecast.evaluation.baselines import Baseline, FittedBaselines
from forecast.evaluation.conformal import Calibration, window_stride
from forecast.evaluation.errors import Errors, ErrorSums, window_errors
from forecast.evaluation.intervals import (
    IntervalScorer,
    tabulate_coverage_by_step,
    tabulate_coverage_by_variable,
)
from forecast.evaluation.levels import Level
from forecast.evaluation.scores import LABELS, MODEL, SCALED_SCORES
from forecast.models.layers import sum_over_processes

Points = Float[Tensor, "batch pred_len n_targets"]

BATCH = 256


@dataclasses.dataclass(frozen=True)
class Results:
    """Scores of the model and of the baselines on one split.

    Attributes:
        errors: errors of the model (first) and of each baseline, by name.
        windows: scores of each window (n_windows, scores), in the order of `SCALED_SCORES`, of the model and of each
            baseline, by name; sums of errors divided by the mean number of measured values of a window, see
            `errors.window_errors`.
        intervals: scores of the intervals by method, from `IntervalSums.compute`.
        coverage_by_step: fraction of true values within an interval at each step, from
            `intervals.tabulate_coverage_by_step`.
        coverage_by_variable: the same for each variable.
        coverage_by_window: the same for each window; NaN without true values.
        baselines: the baselines that were measured.
    """

    errors: dict[str, Errors]
    windows: dict[str, Tensor]
    intervals: dict[str, dict[str, Any]]
    coverage_by_step: dict[str, Float64[np.ndarray, " pred_len"]]
    coverage_by_variable: dict[str, Float64[np.ndarray, " n_targets"]]
    coverage_by_window: dict[str, Float64[np.ndarray, " n_windows"]]
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

    Args:
        data: the data of the test.
        fitted: the baselines, and the denominators of MASE.
        calibrations: of the intervals of the model and of each baseline, by name.
        probabilities: probabilities of the quantiles in the forecasts of the model; None without any.
        levels: levels of the intervals, in percent.
        device: the device of the batches.
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
        self._sums = {name: new_sums(fitted, data, device) for name in (MODEL, *self.baselines)}
        shape = data.n_windows[data.tested_split], len(SCALED_SCORES)
        self._windows = {name: torch.zeros(shape, dtype=torch.float64) for name in self._sums}
        self._intervals = IntervalScorer(calibrations, probabilities, levels, data, self.device)

    def update(
        self, point: Points, forecast: Float[Tensor, "batch pred_len n_targets ..."], batch: Batch
    ) -> None:
        """Add a batch: point forecasts, and the output of the model, both within the bounds."""
        predictions = forecast_baselines(self.baselines, self.data, self.data.tested_split, batch)
        crps = {MODEL: self._intervals.update(point, forecast, batch)}
        crps |= {name: self._intervals.crps(name, each, batch) for name, each in predictions.items()}
        for name, prediction in {MODEL: point, **predictions}.items():
            self._sums[name].update(prediction, batch.future, batch.series, crps[name])
            self._windows[name][batch.index.cpu()] = window_errors(
                prediction, batch.future, self.data.target_scaler, batch.series, crps[name]
            )

    def compute(self) -> Results:
        """The results over the batches of all processes. Every process must call this."""
        errors = {name: sums.compute() for name, sums in self._sums.items()}
        observed = errors[MODEL].observed_fraction
        windows = {
            name: sum_over_processes(each.to(self.device)).cpu() / observed
            for name, each in self._windows.items()
        }
        return Results(
            errors, windows, self._intervals.compute(),
            coverage_by_step=tabulate_coverage_by_step(self._intervals.sums),
            coverage_by_variable=tabulate_coverage_by_variable(self._intervals.sums),
            coverage_by_window=self._intervals.coverage_by_window(),
            baselines=self.baselines,
        )  # fmt: skip


class ValidationErrors:
    """The errors of the model and of the baselines on validation windows, to which their intervals are calibrated.

    Args:
        data: the data, with validation windows.
        fitted: the baselines.
        levels: levels of the intervals, in percent.
        device: the device of the batches.
    """

    def __init__(
        self, data: DataModule, fitted: FittedBaselines, levels: Sequence[Level], device: torch.device
    ) -> None:
        self.data, self.levels, self.device, self.baselines = data, levels, device, fitted.baselines()
        n_windows = data.n_windows["val"]
        self._stride = window_stride(n_windows, errors_per_window=data.pred_len * data.n_targets)
        shape = -(-n_windows // self._stride), data.pred_len, data.n_targets
        self._errors = {name: torch.zeros(shape) for name in (MODEL, *self.baselines)}

    def update(self, point: Points, batch: Batch) -> None:
        """Add a batch of point forecasts within the bounds."""
        index = batch.index.cpu()
        kept = index % self._stride == 0
        predictions = forecast_baselines(self.baselines, self.data, "val", batch)
        for name, found in {MODEL: point, **predictions}.items():
            error = (batch.future - found).float().cpu()
            self._errors[name][index[kept] // self._stride] = error[kept]

    def calibrate(self) -> dict[str, Calibration]:
        """The calibration of the model and of each baseline, by name. Every process must call this."""
        horizons = self.data.windows["val"].count_horizons(self._stride)
        return {
            name: Calibration.fit(sum_over_processes(errors.to(self.device)), self.levels, horizons=horizons)
            for name, errors in self._errors.items()
        }


def forecast_baselines(
    baselines: Mapping[str, Baseline], data: DataModule, split: str, batch: Batch
) -> dict[str, Points]:
    """The scaled forecasts of the baselines within the bounds, by name."""
    windows = data.windows[split]
    with torch.autocast(batch.past.device.type, enabled=False):
        found = {name: baseline(windows, batch) for name, baseline in baselines.items()}
    return {name: data.clip_targets(prediction, batch.series) for name, prediction in found.items()}


def score_windows(
    forecasters: Mapping[str, Callable[[Batch], Points]],
    data: DataModule,
    fitted: FittedBaselines,
    split: str,
    *,
    stride: int = 1,
) -> dict[str, dict[str, float]]:
    """The scores of point forecasts on every `stride`-th window of a split, as training measures them.

    Args:
        forecasters: by name, what forecasts the scaled values of a batch.
        data: the data.
        fitted: the fitted baselines, whose naive error scales the MASE.
        split: a key of `data.windows`.
        stride: number of windows from one to the next.
    """
    windows = data.windows[split]
    sums = {name: new_sums(fitted, data, windows.device) for name in forecasters}
    for index in torch.arange(0, len(windows), stride).split(BATCH):
        batch = windows.gather(index.to(windows.device))
        for name, point in forecasters.items():
            sums[name].update(data.clip_targets(point(batch), batch.series), batch.future, batch.series)
    return {name: each.compute().scores() for name, each in sums.items()}


def new_sums(fitted: FittedBaselines, data: DataModule, device: torch.device) -> ErrorSums:
    """Empty sums of the errors of the targets, with the MASE denominators of the baselines, for batches on a device."""
    sums = ErrorSums(data.pred_len, data.target_scaler, fitted.naive_mae_of(data.panel.ids))
    return sums.to(sums_device(device))


def sums_device(device: torch.device) -> torch.device:
    """The device on which errors are summed: this one if it supports float64, otherwise the CPU."""
    return torch.device("cpu") if device.type == "mps" else device
