"""The training losses, the losses of windows that select the best epoch, and the shrinkage that they support."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import lightning as L
import torch
from jaxtyping import Float, Float64
from torch import Tensor
from torch.nn import functional as F

from forecast.data import Batch, DataModule
from forecast.data.scaler import Scaler
from forecast.evaluation.errors import window_errors
from forecast.evaluation.intervals import pinball
from forecast.evaluation.significance import diebold_mariano, sum_losses_by_date
from forecast.models import ForecastModel
from forecast.models.residual import take_median
from forecast.training.preparation import LOSSES

MARGIN = 0.01
"""Relative improvement over the untrained model that an epoch needs; a smaller one is attributed to chance."""


def make_loss(name: str, quantiles: tuple[float, ...] | None) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the loss of a forecast and its target: one of `LOSSES`, or the mean pinball loss of the quantiles."""
    return getattr(F, LOSSES[name]) if quantiles is None else partial(mean_pinball, quantiles)


def mean_pinball(quantiles: tuple[float, ...], forecast: Tensor, target: Tensor) -> Tensor:
    """Return the mean pinball loss of forecasts (..., quantiles) of a target (...)."""
    return pinball(forecast, target, quantiles).mean()


def keep_measured(
    forecast: Float[Tensor, "batch pred_len n_targets ..."], target: Float[Tensor, "batch pred_len n_targets"]
) -> tuple[Float[Tensor, "values ..."], Float[Tensor, " values"]]:
    """Select the forecasts whose true value was measured, and these values; one zero of each if there is none."""
    measured = ~target.isnan()
    if not measured.any():
        return 0 * forecast.flatten(0, 2)[:1], torch.zeros_like(target.flatten()[:1])
    return forecast[measured], target[measured]


def window_losses(
    forecast: Float[Tensor, "batch pred_len n_targets ..."],
    batch: Batch,
    scaler: Scaler,
    quantiles: tuple[float, ...] | None,
) -> Float[Tensor, "batch losses"]:
    """Compute the losses of each window: the MSE, or the MAE of the median and the mean pinball loss of quantiles.

    The last one selects the best epoch, the first one the shrinkage weight. Missing true values have a loss of 0. Those
    of a target with a transform are losses on the scale that it has without it, as the scores are.
    """
    if quantiles is None:
        return window_errors(forecast, batch.future, scaler, batch.series)[:, :1].float()
    median = take_median(forecast, quantiles)
    absolute = window_errors(median, batch.future, scaler, batch.series)[:, 1].float()
    values, truth = (scaler.error_values(each, batch.series).float() for each in (forecast, batch.future))
    losses = pinball(values, truth, quantiles).mean(-1)
    losses = torch.where(truth.isnan(), 0.0, losses).flatten(1).mean(1)
    return torch.stack([absolute, losses.cpu()], dim=1)


def shrinkage_and_error(
    losses: Float64[Tensor, "n_dates losses"], untrained: Float64[Tensor, "other_dates losses"], overlap: int
) -> tuple[float, float]:
    """Compute the shrinkage weight of an epoch, and an upper bound of the mean loss with that weight.

    The weight is 1 − p, p the p-value of the Diebold-Mariano test of the two models for windows that overlap. It is at
    least ½, because the mean of two forecasts of equal accuracy is more accurate than either (Bates and Granger 1969,
    The Combination of Forecasts); it is ½ where the test cannot be computed, and where the epoch has the larger loss.
    Squared errors are convex, so the mean loss of the combination is at most the weighted mean of the two losses. The
    bound is infinite where the epoch does not improve on `untrained` by `MARGIN`.

    With quantiles, the weight comes from the losses of the median, which alone is shrunk, and the bound, then an
    estimate, from those of all quantiles.

    Args:
        losses: losses of the epoch by date, from `losses_by_date`: the first one for the weight, the last one for the
            bound.
        untrained: losses of the model before training. With another number of dates there is no test.
        overlap: number of dates after which two windows have no step in common.
    """
    weight, point, untrained_point = 0.5, losses[:, 0], untrained[:, 0]
    if len(losses) == len(untrained) and point.mean() < untrained_point.mean():
        p_value = diebold_mariano(point.numpy(), untrained_point.numpy(), overlap).p_value
        weight = weight if math.isnan(p_value) else max(weight, 1 - p_value)
    before, after = float(untrained[:, -1].mean()), float(losses[:, -1].mean())
    is_better = after < (1 - MARGIN) * before
    return weight, before - weight * (before - after) if is_better else math.inf


def describe_untrained(name: str | None) -> str:
    """Say that the tested model is the one before training, and why; `name` is its `warm_start_name`."""
    return f"tested: the {name} without a correction, because no epoch was {MARGIN:.0%} better on validation windows"


def losses_by_date(module: L.LightningModule, data: DataModule) -> Float64[Tensor, "n_dates losses"]:
    """Sum the validation losses of the last epoch over the windows that begin on each date; their mean is the loss."""
    losses, windows = cast(Tensor, module.validation_losses), data.windows["val"]
    origins = windows.origins(torch.arange(len(windows), device=windows.device)).cpu().numpy()
    dates = data.panel.dates(origins).to_numpy()
    by_date = [torch.from_numpy(sum_losses_by_date(each.numpy(), dates)) for each in losses.unbind(1)]
    return torch.stack(by_date, dim=1)


def set_shrinkage(module: L.LightningModule, weight: float) -> None:
    """Set the shrinkage weight of the module's model, if it has one."""
    model = cast(ForecastModel, module.model)
    if model.shrinkage is not None:
        model.shrinkage.fill_(weight)


def saved_shrinkage(checkpoint: Mapping[str, Any]) -> float:
    """Read the shrinkage weight of the model in a checkpoint; 1 where it has none."""
    return float(checkpoint["state_dict"].get("model.shrinkage", 1))
