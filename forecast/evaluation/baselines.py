"""Baselines that forecast the same windows as the model: naive, seasonal-naive and linear."""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from forecast.data import Batch, Windows
from forecast.data.fill import SEASONS_BACK
from forecast.data.scaled_panel import ScaledPanel
from forecast.linear.covariate_steps import covariates_of_linear
from forecast.models.linear_model import LinearWeights


class Baseline(ABC):
    """A forecaster of the same windows as the model.

    Attributes:
        name: key of the baseline in `forecast.evaluation.forecaster_names.BASELINES`.
        is_recursive: whether the steps beyond the pred_len of training are forecast from forecasts. If not, the
            `windows.pred_len` of a call may exceed it.
        weights: weights of the linear model; None: the baseline is not linear and reads the past of the targets only.
    """

    name: ClassVar[str]
    is_recursive: ClassVar[bool] = False
    weights: LinearWeights | None = None

    @abstractmethod
    def __call__(self, windows: Windows, batch: Batch) -> Float[Tensor, "batch pred_len n_targets"]:
        """Compute the scaled forecasts of one batch of `windows`."""

    @abstractmethod
    def describe(self) -> str:
        """Say in a few words how the baseline forecasts."""

    @property
    def history(self) -> int:
        """Rows before a forecast that the baseline reads, where these may be more than the window."""
        return 0

    def covariates_ahead(self, scaled: ScaledPanel) -> frozenset[int]:
        """The numbers of the future covariates that the baseline reads after the forecast origin."""
        read = {} if self.weights is None else covariates_of_linear(self.weights, scaled)
        return frozenset(covariate for covariate, is_ahead in read.items() if is_ahead)


class Naive(Baseline):
    """Forecast the last measured value at every step; 0, the center after scaling, if the window has none."""

    name = "naive"

    def describe(self) -> str:
        return "repeats the last value"

    def __call__(self, windows: Windows, batch: Batch) -> Float[Tensor, "batch pred_len n_targets"]:
        return last_measured(windows, batch)[:, None].expand(-1, windows.pred_len, -1)


def last_measured(windows: Windows, batch: Batch) -> Float[Tensor, "batch n_targets"]:
    """The last measured value of each target in the past of each window."""
    if windows.fill is None:
        return batch.past[:, -1][:, windows.target_index]
    past = batch.past[..., windows.target_index]
    measured = windows.measured(batch.index.to(windows.device)).to(past.device)[..., windows.target_index]
    step = torch.arange(1, past.shape[1] + 1, device=past.device)[:, None]
    last = torch.where(measured, step, 0).amax(1)  # 0: none
    found = past.gather(1, (last - 1).clamp(min=0)[:, None])[:, 0]
    return torch.where(last > 0, found, 0.0)


class SeasonalNaive(Baseline):
    """Repeat the last season before the forecast, which may begin before the window.

    A step whose value one season earlier is missing gets the value two seasons earlier, and so on, up to `SEASONS_BACK`
    seasons. A step for which there is none gets the last measured value.
    """

    name = "seasonal_naive"

    def __init__(self, season: int) -> None:
        self.season = season

    def describe(self) -> str:
        return f"repeats the last {self.season:,} rows"

    @property
    def history(self) -> int:
        return SEASONS_BACK * self.season

    def __call__(self, windows: Windows, batch: Batch) -> Float[Tensor, "batch pred_len n_targets"]:
        index = batch.index.to(windows.device)
        phase = torch.arange(windows.pred_len, device=windows.device) % self.season
        origins, first = windows.origins(index)[:, None], windows.first_rows[windows.series(index)][:, None]
        last = last_measured(windows, batch)[:, None].to(windows.device)
        found = torch.full(
            (len(index), windows.pred_len, len(windows.target_index)), torch.nan, device=windows.device
        )
        for seasons in range(1, SEASONS_BACK + 1 if windows.fill else 2):
            rows = origins + phase - seasons * self.season  # (batch, pred_len)
            earlier = windows.targets(rows.clamp(min=first))
            earlier = torch.where((rows < first)[..., None], torch.nan, earlier)
            found = torch.where(found.isnan(), earlier, found)
        return torch.where(found.isnan(), last, found).to(batch.past.device)


class Linear(Baseline):
    """A linear model of the past of a target minus its mean, and of the covariates that lower its validation error."""

    name = "linear"
    is_recursive = True
    weights: LinearWeights

    def __init__(self, weights: LinearWeights) -> None:
        self.weights = weights

    def describe(self) -> str:
        return "fitted to the training rows"

    def __call__(self, windows: Windows, batch: Batch) -> Float[Tensor, "batch pred_len n_targets"]:
        weights, targets = self.weights.to(batch.past.device), windows.target_index
        mean = batch.past.mean(1, keepdim=True)
        centred = batch.past - mean
        forecast = (
            torch.einsum("blc,lp->bpc", centred[..., targets], weights.past_weight.to(centred))
            + mean[..., targets]
        )
        return forecast + weights.of_covariates(centred, batch.past_time, batch.future_time)
