"""Baselines that forecast the same windows as the model: naive, seasonal-naive and linear."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from forecast.data import Batch, DataModule, Windows
from forecast.data.missing import SEASONS_BACK
from forecast.data.scaled_panel import ScaledPanel
from forecast.data.window_starts import spread_stride
from forecast.evaluation.covariate_steps import covariates_of_linear
from forecast.evaluation.gram import Gram, window_gram
from forecast.evaluation.linear_fit import Choice, choose, fit_and_test_grams, fit_choice, fit_least_squares
from forecast.evaluation.naive_mae import TargetValues, seasonal_naive_mae
from forecast.models.linear_model import LinearWeights

WINDOWS_AT_ONCE = 256
"""Number of validation windows that are forecast at once."""

MAX_SEASON_VALUES = 1 << 24
"""Largest number of validation values on which the season of the seasonal naive is chosen."""

RIDGE = 1e-6
"""Ridge of the linear baseline without covariates. With it, constant data has a solution."""


class Baseline(ABC):
    """A forecaster of the same windows as the model.

    Attributes:
        name: key of the baseline in `forecast.evaluation.names.BASELINES`.
        reads_own_forecasts: whether the steps beyond pred_len are forecast from forecasts. Otherwise the baseline
            forecasts any number of steps.
    """

    name: ClassVar[str]
    reads_own_forecasts: ClassVar[bool] = False

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
        return frozenset()


class Naive(Baseline):
    """Forecast the last measured value at every step; 0, the center after scaling, if the window has none."""

    name = "naive"

    def describe(self) -> str:
        return "repeats the last value"

    def __call__(self, windows: Windows, batch: Batch) -> Float[Tensor, "batch pred_len n_targets"]:
        return last_measured(windows, batch)[:, None].expand(-1, windows.pred_len, -1)


def last_measured(windows: Windows, batch: Batch) -> Float[Tensor, "batch n_targets"]:
    """The last measured value of each target in the past of each window."""
    past = batch.past[..., windows.target_index]
    if windows.fill is None:
        return past[:, -1]
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
    reads_own_forecasts = True

    def __init__(self, weights: LinearWeights) -> None:
        self.weights = weights

    def describe(self) -> str:
        return "fitted to the training rows"

    def covariates_ahead(self, scaled: ScaledPanel) -> frozenset[int]:
        read = covariates_of_linear(self.weights, scaled)
        return frozenset(covariate for covariate, is_ahead in read.items() if is_ahead)

    def __call__(self, windows: Windows, batch: Batch) -> Float[Tensor, "batch pred_len n_targets"]:
        weights, targets = self.weights.to(batch.past.device), windows.target_index
        mean = batch.past.mean(1, keepdim=True)
        centred = batch.past - mean
        forecast = (
            torch.einsum("blc,lp->bpc", centred[..., targets], weights.own.to(centred)) + mean[..., targets]
        )
        return forecast + weights.of_covariates(centred, batch.past_time, batch.future_time)


@dataclass(frozen=True)
class FittedBaselines:
    """Parameters of the baselines and of MASE, fitted to training rows and saved in checkpoints.

    Attributes:
        linear: weights of the linear baseline.
        naive_mae: seasonal-naive MAE of the training rows of each series in data units (series, n_targets).
        naive_season: number of rows that the seasonal naive repeats. `naive_mae` has the season of the data instead, so
            that MASE does not depend on the choice and stays comparable with published values.
        ids: names of the series.
        gram: sums over the training windows, for a warm start; None if read from a checkpoint.
        choice: settings of the linear baseline, if they were chosen: a warm start has the same.
    """

    linear: LinearWeights
    naive_mae: Float[Tensor, "series n_targets"]
    naive_season: int
    ids: Sequence[str]
    gram: Gram | None = None
    choice: Choice | None = None

    @classmethod
    def fit(cls, data: DataModule) -> "FittedBaselines":
        """Fit to the training rows of `data`.

        Without covariates, the linear baseline is least squares. With covariates, its settings are chosen on later
        windows, because there are too many weights for plain least squares.
        """
        train = data.windows["train"]
        gram = window_gram(train)
        choice = choose(fit_and_test_grams(data, gram)) if gram.steps.kinds else None
        linear = fit_choice(gram, choice) if choice else fit_least_squares(gram, RIDGE)
        values = TargetValues(train.values, train.target_index, data.target_scaler)
        naive_mae = seasonal_naive_mae(values, data.rows["train"], data.season)
        return cls(linear, naive_mae, choose_season(data), data.panel.ids.tolist(), gram, choice)

    def baselines(self) -> dict[str, Baseline]:
        """The baselines by name."""
        made = Naive(), SeasonalNaive(self.naive_season), Linear(self.linear)
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
        own = covariates.pop("own")
        return {
            "linear": own,
            "covariates": covariates,
            "naive_mae": self.naive_mae,
            "season": self.naive_season,
        }

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any], ids: Sequence[str]) -> "FittedBaselines":
        """The baselines of a checkpoint."""
        linear = LinearWeights.from_tensors({"own": state["linear"], **state.get("covariates", {})})
        return cls(linear, state["naive_mae"], state["season"], ids)


def choose_season(data: DataModule) -> int:
    """Choose the one of `data.naive_seasons` with the lowest MSE of the seasonal naive on validation windows.

    Of equally good seasons it is the first. More than `MAX_SEASON_VALUES` values are thinned to evenly spaced windows.
    """
    first, *others = data.naive_seasons
    if not others:
        return first
    windows = data.windows["val"]
    most = max(1, MAX_SEASON_VALUES // (data.pred_len * data.n_targets))
    chosen = torch.arange(0, len(windows), spread_stride(len(windows), most, max(data.naive_seasons)))
    errors = dict.fromkeys(data.naive_seasons, 0.0)
    for index in chosen.split(WINDOWS_AT_ONCE):
        batch = windows.gather(index.to(windows.device))
        for season in errors:
            forecast = SeasonalNaive(season)(windows, batch)
            errors[season] += (forecast - batch.future).double().square().nansum().item()
    return min(errors, key=errors.__getitem__)


def describe_season(data: DataModule, naive_season: int) -> str:
    """Describe the season of the data, and the one that the seasonal naive repeats where it was chosen."""
    if len(data.naive_seasons) == 1:
        return f"{data.season} rows"
    others = " and ".join(f"{season}" for season in data.naive_seasons)
    return f"{naive_season} rows for the seasonal naive, the best of {others} on validation windows; else {data.season}"
