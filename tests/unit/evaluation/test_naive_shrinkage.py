"""The shrinkage of a linear model towards a naive forecast."""

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.data import DataModule, frame_data
from forecast.evaluation.baselines import (
    FittedBaselines,
    Linear,
    Naive,
    NaiveShrinkage,
    SeasonalNaive,
    choose_naive_shrinkage,
    naive_weights,
    weigh_linear,
)
from forecast.models.linear_model import LinearWeights

SEQ_LEN, PRED_LEN = 30, 6


def data_of(values: np.ndarray) -> DataModule:
    """A data module of hourly rows."""
    dates = pd.date_range("2024-01-01", periods=len(values), freq="h")
    made = frame_data(
        pd.DataFrame({"y": values}, dates),
        name="series",
        target="y",
        seq_len=SEQ_LEN,
        pred_len=PRED_LEN,
        split=[0.6, 0.2, 0.2],
    )
    made.setup()
    return made


def walk(n_rows: int) -> np.ndarray:
    """A random walk, which no linear model forecasts better than the last value."""
    return np.random.default_rng(0).normal(size=n_rows).cumsum()


def random_weights(n_covariates: int = 0) -> LinearWeights:
    generator = torch.Generator().manual_seed(0)
    return LinearWeights(
        torch.randn(SEQ_LEN, PRED_LEN, generator=generator) / SEQ_LEN,
        torch.randn(1, n_covariates, PRED_LEN, generator=generator),
        torch.arange(n_covariates),
        torch.zeros(0, dtype=torch.int64),
    )


@pytest.mark.parametrize(
    ("season", "baseline"), [(1, Naive()), (4, SeasonalNaive(4)), (24, SeasonalNaive(24))]
)
def test_the_weights_forecast_as_the_baseline_does(season: int, baseline: Naive | SeasonalNaive) -> None:
    windows = data_of(walk(300)).windows["val"]
    batch = windows.gather(torch.arange(7))
    found = Linear(naive_weights(SEQ_LEN, PRED_LEN, season))(windows, batch)
    torch.testing.assert_close(found, baseline(windows, batch))


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_the_combination_is_the_weighted_mean_of_both_forecasts(weight: float) -> None:
    windows = data_of(walk(300)).windows["val"]
    batch, linear = windows.gather(torch.arange(7)), random_weights(n_covariates=3)
    found = Linear(NaiveShrinkage(24, weight).apply(linear))(windows, batch)
    expected = weight * Linear(linear)(windows, batch) + (1 - weight) * SeasonalNaive(24)(windows, batch)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("linear", "naive", "p_value", "weight"),
    [
        (1.0, 1.5, 0.19, 1.0),
        (1.0, 1.5, 0.3, 0.7),
        (1.0, 1.5, 0.8, 0.6),
        (1.0, 1.5, None, 0.6),
        (1.0, 99.0, None, 0.99),
        (1.0, 1.0, None, 0.5),
        (3.0, 2.0, 0.8, 0.4),
        (3.0, 2.0, 0.3, 0.3),
        (3.0, 2.0, 0.06, 0.06),
        (3.0, 2.0, 0.04, 0.0),
        (3.0, 2.0, None, 0.4),
        (0.0, 0.0, None, 0.5),
    ],
)
def test_the_weight_follows_from_the_errors_and_the_test(
    linear: float, naive: float, p_value: float | None, weight: float
) -> None:
    assert weigh_linear(linear, naive, p_value) == pytest.approx(weight)


def test_without_a_measured_validation_value_the_linear_model_is_used_alone() -> None:
    values = walk(300)
    values[180:240] = np.nan
    assert choose_naive_shrinkage(data_of(values), random_weights()) == NaiveShrinkage(1, 1.0)


def test_a_linear_model_that_is_clearly_better_is_used_alone() -> None:
    waves = np.sin(np.arange(900) / 5) + np.sin(np.arange(900) / 3)
    data = data_of(waves + 0.1 * np.random.default_rng(0).normal(size=900))
    fitted = FittedBaselines.fit(data)
    found = fitted.fit_linear(data, data)
    assert fitted.shrinkage is not None
    assert fitted.shrinkage.weight == 1
    assert fitted.describe_choices()["without_covariates"]["shrinkage"]["weight"] == 1
    assert found.past_weight.abs().sum() > 0


def test_a_warm_start_and_its_refit_are_shrunk_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    data = data_of(walk(300))
    fitted = FittedBaselines.fit(data)
    first = fitted.fit_linear(data, data).past_weight
    assert fitted.shrinkage is not None
    assert fitted.shrinkage.weight < 1
    monkeypatch.setattr("forecast.evaluation.baselines.choose_naive_shrinkage", None)
    torch.testing.assert_close(fitted.fit_linear(data, data).past_weight, first)
    assert not torch.allclose(fitted.fit_linear(data.with_split("train"), data).past_weight, first)


def test_a_random_walk_is_forecast_by_its_last_value() -> None:
    data = data_of(walk(3000))
    shrinkage = choose_naive_shrinkage(data, random_weights())
    assert (shrinkage.season, shrinkage.weight) == (1, 0.0)
