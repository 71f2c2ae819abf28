"""Baselines fitted to training rows: their parameters, the denominator of MASE, and the choice of their settings."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from forecast.data import DataModule
from forecast.evaluation.baselines import Baseline, Linear, Naive, SeasonalNaive
from forecast.evaluation.forecaster_names import BASELINES
from forecast.evaluation.naive_mae import TargetValues, seasonal_naive_mae
from forecast.evaluation.naive_shrinkage import (
    WINDOWS_AT_ONCE,
    NaiveShrinkage,
    choose_naive_shrinkage,
    thin_validation,
)
from forecast.linear.covariate_steps import find_covariate_steps
from forecast.linear.fit import (
    RIDGES,
    Choice,
    choose_linear_model,
    fit_and_test_grams,
    fit_choice,
    fit_least_squares,
)
from forecast.linear.gram import Gram, window_gram
from forecast.models.linear_model import LinearWeights

MAX_PRODUCTS = 1 << 30
"""Largest product of the squared covariate values and the steps of all targets at which a choice takes few seconds."""

SAMPLE_DIVISOR = 8
"""Divisor of the windows that are read one by one where the choice of settings need not be thorough."""

RIDGE = 1e-6
"""Ridge of the linear baseline without covariates. With it, constant data has a solution."""


@dataclass(frozen=True)
class FittedBaselines:
    """Parameters of the baselines and of MASE, fitted to training rows and saved in checkpoints.

    Attributes:
        linear: weights of the linear baseline.
        naive_mae: seasonal-naive MAE of the training rows of each series in original units (series, n_targets).
        seasonal_naive_season: number of rows that the seasonal naive repeats. `naive_mae` has the season of the data
            instead, so that MASE does not depend on the choice and stays comparable with published values.
        ids: names of the series.
        gram: sums over the training windows, for a warm start; None if read from a checkpoint.
        choices: the settings of linear models that `choose_linear_model` returned, with and without covariates.
        shrinkages: what the linear models of a warm start are combined with, with and without covariates.
    """

    linear: LinearWeights
    naive_mae: Float[Tensor, "series n_targets"]
    seasonal_naive_season: int
    ids: Sequence[str]
    gram: Gram | None = None
    choices: dict[bool, Choice] = field(default_factory=dict)
    shrinkages: dict[bool, NaiveShrinkage] = field(default_factory=dict)

    @classmethod
    def fit(cls, data: DataModule, *, thorough: bool = True) -> "FittedBaselines":
        """Fit to the training rows of `data`.

        Without covariates, the linear baseline is least squares. With covariates, its settings are chosen on later
        windows, because there are too many weights for plain least squares. Unless `thorough`, fewer settings are
        compared, on validation windows alone, and fewer windows are read, where all would take over some seconds.
        """
        train = data.windows["train"]
        products = (
            len(find_covariate_steps(train).step) ** 2 * data.n_targets * (data.seq_len + data.pred_len)
        )
        if thorough or products <= MAX_PRODUCTS:
            gram = window_gram(train)
            choices = {True: choose_linear_model(fit_and_test_grams(data, gram))} if gram.steps.roles else {}
        else:
            gram = window_gram(train, SAMPLE_DIVISOR)
            choices = {
                True: choose_linear_model(
                    [(gram, window_gram(data.windows["val"], SAMPLE_DIVISOR))], ridges=RIDGES[::2]
                )
            }
        linear = fit_linear_baseline(gram, choices.get(True))
        values = TargetValues(train.values, train.target_index, data.target_scaler)
        naive_mae = seasonal_naive_mae(values, data.rows["train"], data.season)
        return cls(linear, naive_mae, choose_season(data), data.panel.ids.tolist(), gram, choices)

    def refit(self, data: DataModule) -> "FittedBaselines":
        """The same baselines, with the linear one fitted again to the training windows of `data`."""
        gram = window_gram(data.windows["train"])
        return replace(self, linear=fit_linear_baseline(gram, self.choices.get(True)))

    def fit_linear(
        self, data: DataModule, chosen_on: DataModule, *, covariates: bool = True
    ) -> LinearWeights:
        """Fit the linear model of a warm start to the training windows of `data`, and shrink it to a naive forecast.

        The settings and the shrinkage are chosen once, for the first model and for a refit.

        Args:
            data: the model is fitted on its training windows.
            chosen_on: the data that the baselines are fitted to; the settings are chosen on its windows.
            covariates: whether covariates may be read.
        """
        assert self.gram is not None, "baselines of a checkpoint fit no linear model"
        reads = covariates and bool(self.gram.steps.roles)
        if reads not in self.choices:
            self.choices[reads] = choose_linear_model(
                fit_and_test_grams(chosen_on, self.gram), covariates=reads
            )
        if reads not in self.shrinkages:
            own = fit_choice(self.gram, self.choices[reads])
            self.shrinkages[reads] = choose_naive_shrinkage(chosen_on, own)
        gram = self.gram if data is chosen_on else window_gram(data.windows["train"])
        return self.shrinkages[reads].apply(fit_choice(gram, self.choices[reads]))

    def describe_choices(self) -> dict[str, dict[str, Any]]:
        """The settings of the linear models that were chosen, in values that JSON can hold.

        See `Choice` and `NaiveShrinkage`. The baseline `linear` is not shrunk.
        """
        names = {True: "with_covariates", False: "without_covariates"}
        described = {}
        for reads, choice in self.choices.items():
            about = {
                "ridge": choice.ridge,
                "regressions": choice.n_lookbacks,
                "covariates": list(choice.roles),
            }
            if shrinkage := self.shrinkages.get(reads):
                about["shrinkage"] = asdict(shrinkage)
            described[names[reads]] = about
        return described

    def baselines(self) -> dict[str, Baseline]:
        """The baselines by name, in the order of `BASELINES`."""
        made = Naive(), SeasonalNaive(self.seasonal_naive_season), Linear(self.linear)
        by_name = {baseline.name: baseline for baseline in made}
        return {name: by_name[name] for name in BASELINES}

    def naive_mae_of(self, ids: pd.Index) -> Float[Tensor, "series n_targets"]:
        """`naive_mae` of the series with these ids; NaN for a series without training rows."""
        place = pd.Index(self.ids).get_indexer(ids)
        found = self.naive_mae[place].clone()
        found[torch.from_numpy(place < 0)] = torch.nan
        return found

    def state_dict(self) -> dict[str, Any]:
        """The content of a checkpoint. The ids of the series are in the state of the data module."""
        covariates = self.linear.tensors()
        past_weight = covariates.pop("past_weight")
        return {
            "linear": past_weight,
            "covariates": covariates,
            "naive_mae": self.naive_mae,
            "season": self.seasonal_naive_season,
        }

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any], ids: Sequence[str]) -> "FittedBaselines":
        """The baselines of a checkpoint."""
        linear = LinearWeights.from_tensors({"past_weight": state["linear"], **state.get("covariates", {})})
        return cls(linear, state["naive_mae"], state["season"], ids)


def fit_linear_baseline(gram: Gram, choice: Choice | None) -> LinearWeights:
    """Fit the linear baseline: with the chosen settings where covariates are read, otherwise least squares."""
    return fit_least_squares(gram, RIDGE) if choice is None else fit_choice(gram, choice)


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
    others = " and ".join(f"{season}" for season in data.candidate_seasons)
    return f"{data.season} rows; seasonal naive: {chosen} rows, selected from {others} on validation windows"
