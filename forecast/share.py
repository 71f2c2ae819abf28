"""How much of what an epoch adds to a model that begins with a linear map is used: as much as one can be sure of."""

import math
from typing import cast

import lightning as L
import torch
from jaxtyping import Float64
from torch import Tensor

from forecast.data import ForecastData
from forecast.significance import by_date, diebold_mariano

MARGIN = 0.01
"""By what share an epoch must better the score from before training: less than this is the validation split's luck."""


def share_and_error(
    losses: Float64[Tensor, " n_dates"], start: Float64[Tensor, " other_dates"], overlap: int
) -> tuple[float, float]:
    """The share of an epoch's additions to the model before training that is used, given both models' losses by date.

    It is 1 − the p-value of the Diebold-Mariano test of windows that overlap, and half where that is less or cannot be
    told (too few dates, or others than before training), for the mean of two forecasts that err alike errs less than
    either (Bates and Granger 1969, The Combination of Forecasts). Then what the mean loss of the two, so combined, is
    at most, for squares are convex; infinite where the epoch is not better by `MARGIN`.
    """
    share = 0.5
    if len(losses) == len(start):
        p_value = diebold_mariano(losses.numpy(), start.numpy(), overlap).p_value
        share = share if math.isnan(p_value) else max(share, 1 - p_value)
    before, after = float(start.mean()), float(losses.mean())
    is_better = after < (1 - MARGIN) * before
    return share, before - share * (before - after) if is_better else math.inf


def losses_by_date(module: L.LightningModule, data: ForecastData) -> Float64[Tensor, " n_dates"]:
    """Validation MSE of the windows whose forecasts begin on each date, of the epoch last validated."""
    losses, windows = cast(Tensor, module.validation_windows), data.windows["val"]
    origins = windows.origins(torch.arange(len(windows), device=windows.values.device))
    return torch.from_numpy(by_date(losses.numpy(), data.dates(origins.cpu().numpy()).to_numpy()))


def has_share(module: L.LightningModule) -> bool:
    """Whether its model is one that may begin with a linear map, of whose additions a share is used."""
    return hasattr(module.model, "share")


def set_share(module: L.LightningModule, share: float) -> None:
    """Of what its encoder-decoder adds, where the model has a share."""
    if has_share(module):
        module.model.share.fill_(share)  # type: ignore[union-attr, operator]
