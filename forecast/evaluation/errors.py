"""Forecast errors of windows, and the scores computed from their sums.

Scaled errors (`mse`, `mae`, `crps`), which papers report, are means over all true values. Those of a target with a
transform are errors of x on the scale that x has without it. The other scores are in original units. They are
computed separately for each series and variable and then averaged, so that variables of large numbers do not dominate.
Missing true values (NaN), and series without true values, do not count.

    crps      continuous ranked probability score, see `quantiles.crps`; NaN without quantiles
    rmse_raw  root of the mean squared error           mae_raw  mean absolute error
    smape     mean of 200·|ŷ − y| / (|ŷ| + |y|), 0 where both are 0
    wape      Σ|ŷ − y| / Σ|y|                           mase     mae_raw / seasonal-naive MAE of the training rows

Averages of ratios (`wape`, `mase`) leave out variables whose denominator is zero; they are NaN if all are left out.
Values closer to zero than float32 can resolve after scaling (`ZERO`) count as zero.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from forecast.data.scaling.scaler import Scaler
from forecast.evaluation.forecaster_names import SCALED_SCORES

SCORES = (*SCALED_SCORES, "rmse_raw", "mae_raw", "smape", "wape", "mase")

ZERO = 1e-4, 1e-6
"""Precision lost by scaling values in float32 and back, relative to the scale and to the center."""

RATIO_SCORES = ("wape", "mase")
"""Scores that are not defined where their denominator is zero."""


class CellErrors(NamedTuple):
    """Errors of values: three scaled, then in original units; symmetric percentage errors, and absolute true values.

    `cell_errors` and the sums rely on the order of the fields.
    """

    squared: Tensor
    absolute: Tensor
    crps: Tensor
    squared_raw: Tensor
    absolute_raw: Tensor
    symmetric: Tensor
    magnitude: Tensor

    def scaled(self) -> dict[str, Tensor]:
        """The errors of `SCALED_SCORES`, by name."""
        return {"mse": self.squared, "mae": self.absolute, "crps": self.crps}


N_SUMS = len(CellErrors._fields)
"""Number of errors that are summed."""


@dataclass(frozen=True)
class Errors:
    """Sums of errors over all windows of a split, and the scores computed from them; see `error_sums.ErrorSums`."""

    step_sums: Float64[Tensor, "sums pred_len n_targets"]
    series_sums: Float64[Tensor, "sums series n_targets"]
    step_counts: Float64[Tensor, "pred_len n_targets"]
    series_counts: Float64[Tensor, "series n_targets"]
    n_windows: Float64[Tensor, ""]
    naive_mae: Float64[Tensor, "series n_targets"]

    def scores(self) -> dict[str, float]:
        """Each score in `SCORES`: scaled ones over all true values, the others averaged over the variables."""
        counts = self.step_counts.sum(0)
        scores = {name: average(name, score, counts).item() for name, score in self.by_variable().items()}
        pooled = CellErrors(*(self.step_sums.sum((1, 2)) / counts.sum()))
        return scores | {name: score.item() for name, score in pooled.scaled().items()}

    @property
    def observed_fraction(self) -> float:
        """Share of the values over all windows, steps and variables that are known."""
        return float(self.step_counts.sum() / (self.n_windows * self.step_counts.numel()))

    def by_variable(self) -> dict[str, Float[Tensor, " n_targets"]]:
        """Each score of each variable."""
        pooled = CellErrors(*(self.step_sums.sum(1) / self.step_counts.sum(0)))
        each = self.by_series()
        means = {name: average(name, each[name].T, self.series_counts.T) for name in SCORES}
        return means | pooled.scaled()

    def by_series(self) -> dict[str, Float[Tensor, "series n_targets"]]:
        """Each score of each series and variable; NaN for one without true values."""
        return self._scores(self.series_sums / self.series_counts)

    def by_step(self) -> dict[str, Float[Tensor, " pred_len"]]:
        """The scores of each step of the horizon, averaged over the variables.

        With several series, only the scores that do not depend on units.
        """
        means = self.step_sums / self.step_counts
        scores = {"smape": CellErrors(*means).symmetric} if len(self.naive_mae) > 1 else self._scores(means)
        found = {name: average(name, score, self.step_counts) for name, score in scores.items()}
        pooled = CellErrors(*(self.step_sums.sum(2) / self.step_counts.sum(1)))
        return found | pooled.scaled()

    def _scores(self, means: Float[Tensor, "sums rows n_targets"]) -> dict[str, Tensor]:
        each = CellErrors(*means)
        return {
            **each.scaled(),
            "rmse_raw": each.squared_raw.sqrt(),
            "mae_raw": each.absolute_raw,
            "smape": each.symmetric,
            "wape": ratio(each.absolute_raw, each.magnitude),
            "mase": ratio(each.absolute_raw, self.naive_mae),
        }


def cell_errors(
    prediction: Float[Tensor, "batch pred_len n_targets"],
    target: Float[Tensor, "batch pred_len n_targets"],
    scaler: Scaler,
    series: Int64[Tensor, " batch"],
    crps: Float[Tensor, "batch pred_len n_targets"] | None = None,
) -> CellErrors:
    """Errors of every value, in float64; each has the shape of `target`. `crps` is NaN if it is not given."""
    scaled = scaler.error_values(prediction.double(), series) - scaler.error_values(target.double(), series)
    y, y_hat = scaler.inverse(target, series), scaler.inverse(prediction, series)
    error = (y_hat - y).abs()
    least = scaler.resolution(series, *ZERO)
    y, y_hat = (torch.where(part.abs() < least, 0.0, part.abs()) for part in (y, y_hat))
    symmetric = torch.where(y + y_hat == 0, 0.0, 200 * error / (y + y_hat))
    crps = torch.full_like(scaled, torch.nan) if crps is None else crps.double()
    return CellErrors(scaled.square(), scaled.abs(), crps, error.square(), error, symmetric, y)


def average(
    name: str, score: Float[Tensor, "*rows values"], counts: Float[Tensor, "*#rows values"]
) -> Float[Tensor, "*rows"]:
    """Average a score over the last axis, where its number of true values is not 0; NaN where it is 0 everywhere.

    Undefined ratios are left out; NaN of other scores stays NaN.
    """
    used = counts > 0
    if name in RATIO_SCORES:
        used = used & ~score.isnan()
    return torch.where(used, score, 0.0).sum(-1) / used.sum(-1)


def ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Divide, with NaN where the denominator is zero."""
    return torch.where(denominator == 0, torch.nan, numerator / denominator)


def window_errors(
    prediction: Float[Tensor, "batch pred_len n_targets"],
    target: Float[Tensor, "batch pred_len n_targets"],
    scaler: Scaler,
    series: Int64[Tensor, " batch"],
    crps: Float[Tensor, "batch pred_len n_targets"] | None = None,
) -> Float[Tensor, "batch scores"]:
    """The `SCALED_SCORES` of each window: Σ error / (pred_len · n_targets), with an error of 0 where y is missing.

    The number of known values of a window is not in the denominator. The mean over the windows, divided by
    `Errors.observed_fraction`, is therefore the score over all true values.

    Returns:
        In float64 on the CPU. The CRPS is left out if it is not given.
    """
    error = scaler.error_values(prediction.float(), series) - scaler.error_values(target, series)
    errors = [error.square(), error.abs(), *([] if crps is None else [crps])]
    missing = target.isnan().cpu()
    of_windows = [torch.where(missing, 0.0, each.cpu()).flatten(1).double().mean(1) for each in errors]
    return torch.stack(of_windows, dim=1)
