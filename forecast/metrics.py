"""Forecast errors, summed over windows one batch at a time and read off once, whatever the batch size.

Scaled errors (`mse`, `mae`) are what papers print. The others are in the data's own units, computed for each
variable alone and then averaged over the variables, so that a large variable does not drown a small one:

    rmse_raw  root of the mean squared error           mae_raw  mean absolute error
    smape     mean of 200·|ŷ − y| / (|ŷ| + |y|), 0 where both are 0
    wape      Σ|ŷ − y| / Σ|y|                           mase     mae_raw / seasonal-naive MAE of the training rows

A ratio whose denominator is zero for a variable leaves that variable out; for all of them it is NaN. Values nearer to
zero than float32 keeps of scaled ones, `ZERO`, are zero.
"""

from typing import ClassVar

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

SCORES = ("mse", "mae", "rmse_raw", "mae_raw", "smape", "wape", "mase")


ZERO = 1e-4, 1e-6
"""Of a variable's scale, and of its center: data units that are lost where values are scaled in float32 and back."""


class ErrorSums:
    """Running sums of errors by horizon step and variable, in float64.

    Args:
        pred_len: steps forecast.
        center, scale: data units = scaled · scale + center, one a target (n_targets,).
        naive_mae: seasonal-naive MAE of the training rows in data units, one a target (n_targets,).
    """

    totals: ClassVar[tuple[str, ...]] = ("sums", "count")
    """What adds up over the processes of a run."""

    def __init__(
        self,
        pred_len: int,
        center: Float[Tensor, " n_targets"],
        scale: Float[Tensor, " n_targets"],
        naive_mae: Float[Tensor, " n_targets"],
    ) -> None:
        self.center, self.scale, self.naive_mae = center.double(), scale.double(), naive_mae.double()
        # squared, absolute, symmetric percentage, |y| in data units; then windows seen in each cell
        self.sums = torch.zeros(4, pred_len, len(scale), dtype=torch.float64)
        self.count = torch.zeros((), dtype=torch.float64)

    def update(
        self,
        prediction: Float[Tensor, "batch pred_len n_targets"],
        target: Float[Tensor, "batch pred_len n_targets"],
        series: Int64[Tensor, " batch"] | None = None,
    ) -> None:
        """Add a batch of scaled forecasts and what came true; which series each window lies in makes no difference."""
        self._move_to(target.device)
        found = cells(prediction.to(self.sums.device), target.to(self.sums.device), self.center, self.scale)
        self.sums += torch.stack([cell.sum(0) for cell in found])
        self.count += len(target)

    def _move_to(self, device: torch.device) -> None:
        """Add up there, where it has float64."""
        if device.type == "cuda" and not self.sums.is_cuda:
            for name in (*self.totals, "center", "scale", "naive_mae"):
                setattr(self, name, getattr(self, name).to(device))

    def scores(self) -> dict[str, float]:
        """The averages over all windows, steps and variables, by the names in `SCORES`."""
        squared, absolute, symmetric, y = self.sums.mean(1) / self.count  # each (n_targets,)
        by_variable = self._scores(squared, absolute, symmetric, y)
        return {name: over_variables(name, by_variable[name]).item() for name in SCORES}

    def by_variable(self) -> dict[str, Float[Tensor, " n_targets"]]:
        """Each score for each variable."""
        return self._scores(*(self.sums.mean(1) / self.count))

    def by_step(self) -> dict[str, Float[Tensor, " pred_len"]]:
        """Each score for each step of the horizon, averaged over the variables."""
        by_step = self._scores(*(self.sums / self.count))
        return {name: over_variables(name, score) for name, score in by_step.items()}

    def _scores(self, squared: Tensor, absolute: Tensor, symmetric: Tensor, y: Tensor) -> dict[str, Tensor]:
        scale, naive_mae = self.scale.to(absolute.device), self.naive_mae.to(absolute.device)
        mae = absolute * scale
        scores = {
            "mse": squared,
            "mae": absolute,
            "rmse_raw": squared.sqrt() * scale,
            "mae_raw": mae,
            "smape": symmetric,
            "wape": ratio(mae, y),
            "mase": ratio(mae, naive_mae),
        }
        return {name: score.cpu() for name, score in scores.items()}


def cells(
    prediction: Float[Tensor, "batch pred_len n_targets"],
    target: Float[Tensor, "batch pred_len n_targets"],
    center: Float64[Tensor, "*#scales n_targets"],
    scale: Float64[Tensor, "*#scales n_targets"],
) -> tuple[Float64[Tensor, "batch pred_len n_targets"], ...]:
    """Of every value: the squared and the absolute error, scaled, the symmetric percentage, and |y| in data units."""
    prediction, target = prediction.double(), target.double()
    error = prediction - target
    y, y_hat = (target * scale + center).abs(), (prediction * scale + center).abs()
    least = ZERO[0] * scale + ZERO[1] * center.abs()
    y, y_hat = torch.where(y < least, 0.0, y), torch.where(y_hat < least, 0.0, y_hat)
    symmetric = torch.where(y + y_hat == 0, 0.0, 200 * (error * scale).abs() / (y + y_hat))
    return error.square(), error.abs(), symmetric, y


def over_variables(name: str, score: Float[Tensor, "*steps n_targets"]) -> Float[Tensor, "*steps"]:
    """Average over the last axis; only a ratio may be undefined for a variable, a NaN error stays one."""
    return score.nanmean(-1) if name in ("wape", "mase") else score.mean(-1)


def ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """numerator / denominator, NaN where the denominator is zero."""
    return torch.where(denominator == 0, torch.nan, numerator / denominator)


def window_errors(
    prediction: Float[Tensor, "batch pred_len n_targets"], target: Float[Tensor, "batch pred_len n_targets"]
) -> Float[Tensor, "batch 2"]:
    """MSE and MAE of each window, scaled, in float64 on the CPU."""
    error = (prediction.float() - target).flatten(1).cpu().double()
    return torch.stack([error.square().mean(1), error.abs().mean(1)], dim=1)
