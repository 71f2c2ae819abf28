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
"""Below these p-values the better one of the two, the linear model or the naive forecast, is used alone."""

MAX_VALUES = 1 << 24
"""Largest number of validation values on which forecasts are compared."""

WINDOWS_AT_ONCE = 256
"""Number of validation windows that are forecast at once."""


@dataclass(frozen=True)
class NaiveShrinkage:
    """A combination of a linear model and of a naive forecast.

    Attributes:
        season: rows that the naive forecast repeats; 1: the last value.
        weight: weight of the linear model, from 0 to 1.
        p_value: of the test that the two have equal errors; None if there are too few validation windows for a test.
    """

    season: int
    weight: float
    p_value: float | None = None

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
        naive = (
            "the naive forecast" if self.season == 1 else f"the seasonal naive forecast of {self.season} rows"
        )
        if self.weight == 0:
            return f"replaced by {naive}, which has a lower error on validation windows"
        why = "too few validation windows for a test" if self.p_value is None else f"p = {self.p_value:.2g}"
        return f"{self.weight:.0%} linear regression and {1 - self.weight:.0%} {naive} ({why})"


def naive_weights(seq_len: int, pred_len: int, season: int) -> LinearWeights:
    """The naive forecast that repeats the last `season` rows of the window, as a linear model."""
    weight, step = torch.zeros(seq_len, pred_len), torch.arange(pred_len)
    weight[seq_len - season + step % season, step] = 1
    return without_covariates(weight)


def choose_naive_shrinkage(data: DataModule, linear: LinearWeights) -> NaiveShrinkage:
    """Choose the weight of a linear model beside the naive forecast with the lowest error on validation windows.

    The better one is used alone if a Diebold-Mariano test finds it better, with p below `LINEAR_ALONE` or
    `NAIVE_ALONE`. Otherwise the weights are inverse to the squared errors, as for forecasts with independent errors
    (Bates and Granger 1969, The Combination of Forecasts), and that of the better one is at least 1 − p. Without a
    measured value there is nothing to compare, and the linear model is used alone.
    """
    windows = data.windows["val"]
    seasons = sorted({1, *(season for season in data.candidate_seasons if season <= data.seq_len)})
    naive = [naive_weights(data.seq_len, data.pred_len, season) for season in seasons]
    stride = thin_validation(data, max(seasons))
    losses = compute_losses(data, windows, [linear, *naive], stride)
    if not losses.size:
        return NaiveShrinkage(1, 1.0)
    best = 1 + int(losses[1:].mean(1).argmin())
    # of many series, other windows of each date are left out, but no dates
    overlap = math.ceil(windows.overlap / stride) if len(windows.starts) == 1 else windows.overlap
    p_value = diebold_mariano(losses[0], losses[best], overlap).p_value
    tested = None if math.isnan(p_value) else p_value
    weight = weigh_linear(float(losses[0].mean()), float(losses[best].mean()), tested)
    return NaiveShrinkage(seasons[best - 1], weight, tested)


def thin_validation(data: DataModule, season: int) -> int:
    """Return the stride that leaves validation windows of at most `MAX_VALUES` values, at all phases of the season."""
    most = max(1, MAX_VALUES // (data.pred_len * data.n_targets))
    return spread_stride(len(data.windows["val"]), most, season)


def weigh_linear(linear: float, naive: float, p_value: float | None) -> float:
    """Return the weight of the linear model from the two errors and their test; see `choose_naive_shrinkage`."""
    if linear == naive:
        return 0.5
    of_better = max(linear, naive) / (linear + naive)
    if p_value is not None:
        alone = p_value < (LINEAR_ALONE if linear < naive else NAIVE_ALONE)
        of_better = 1.0 if alone else max(of_better, 1 - p_value)
    return of_better if linear < naive else 1 - of_better


def compute_losses(
    data: DataModule, windows: Windows, models: list[LinearWeights], stride: int
) -> Float[np.ndarray, "models n_dates"]:
    """Compute the MSE of linear models on every `stride`-th window, summed by date (see `sum_losses_by_date`).

    Windows without a measured value are left out.
    """
    numbers, losses = torch.arange(0, len(windows), stride, device=windows.device), []
    for index in numbers.split(WINDOWS_AT_ONCE):
        batch = windows.gather(index)
        errors = [(Linear(model)(windows, batch) - batch.future).double().square() for model in models]
        losses.append(torch.stack([each.nanmean((1, 2)) for each in errors]).cpu())
    by_window = torch.cat(losses, dim=1).numpy()
    is_measured = np.isfinite(by_window).all(0)
    if not is_measured.any():
        return np.empty((len(models), 0))
    dates = data.panel.dates(windows.origins(numbers).cpu().numpy()).to_numpy()[is_measured]
    return np.stack([sum_losses_by_date(each[is_measured], dates) for each in by_window])
