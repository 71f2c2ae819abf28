"""Forecast errors, accumulated over batches of windows and added up over processes."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from forecast.data.scaling.scaler import Scaler
from forecast.evaluation.errors import N_SUMS, Errors, cell_errors
from forecast.evaluation.running_sums import RunningSums


class ErrorSums(RunningSums):
    """Running sums of errors in float64; `compute()` adds them up over the processes of a run.

    Args:
        pred_len: number of forecast steps.
        scaler: of the targets.
        naive_mae: seasonal-naive MAE of the training rows of each series in original units (series, n_targets).
    """

    def __init__(
        self,
        pred_len: int,
        scaler: Scaler,
        naive_mae: Float[Tensor, "series n_targets"],
    ) -> None:
        self.scaler, self.naive_mae, shape = scaler, naive_mae.double().cpu(), naive_mae.shape
        by_step = torch.zeros(N_SUMS, pred_len, shape[1], dtype=torch.float64)
        by_series = torch.zeros(N_SUMS, *shape, dtype=torch.float64)
        super().__init__(
            by_step=by_step,  # the errors of `cell_errors`, summed over windows and series
            by_series=by_series,  # the same errors, summed over windows and steps
            step_counts=torch.zeros_like(by_step[0]),  # numbers of true values that the sums are over
            series_counts=torch.zeros_like(by_series[0]),
            n_windows=torch.zeros((), dtype=torch.float64),
        )

    def update(
        self,
        prediction: Float[Tensor, "batch pred_len n_targets"],
        target: Float[Tensor, "batch pred_len n_targets"],
        series: Int64[Tensor, " batch"],
        crps: Float[Tensor, "batch pred_len n_targets"] | None = None,
    ) -> None:
        """Add a batch of scaled forecasts and truths, NaN where missing; `series[i]` is the series of window i.

        `crps` is the CRPS of each forecast; None: there are no quantiles.
        """
        prediction, target, series = (part.to(self.device) for part in (prediction, target, series))
        crps = None if crps is None else crps.to(self.device)
        self.scaler, sums = self.scaler.to(self.device), self.sums
        measured = ~target.isnan()
        found = torch.stack(cell_errors(prediction, target, self.scaler, series, crps))
        found = torch.where(measured, found, 0.0)
        sums["by_step"] += found.sum(1)
        sums["step_counts"] += measured.sum(0)
        sums["by_series"].index_add_(1, series, found.sum(2))
        sums["series_counts"].index_add_(0, series, measured.sum(1).double())
        sums["n_windows"] += len(target)

    def compute(self) -> Errors:
        total = self.totals()
        return Errors(
            total["by_step"],
            total["by_series"],
            total["step_counts"],
            total["series_counts"],
            total["n_windows"],
            self.naive_mae,
        )
