"""Forecast errors, accumulated over batches of windows and added up over processes."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torchmetrics import Metric

from forecast.data import DataModule
from forecast.data.scaler import Scaler
from forecast.evaluation.baselines import FittedBaselines
from forecast.evaluation.errors import N_SUMS, Errors, cell_errors


class ErrorSums(Metric):
    """Running sums of errors in float64, added up over the processes of a run by `compute()`.

    Args:
        pred_len: number of forecast steps.
        scaler: of the targets.
        naive_mae: seasonal-naive MAE of the training rows of each series in data units (series, n_targets).
    """

    full_state_update = False
    naive_mae: Tensor
    by_step: Tensor
    by_series: Tensor
    step_counts: Tensor
    series_counts: Tensor
    n_windows: Tensor

    def __init__(
        self,
        pred_len: int,
        scaler: Scaler,
        naive_mae: Float[Tensor, "series n_targets"],
    ) -> None:
        super().__init__()
        self.scaler, shape = scaler, naive_mae.shape
        self.register_buffer("naive_mae", naive_mae.double(), persistent=False)
        # the errors of `cell_errors`, summed over windows and series, by step
        zeros = torch.zeros(N_SUMS, pred_len, shape[1], dtype=torch.float64)
        self.add_state("by_step", zeros, dist_reduce_fx="sum")
        # the same errors, summed over windows and steps, by series
        self.add_state("by_series", torch.zeros(N_SUMS, *shape, dtype=torch.float64), dist_reduce_fx="sum")
        # numbers of true values that the sums are over
        self.add_state("step_counts", torch.zeros_like(zeros[0]), dist_reduce_fx="sum")
        self.add_state("series_counts", torch.zeros(*shape, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("n_windows", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(
        self,
        prediction: Float[Tensor, "batch pred_len n_targets"],
        target: Float[Tensor, "batch pred_len n_targets"],
        series: Int64[Tensor, " batch"],
    ) -> None:
        """Add a batch of scaled forecasts and truths, NaN where missing; `series[i]` is the series of window i."""
        prediction, target, series = (part.to(self.device) for part in (prediction, target, series))
        self.scaler = self.scaler.to(self.device)
        measured = ~target.isnan()
        found = torch.stack(cell_errors(prediction, target, self.scaler, series))
        found = torch.where(measured, found, 0.0)
        self.by_step += found.sum(1)
        self.step_counts += measured.sum(0)
        self.by_series.index_add_(1, series, found.sum(2))
        self.series_counts.index_add_(0, series, measured.sum(1).double())
        self.n_windows += len(target)

    def compute(self) -> Errors:
        sums = (self.by_step, self.by_series, self.step_counts, self.series_counts)
        parts = (*sums, self.n_windows, self.naive_mae)
        return Errors(*(part.cpu().clone() for part in parts))


def new_error_sums(fitted: FittedBaselines, data: DataModule) -> ErrorSums:
    """Create empty error sums for the targets of `data`, with the MASE denominators of the baselines."""
    return ErrorSums(data.pred_len, data.target_scaler, fitted.naive_mae_of(data.panel.ids))
