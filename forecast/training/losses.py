"""The training losses, on scaled values, and the losses of windows that select the best epoch."""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from forecast.data import Batch
from forecast.data.scaling.scaler import Scaler
from forecast.evaluation.errors import window_errors
from forecast.evaluation.intervals import pinball
from forecast.models.residual import take_median
from forecast.training.trainer_checks import LOSSES, check_loss


def make_loss(name: str, quantiles: tuple[float, ...] | None) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the loss of a forecast and its target: one of `LOSSES`, or the mean pinball loss of the quantiles.

    Raises:
        ConfigError: there is no loss of this name.
    """
    check_loss(name)
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
