"""Forecast errors of windows, the scores computed from their sums, and the denominator of MASE.

Scaled errors (`mse`, `mae`, `crps`), which papers report, are means over all true values. Those of a target with a
transform are errors of x on the scale that x has without it. The other scores are in original units. They are
computed separately for each series and variable and then averaged, so that variables of large numbers do not dominate.
Missing true values (NaN), and series without true values, do not count.

    crps      continuous ranked probability score, see `intervals.crps`; NaN without quantiles
    rmse_raw  root of the mean squared error           mae_raw  mean absolute error
    smape     mean of 200·|ŷ − y| / (|ŷ| + |y|), 0 where both are 0
    wape      Σ|ŷ − y| / Σ|y|                           mase     mae_raw / seasonal-naive MAE of the training rows

Averages of ratios (`wape`, `mase`) leave out variables whose denominator is zero; they are NaN if all are left out.
Values closer to zero than float32 can resolve after scaling (`ZERO`) count as zero.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from forecast.data.row_ranges import RowRanges, pieces
from forecast.data.scaler import Scaler
from forecast.data.step_features import Index, Rows
from forecast.evaluation.scores import SCALED_SCORES, SCORES
from forecast.models.layers import sum_over_processes

ZERO = 1e-4, 1e-6  # lost by scaling in float32 and back, relative to the scale and to the center
ROWS_AT_ONCE = 1 << 15

Points = Float[Tensor, "batch pred_len n_targets"]
Sums = TypeVar("Sums", bound="RunningSums")


class RunningSums:
    """Tensors by name, to which each process adds its batches."""

    def __init__(self, **zeros: Tensor) -> None:
        self.sums = zeros

    @property
    def device(self) -> torch.device:
        return next(iter(self.sums.values())).device

    def to(self: Sums, device: torch.device | str) -> Sums:
        self.sums = {name: sums.to(device) for name, sums in self.sums.items()}
        return self

    def totals(self) -> dict[str, Tensor]:
        """The sums over all processes, on the CPU. Every process must call this."""
        return {name: sum_over_processes(sums).cpu() for name, sums in self.sums.items()}


class CellErrors(NamedTuple):
    """Errors of values: three scaled, then in original units; symmetric percentage errors, and absolute true values."""

    squared: Tensor
    absolute: Tensor
    crps: Tensor
    squared_raw: Tensor
    absolute_raw: Tensor
    symmetric: Tensor
    magnitude: Tensor

    def scores(
        self, names: Iterable[str] = SCORES, naive_mae: Float64[Tensor, "series n_targets"] | None = None
    ) -> dict[str, Tensor]:
        """The scores of these names, where the errors are means over true values."""
        return {name: SCORES[name].of(self, naive_mae) for name in names}


@dataclass(frozen=True)
class Errors:
    """Sums of errors over all windows of a split, and the scores computed from them; see `ErrorSums`."""

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
        return scores | {name: score.item() for name, score in pooled.scores(SCALED_SCORES).items()}

    @property
    def observed_fraction(self) -> float:
        """Share of the values over all windows, steps and variables that are known."""
        return float(self.step_counts.sum() / (self.n_windows * self.step_counts.numel()))

    def by_variable(self) -> dict[str, Float[Tensor, " n_targets"]]:
        pooled = CellErrors(*(self.step_sums.sum(1) / self.step_counts.sum(0)))
        means = {name: average(name, each.T, self.series_counts.T) for name, each in self.by_series().items()}
        return means | pooled.scores(SCALED_SCORES)

    def by_series(self) -> dict[str, Float[Tensor, "series n_targets"]]:
        """Each score of each series and variable; NaN for one without true values."""
        return CellErrors(*(self.series_sums / self.series_counts)).scores(naive_mae=self.naive_mae)

    def by_step(self) -> dict[str, Float[Tensor, " pred_len"]]:
        """The scores of each step of the horizon, averaged over the variables.

        With several series, those in original units are left out, and so are ratios of sums over them.
        """
        means = CellErrors(*(self.step_sums / self.step_counts))
        free = [name for name, score in SCORES.items() if not score.unit and not score.is_ratio]
        scores = means.scores(free if len(self.naive_mae) > 1 else SCORES, self.naive_mae)
        found = {name: average(name, score, self.step_counts) for name, score in scores.items()}
        pooled = CellErrors(*(self.step_sums.sum(2) / self.step_counts.sum(1)))
        return found | pooled.scores(SCALED_SCORES)


def cell_errors(
    prediction: Points, target: Points, scaler: Scaler, series: Index, crps: Points | None = None
) -> CellErrors:
    """Errors of every value, in float64.

    Where a given `crps` is NaN, there are no quantiles, and it is the absolute error: the CRPS without spread.
    """
    scaled = scaler.error_values(prediction.double(), series) - scaler.error_values(target.double(), series)
    y, y_hat = scaler.inverse(target, series), scaler.inverse(prediction, series)
    error = (y_hat - y).abs()
    least = scaler.resolution(series, *ZERO)
    y, y_hat = (torch.where(part.abs() < least, 0.0, part.abs()) for part in (y, y_hat))
    symmetric = torch.where(y + y_hat == 0, 0.0, 200 * error / (y + y_hat))
    found = torch.full_like(scaled, torch.nan) if crps is None else fill_crps(crps.double(), scaled)
    return CellErrors(scaled.square(), scaled.abs(), found, error.square(), error, symmetric, y)


def fill_crps(crps: Tensor, error: Tensor) -> Tensor:
    """Replace a CRPS of NaN, as of a target without calibration, by the absolute error, the CRPS without spread."""
    return torch.where(crps.isnan(), error.abs(), crps)


def average(
    name: str, score: Float[Tensor, "*rows values"], counts: Float[Tensor, "*#rows values"]
) -> Float[Tensor, "*rows"]:
    """Average a score over the last axis, where its number of true values is not 0; NaN where it is 0 everywhere.

    Undefined ratios are left out; NaN of other scores stays NaN.
    """
    used = counts > 0
    if SCORES[name].is_ratio:
        used = used & ~score.isnan()
    return torch.where(used, score, 0.0).sum(-1) / used.sum(-1)


def window_errors(
    prediction: Points, target: Points, scaler: Scaler, series: Index, crps: Points | None = None
) -> Float[Tensor, "batch scores"]:
    """The `SCALED_SCORES` of each window: Σ error / (pred_len · n_targets), with an error of 0 where y is missing.

    The number of known values of a window is not in the denominator. The mean over the windows, divided by
    `Errors.observed_fraction`, is therefore the score over all true values. They are in float64 on the CPU; the CRPS is
    left out if it is not given.
    """
    error = scaler.error_values(prediction.float(), series) - scaler.error_values(target, series)
    errors = [error.square(), error.abs()]
    errors += [] if crps is None else [fill_crps(crps, error.to(crps))]
    missing = target.isnan().cpu()
    of_windows = [torch.where(missing, 0.0, each.cpu()).flatten(1).double().mean(1) for each in errors]
    return torch.stack(of_windows, dim=1)


class ErrorSums(RunningSums):
    """Running sums of errors in float64; `compute()` adds them up over the processes of a run.

    `naive_mae` is the seasonal-naive MAE of the training rows of each series in original units.
    """

    def __init__(self, pred_len: int, scaler: Scaler, naive_mae: Float[Tensor, "series n_targets"]) -> None:
        self.scaler, self.naive_mae = scaler, naive_mae.double().cpu()
        by_step = torch.zeros(len(CellErrors._fields), pred_len, naive_mae.shape[1], dtype=torch.float64)
        by_series = torch.zeros(len(CellErrors._fields), *naive_mae.shape, dtype=torch.float64)
        super().__init__(
            step_sums=by_step,  # the errors of `cell_errors`, summed over windows and series
            series_sums=by_series,  # the same errors, summed over windows and steps
            step_counts=torch.zeros_like(by_step[0]),  # numbers of true values that the sums are over
            series_counts=torch.zeros_like(by_series[0]),
            n_windows=torch.zeros((), dtype=torch.float64),
        )

    def update(self, prediction: Points, target: Points, series: Index, crps: Points | None = None) -> None:
        """Add a batch of scaled forecasts and truths, NaN where missing, and their CRPS if there are quantiles."""
        prediction, target, series = (part.to(self.device) for part in (prediction, target, series))
        crps = None if crps is None else crps.to(self.device)
        self.scaler, sums = self.scaler.to(self.device), self.sums
        measured = ~target.isnan()
        found = torch.stack(cell_errors(prediction, target, self.scaler, series, crps))
        found = torch.where(measured, found, 0.0)
        sums["step_sums"] += found.sum(1)
        sums["step_counts"] += measured.sum(0)
        sums["series_sums"].index_add_(1, series, found.sum(2))
        sums["series_counts"].index_add_(0, series, measured.sum(1).double())
        sums["n_windows"] += len(target)

    def compute(self) -> Errors:
        return Errors(**self.totals(), naive_mae=self.naive_mae)


def seasonal_naive_mae(
    values: Rows, columns: Sequence[int], scaler: Scaler, rows: RowRanges, season: int
) -> Float64[Tensor, "series n_targets"]:
    """Mean |y(t) − y(t − season)| over these rows of each series, in original units.

    Pairs with a missing value do not count. A series with no more rows than a season uses season 1. A series without a
    pair gets NaN. Source: Hyndman and Koehler 2006. `values` are scaled, and `columns` are those of the targets.
    """
    lengths = rows.stop - rows.first
    lag = np.where(lengths > season, season, 1)
    total = np.zeros((len(lengths), len(columns)))
    count = np.zeros_like(total)
    for later in pieces(np.minimum(rows.first + lag, rows.stop), rows.stop, ROWS_AT_ONCE):
        series = np.searchsorted(rows.stop, later, side="right")
        of = torch.from_numpy(series)
        now, before = (
            scaler.inverse(values[torch.from_numpy(each).to(values.device)][:, None, columns], of)[:, 0]
            for each in (later, later - lag[series])
        )
        change = (now - before).abs().cpu().numpy()
        is_known = np.isfinite(change)
        np.add.at(total, series, np.where(is_known, change, 0.0))
        np.add.at(count, series, is_known)
    return torch.from_numpy(np.where(count > 0, total / np.maximum(count, 1), np.nan))
