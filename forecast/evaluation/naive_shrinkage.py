"""Shrinkage of a linear model towards a naive forecast, with a weight from a test on validation windows."""

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float

from forecast.data import DataModule, Windows
from forecast.data.window_starts import spread_stride
from forecast.evaluation.baselines import Linear
from forecast.evaluation.significance import diebold_mariano, sum_losses_by_date
from forecast.models.linear_model import LinearWeights, without_covariates

LINEAR_ALONE, NAIVE_ALONE = 0.2, 0.05
"""p-values below which the better one is used alone. The linear model is, unless there is more doubt."""

MAX_VALUES = 1 << 24
"""Largest number of validation values on which the two forecasts are compared."""

WINDOWS_AT_ONCE = 256


@dataclass(frozen=True)
class NaiveShrinkage:
    """A combination of a linear model and of a naive forecast.

    Attributes:
        season: rows that the naive forecast repeats; 1: the last value.
        weight: weight of the linear model, from 0 to 1.
    """

    season: int
    weight: float

    def apply(self, linear: LinearWeights) -> LinearWeights:
        """Return the linear model that forecasts weight · linear + (1 − weight) · naive."""
        if self.weight == 1:
            return linear
        seq_len, pred_len = linear.past_weight.shape
        naive = naive_weights(seq_len, pred_len, self.season)
        if self.weight == 0:
            return naive
        past_weight = torch.lerp(naive.past_weight.to(linear.past_weight), linear.past_weight, self.weight)
        return replace(linear, past_weight=past_weight, covariates=self.weight * linear.covariates)

    def describe(self) -> str:
        """Say what the combination consists of; empty if it is the linear model alone."""
        if self.weight == 1:
            return ""
        rows = "value" if self.season == 1 else f"{self.season} rows"
        naive = f"naive forecast, which repeats the last {rows}"
        if self.weight == 0:
            return f"replaced by the {naive}, which is more accurate on validation windows"
        return f"{self.weight:.0%}, and {1 - self.weight:.0%} of the {naive}; validation windows do not tell them apart"


def naive_weights(seq_len: int, pred_len: int, season: int) -> LinearWeights:
    """The naive forecast that repeats the last `season` rows of the window, as a linear model."""
    weight, step = torch.zeros(seq_len, pred_len), torch.arange(pred_len)
    weight[seq_len - season + step % season, step] = 1
    return without_covariates(weight)


def choose_naive_shrinkage(data: DataModule, linear: LinearWeights) -> NaiveShrinkage:
    """Choose the weight of a linear model beside the naive forecast with the lowest error on validation windows.

    The weight of the better one is 1 − p, p the p-value of the Diebold-Mariano test of the two. It is at least ½,
    because the mean of two forecasts of equal accuracy is more accurate than either (Bates and Granger 1969, The
    Combination of Forecasts), and 1 where p is below `LINEAR_ALONE` or `NAIVE_ALONE`. Where the test cannot be
    computed it is ½.
    """
    windows = data.windows["val"]
    seasons = sorted({1, *(season for season in data.candidate_seasons if season <= data.seq_len)})
    naive = [naive_weights(data.seq_len, data.pred_len, season) for season in seasons]
    most = max(1, MAX_VALUES // (data.pred_len * data.n_targets))
    stride = spread_stride(len(windows), most, max(seasons))
    losses = compute_losses(data, windows, [linear, *naive], stride)
    best = 1 + int(losses[1:].mean(1).argmin())
    difference = diebold_mariano(losses[0], losses[best], math.ceil(windows.overlap / stride))
    return NaiveShrinkage(seasons[best - 1], weigh_linear(difference.mean < 0, difference.p_value))


def weigh_linear(is_better: bool, p_value: float) -> float:
    """Return the weight of the linear model from a test; see `choose_naive_shrinkage`."""
    if math.isnan(p_value):
        return 0.5
    of_better = 1.0 if p_value < (LINEAR_ALONE if is_better else NAIVE_ALONE) else max(0.5, 1 - p_value)
    return of_better if is_better else 1 - of_better


def compute_losses(
    data: DataModule, windows: Windows, models: list[LinearWeights], stride: int
) -> Float[np.ndarray, "models n_dates"]:
    """Compute the MSE of linear models on every `stride`-th window, as a mean over the windows of each date."""
    numbers, losses = torch.arange(0, len(windows), stride, device=windows.device), []
    for index in numbers.split(WINDOWS_AT_ONCE):
        batch = windows.gather(index)
        errors = [(Linear(model)(windows, batch) - batch.future).double().square() for model in models]
        losses.append(torch.stack([each.nanmean((1, 2)) for each in errors]).cpu())
    by_window = torch.cat(losses, dim=1).numpy()
    is_measured = np.isfinite(by_window).all(0)
    dates = data.panel.dates(windows.origins(numbers).cpu().numpy()).to_numpy()[is_measured]
    return np.stack([sum_losses_by_date(each[is_measured], dates) for each in by_window])
