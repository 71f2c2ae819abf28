"""Scores of the quantiles of a test: intervals of the model by method, and the CRPS of the model and the baselines."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from forecast.data import Batch, DataModule
from forecast.data.scaling.scaler import Scaler
from forecast.evaluation.conformal import Calibration, calibrated_levels
from forecast.evaluation.forecaster_names import MODEL
from forecast.evaluation.intervals import IntervalSums, name_coverage
from forecast.evaluation.levels import CONFORMAL, DECILES, QUANTILE, Level, trained_levels
from forecast.evaluation.quantiles import crps, pinball
from forecast.models.norm import sum_over_processes

MAX_SCORED = 1 << 24
"""Number of quantiles that are scored at once: 64 MiB of float32, a few times over."""

Values = Float[Tensor, "batch pred_len n_targets"]
Scores = Float64[Tensor, "batch pred_len n_targets"]


class IntervalScorer:
    """Scores the intervals and the CRPS of a test.

    The quantiles of the model are trained (`loss=quantile`), or a calibration puts them around its point forecast.
    Those of a baseline come from its calibration.

    Args:
        calibrations: of the model and of each baseline, by name.
        probabilities: probabilities of the trained quantiles; None without any.
        levels: the intervals to score, in percent.
        data: the data of the test.
        device: where sums are added up.
    """

    def __init__(
        self,
        calibrations: Mapping[str, Calibration],
        probabilities: tuple[float, ...] | None,
        levels: Sequence[Level],
        data: DataModule,
        device: torch.device,
    ) -> None:
        self.calibration, self.data, self.device = calibrations[MODEL], data, device
        self.deciles = {name: calibration.deciles() for name, calibration in calibrations.items()}
        self.lacks_offsets = {name: bool(each.offsets.isnan().any()) for name, each in calibrations.items()}
        self.scaler = data.target_scaler.to(device)
        sums = make_interval_sums(self.calibration, probabilities, levels, self.scaler, data.pred_len)
        self.sums = {method: each.to(device) for method, each in sums.items()}
        empty = torch.zeros(data.n_windows[data.tested_split], dtype=torch.float64)
        self.covered = {
            method: {f"{level:g}": empty.clone() for level in each.levels} for method, each in sums.items()
        }

    def update(
        self, point: Values, forecast: Float[Tensor, "batch pred_len n_targets ..."], batch: Batch
    ) -> Scores:
        """Add the intervals of a batch: point forecasts, and the output of the model, both within the bounds.

        Returns:
            The CRPS of each value, of the trained quantiles if there are any; NaN where the true value is missing.
        """
        found, parts = [], (point, forecast, batch.future, batch.series, batch.index)
        for points, quantiles, future, series, index in split(parts, len(self.calibration.quantiles)):
            around = self.data.clip_targets(self.calibration.around(points.float()), series)
            for method, sums in self.sums.items():  # the trained quantiles come last
                bounds = around if method == CONFORMAL else quantiles
                scores = sums.update(bounds, future, series)
                for level, covered in sums.covered_by_window(bounds, future).items():
                    self.covered[method][level][index.cpu()] = covered.cpu()
            found.append(self._fill_missing(MODEL, scores, points, future, series))
        return torch.cat(found)

    def crps(self, baseline: str, point: Values, batch: Batch) -> Scores:
        """Compute the CRPS of each value of a baseline, from calibrated deciles."""
        found = []
        for points, future, series in split((point, batch.future, batch.series), len(DECILES)):
            around = self.data.clip_targets(self.deciles[baseline].around(points.float()), series)
            values, truth = (self._error_values(each, series) for each in (around, future))
            scores = crps(pinball(values, truth, DECILES), DECILES)
            found.append(self._fill_missing(baseline, scores, points, future, series))
        return torch.cat(found)

    def _error_values(self, values: Tensor, series: Tensor) -> Tensor:
        """Return scaled values on the scale of the errors, see `Scaler.error_values`."""
        return self.scaler.error_values(values.to(self.device).float(), series.to(self.device)).float()

    def _fill_missing(
        self, forecaster: str, scores: Scores, points: Values, future: Values, series: Tensor
    ) -> Scores:
        """Replace the NaN of a target without calibration by its absolute error, the CRPS without spread."""
        if not self.lacks_offsets[forecaster]:
            return scores
        forecast, truth = (self._error_values(each, series) for each in (points, future))
        return torch.where(scores.isnan(), (forecast - truth).abs().double(), scores)

    def coverage_by_window(self) -> dict[str, Float64[np.ndarray, " n_windows"]]:
        """The coverage of each window, named as in `errors_by_window.parquet`. Every process must call this."""
        return name_coverage(
            {
                method: {
                    level: sum_over_processes(each.to(self.device)).cpu() for level, each in by_level.items()
                }
                for method, by_level in self.covered.items()
            }
        )

    def compute(self) -> dict[str, Any]:
        """The scores of the intervals by method, see `IntervalSums.compute`."""
        return {method: sums.compute() for method, sums in self.sums.items()}


def make_interval_sums(
    calibration: Calibration,
    probabilities: Sequence[float] | None,
    levels: Sequence[Level],
    scaler: Scaler,
    pred_len: int,
    calibrated: Sequence[str] = (CONFORMAL,),
) -> dict[str, IntervalSums]:
    """Create empty sums of the interval scores, by method.

    Args:
        probabilities: probabilities of the trained quantiles; None without any.
        levels: the intervals to score, in percent; each method scores those that it has.
        calibrated: the methods that use the calibration.
    """
    found = dict.fromkeys(calibrated, (calibration.quantiles, calibrated_levels(calibration, levels)))
    if probabilities is not None:
        found[QUANTILE] = tuple(probabilities), trained_levels(probabilities, levels)
    return {method: IntervalSums(*each, scaler, pred_len, calibration) for method, each in found.items()}


def split(tensors: Sequence[Tensor], n_quantiles: int) -> zip:
    """Split tensors of a batch, the first of point forecasts, so that `MAX_SCORED` quantiles are scored at once."""
    at_once = max(1, MAX_SCORED // (tensors[0].shape[1:].numel() * n_quantiles))
    return zip(*(tensor.split(at_once) for tensor in tensors), strict=True)
