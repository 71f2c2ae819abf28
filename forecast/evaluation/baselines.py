"""Baselines that forecast the same windows as the model, and their fit to training rows."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from forecast.data import Batch, DataModule, Windows
from forecast.data.split import spread_stride
from forecast.data.windows import SEASONS_BACK
from forecast.evaluation.errors import seasonal_naive_mae
from forecast.evaluation.significance import choose_observations, diebold_mariano, sum_losses
from forecast.linear.covariate_steps import find_covariate_steps
from forecast.linear.fit import RIDGES, Choice, choose_linear_model, fit_and_test_grams, fit_choice, fit_least_squares
from forecast.linear.gram import Gram, window_gram
from forecast.models.linear_model import LinearWeights, without_covariates

LINEAR_LEVEL, NAIVE_LEVEL = 0.2, 0.05
"""Below these p-values the better one of the two, the linear model or the naive forecast, is used alone."""

MAX_VALUES = 1 << 24  # validation values on which forecasts are compared
WINDOWS_AT_ONCE = 256  # validation windows that are forecast at once

MAX_PRODUCTS, MAX_SQUARES = 1 << 28, 1 << 23
"""Largest product of the squared covariate values and the steps of all targets, and of the series and the squared steps
of a window, at which a choice takes few seconds."""

SAMPLE_DIVISOR = 8  # of the windows that are read one by one in a choice that need not be thorough
RIDGE = 1e-6  # of the linear baseline without covariates: with it, constant data has a solution


class Baseline(ABC):
    """A forecaster of the same windows as the model.

    If it `is_recursive`, the steps beyond the pred_len of training are forecast from forecasts. If not, the
    `windows.pred_len` of a call may exceed it.
    """

    name: ClassVar[str]  # key in `forecast.evaluation.scores.BASELINES`
    is_recursive: ClassVar[bool] = False
    weights: LinearWeights | None = None  # None: it is not linear and reads the past of the targets only

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
        shape = len(index), windows.pred_len, len(windows.target_index)
        found = torch.full(shape, torch.nan, device=windows.device)
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
        changes = torch.einsum("blc,lp->bpc", centred[..., targets], weights.past_weight.to(centred))
        forecast = changes + mean[..., targets]
        return forecast + weights.of_covariates(centred, batch.past_time, batch.future_time)


@dataclass(frozen=True)
class NaiveShrinkage:
    """A combination of a linear model and of a naive forecast."""

    season: int  # rows that the naive forecast repeats; 1: the last value
    weight: float  # of the linear model, from 0 to 1
    p_value: float | None = None  # of the test of equal errors; None: too few validation windows

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
        seasonal = f"the seasonal naive forecast of {self.season} rows"
        naive = "the naive forecast" if self.season == 1 else seasonal
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

    The better one is used alone if a Diebold-Mariano test finds it better, with p below `LINEAR_LEVEL` or
    `NAIVE_LEVEL`. Otherwise the weights are inverse to the squared errors, as for forecasts with independent errors
    (Bates and Granger 1969, The Combination of Forecasts), and that of the better one is at least 1 − p. Without a
    measured value there is nothing to compare, and the linear model is used alone.
    """
    seasons = sorted({1, *(season for season in data.candidate_seasons if season <= data.seq_len)})
    naive = [naive_weights(data.seq_len, data.pred_len, season) for season in seasons]
    stride = thin_validation(data, max(seasons))
    losses, overlap = compute_losses(data, [linear, *naive], stride)
    if not losses.size:
        return NaiveShrinkage(1, 1.0)
    best = 1 + int(losses[1:].mean(1).argmin())
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
        alone = p_value < (LINEAR_LEVEL if linear < naive else NAIVE_LEVEL)
        of_better = 1.0 if alone else max(of_better, 1 - p_value)
    return of_better if linear < naive else 1 - of_better


def compute_losses(
    data: DataModule, models: list[LinearWeights], stride: int
) -> tuple[Float[np.ndarray, "models observations"], int]:
    """Compute the MSE of linear models on every `stride`-th validation window, summed by observation.

    Windows without a measured value are left out. The second result is the number of neighbours that share steps, see
    `choose_observations`.
    """
    windows, losses = data.windows["val"], []
    numbers = torch.arange(0, len(windows), stride, device=windows.device)
    for index in numbers.split(WINDOWS_AT_ONCE):
        batch = windows.gather(index)
        errors = [(Linear(model)(windows, batch) - batch.future).double().square() for model in models]
        losses.append(torch.stack([each.nanmean((1, 2)) for each in errors]).cpu())
    by_window = torch.cat(losses, dim=1).numpy()
    is_measured = np.isfinite(by_window).all(0)
    if not is_measured.any():
        return np.empty((len(models), 0)), 1
    dates, series = (each[is_measured] for each in windows.locate(data.panel, numbers))
    # of many series, other windows of each date are left out, but no dates
    overlap = math.ceil(windows.overlap / stride) if len(windows.starts) == 1 else windows.overlap
    observations, overlap = choose_observations(dates, series, overlap)
    return np.stack([sum_losses(each[is_measured], observations) for each in by_window]), overlap


@dataclass
class FittedBaselines:
    """Parameters of the baselines and of MASE, fitted to training rows and saved in checkpoints.

    `naive_mae` has the season of the data, not that of the seasonal naive, so that MASE does not depend on the choice
    and stays comparable with published values.
    """

    linear: LinearWeights
    naive_mae: Float[Tensor, "series n_targets"]  # seasonal-naive MAE of the training rows in original units
    seasonal_naive_season: int  # rows that the seasonal naive repeats
    ids: Sequence[str]
    gram: Gram | None = None  # over the training windows, for a warm start; None in a checkpoint
    choice: Choice | None = None  # that `choose_linear_model` returned; None: not chosen yet
    shrinkage: NaiveShrinkage | None = None  # of the linear model of a warm start; None: not chosen yet

    @classmethod
    def fit(cls, data: DataModule, *, thorough: bool = True) -> "FittedBaselines":
        """Fit to the training rows of `data`.

        Without covariates, the linear baseline is least squares. With covariates, its settings are chosen on later
        windows, because there are too many weights for plain least squares. Unless `thorough`, fewer settings are
        compared, on validation windows alone, and fewer windows are read, where all would take over some seconds.
        """
        train, steps, choice = data.windows["train"], data.seq_len + data.pred_len, None
        n_values = len(find_covariate_steps(train).step)
        is_short = n_values**2 * data.n_targets * steps <= MAX_PRODUCTS
        if thorough or (is_short and len(train.starts) * steps**2 <= MAX_SQUARES):
            gram = window_gram(train)
            if gram.steps.roles:
                choice = choose_linear_model(fit_and_test_grams(data, gram))
        else:
            gram = window_gram(train, SAMPLE_DIVISOR)
            tested = window_gram(data.windows["val"], SAMPLE_DIVISOR)
            choice = choose_linear_model([(gram, tested)], ridges=RIDGES[::2])
        linear = fit_linear_baseline(gram, choice)
        rows, scaler = data.rows["train"], data.target_scaler
        naive_mae = seasonal_naive_mae(train.values, train.target_index, scaler, rows, data.season)
        return cls(linear, naive_mae, choose_season(data), data.panel.ids.tolist(), gram, choice)

    def refit(self, data: DataModule) -> "FittedBaselines":
        """The same baselines, with the linear one fitted again to the training windows of `data`."""
        gram = window_gram(data.windows["train"])
        return replace(self, linear=fit_linear_baseline(gram, self.choice))

    def fit_linear(self, data: DataModule, chosen_on: DataModule) -> LinearWeights:
        """Fit the linear model of a warm start to the training windows of `data`, and shrink it to a naive forecast.

        The settings and the shrinkage are chosen once, for the first model and for a refit, on the windows of
        `chosen_on`, the data that the baselines are fitted to.
        """
        assert self.gram is not None, "baselines of a checkpoint fit no linear model"
        if self.choice is None:
            self.choice = choose_linear_model(fit_and_test_grams(chosen_on, self.gram))
        if self.shrinkage is None:
            self.shrinkage = choose_naive_shrinkage(chosen_on, fit_choice(self.gram, self.choice))
        gram = self.gram if data is chosen_on else window_gram(data.windows["train"])
        return self.shrinkage.apply(fit_choice(gram, self.choice))

    def describe_choices(self) -> dict[str, dict[str, Any]]:
        """The settings of the linear model that were chosen, in values that JSON can hold; empty if none were.

        See `Choice` and `NaiveShrinkage`. The baseline `linear` is not shrunk.
        """
        if self.choice is None or self.gram is None:
            return {}
        choice, shrinkage = self.choice, self.shrinkage
        about = {"ridge": choice.ridge, "regressions": choice.n_lookbacks, "covariates": list(choice.roles)}
        about |= {} if shrinkage is None else {"shrinkage": asdict(shrinkage)}
        return {"with_covariates" if self.gram.steps.roles else "without_covariates": about}

    def baselines(self) -> dict[str, Baseline]:
        """The baselines by name, in the order of `BASELINES`."""
        made = Naive(), SeasonalNaive(self.seasonal_naive_season), Linear(self.linear)
        return {baseline.name: baseline for baseline in made}

    def naive_mae_of(self, ids: pd.Index) -> Float[Tensor, "series n_targets"]:
        """`naive_mae` of the series with these ids; NaN for a series without training rows."""
        place = pd.Index(self.ids).get_indexer(ids)
        found = self.naive_mae[place].clone()
        found[torch.from_numpy(place < 0)] = torch.nan
        return found

    def state_dict(self) -> dict[str, Any]:
        """The content of a checkpoint. The ids of the series are in the state of the data module."""
        covariates = self.linear.tensors()
        linear = {"linear": covariates.pop("past_weight"), "covariates": covariates}
        return {**linear, "naive_mae": self.naive_mae, "season": self.seasonal_naive_season}

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any], ids: Sequence[str]) -> "FittedBaselines":
        linear = LinearWeights.from_tensors({"past_weight": state["linear"], **state["covariates"]})
        return cls(linear, state["naive_mae"], state["season"], ids)


def fit_linear_baseline(gram: Gram, choice: Choice | None) -> LinearWeights:
    """Fit the linear baseline: with the chosen settings where covariates can be read, otherwise least squares."""
    if choice is None or not gram.steps.roles:
        return fit_least_squares(gram, RIDGE)
    return fit_choice(gram, choice)


def choose_season(data: DataModule) -> int:
    """Choose the one of `data.candidate_seasons` with the lowest MSE of the seasonal naive on validation windows.

    Of equally good seasons it is the first. Many windows are thinned, see `thin_validation`.
    """
    first, *others = data.candidate_seasons
    if not others:
        return first
    windows = data.windows["val"]
    chosen = torch.arange(0, len(windows), thin_validation(data, max(data.candidate_seasons)))
    errors = dict.fromkeys(data.candidate_seasons, 0.0)
    for index in chosen.split(WINDOWS_AT_ONCE):
        batch = windows.gather(index.to(windows.device))
        for season in errors:
            forecast = SeasonalNaive(season)(windows, batch)
            errors[season] += (forecast - batch.future).double().square().nansum().item()
    return min(errors, key=errors.__getitem__)


def describe_season(data: DataModule, chosen: int) -> str:
    """Describe the season of the data, and the season of the seasonal naive if it was selected among several."""
    if len(data.candidate_seasons) == 1:
        return f"{data.season} rows"
    others = " and ".join(map(str, data.candidate_seasons))
    return f"{data.season} rows; seasonal naive: {chosen} rows, selected from {others} on validation windows"
