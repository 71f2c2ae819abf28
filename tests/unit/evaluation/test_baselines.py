import numpy as np
import pandas as pd
import pytest
import torch

from forecast.data import DataModule, Windows, frame_data
from forecast.data.row_ranges import RowRanges
from forecast.data.scaler import Scaler
from forecast.data.step_features import TensorRows
from forecast.evaluation.baselines import (
    FittedBaselines,
    Linear,
    Naive,
    NaiveShrinkage,
    SeasonalNaive,
    choose_naive_shrinkage,
    choose_season,
    weigh_linear,
)
from forecast.evaluation.errors import seasonal_naive_mae
from forecast.models.linear_model import LinearWeights
from tests.support.windows import set_up, windows_over

SEQ_LEN, PRED_LEN, ROWS, COLUMNS = 9, 5, 70, 3


def windows(first_row: int = 0, count: int | None = None, target_index: list[int] | None = None) -> Windows:
    rows = torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(0)).cumsum(0)
    return windows_over(
        rows, torch.zeros(ROWS, 2),
        starts=[range(first_row, first_row + (count or ROWS - first_row - SEQ_LEN - PRED_LEN + 1))],
        seq_len=SEQ_LEN, pred_len=PRED_LEN, target_index=target_index or [0, 1, 2],
    )  # fmt: skip


def test_naive_repeats_the_last_value_of_the_targets() -> None:
    split = windows(target_index=[2])
    batch = split.gather(torch.tensor([4, 0]))
    prediction = Naive()(split, batch)
    last = split.values.tensor[[4 + SEQ_LEN - 1, SEQ_LEN - 1], 2]
    assert torch.equal(prediction, last[:, None, None].expand(2, PRED_LEN, 1))


@pytest.mark.parametrize("season", [1, 2, 4, 7, 12])  # shorter than the horizon, and longer than the window
def test_seasonal_naive_repeats_the_last_whole_season(season: int) -> None:
    split = windows(first_row=20)
    index = torch.tensor([7, 3])
    prediction = SeasonalNaive(season)(split, split.gather(index))
    last_season = 20 + index[:, None] + SEQ_LEN - season + torch.arange(PRED_LEN) % season
    assert torch.equal(prediction, split.values.tensor[last_season])


def test_mase_denominators_of_several_series() -> None:
    rows = torch.randn(60, 2, generator=torch.Generator().manual_seed(1))
    first, last = np.array([0, 20, 25, 26]), np.array([20, 25, 26, 60])
    unscaled = Scaler(torch.zeros(4, 2), torch.ones(4, 2))
    found = seasonal_naive_mae(TensorRows(rows), [1, 0], unscaled, RowRanges(first, last), 7)
    for series, lag in ((0, 7), (1, 1), (3, 7)):  # the second has no whole season, the third no second row
        own = rows[first[series] : last[series], [1, 0]].double()
        assert found[series].tolist() == pytest.approx((own[lag:] - own[:-lag]).abs().mean(0).tolist())
    assert found[2].isnan().all()


def weekly(rows: int, noise: float = 0.1, **options) -> DataModule:
    """Hourly rows in which each hour of the week has its own level."""
    rng = np.random.default_rng(3)
    level = np.tile(rng.normal(size=168), rows // 168 + 1)[:rows]
    values = level + noise * rng.normal(size=rows)
    frame = pd.DataFrame({"load": values}, pd.date_range("2020-01-06", periods=rows, freq="h"))
    sizes = {"seq_len": 24, "pred_len": 12, "split": [0.6, 0.2, 0.2]}
    return set_up(frame_data(frame, name="weekly", **{**sizes, **options}))


def test_the_season_is_the_one_with_the_lowest_error_on_validation_windows() -> None:
    data = weekly(168 * 6)
    assert data.candidate_seasons == [24, 168]
    values, (first, last) = data.panel.values[:, 0], (int(row[0]) for row in data.rows["val"])
    error = {}
    for season in data.candidate_seasons:
        steps = [
            (values[origin + step] - values[origin + step - season]) ** 2
            for origin in range(first, last - 12 + 1)
            for step in range(12)
        ]
        error[season] = np.mean(steps)
    assert error[168] < error[24]
    assert choose_season(data) == 168
    fitted = FittedBaselines.fit(data)
    assert (fitted.seasonal_naive_season, data.season) == (168, 24)
    rows = data.panel.values[: int(data.rows["train"][1][0]), 0]
    assert fitted.naive_mae.item() == pytest.approx(np.abs(rows[24:] - rows[:-24]).mean(), rel=1e-4)


def test_test_rows_do_not_choose_the_season() -> None:
    data, other = weekly(168 * 6), weekly(168 * 6)
    first_test = int(data.rows["test"][0][0])
    other.windows["val"].values.tensor[first_test:] = torch.randn(168 * 6 - first_test, 1) * 1e3
    assert choose_season(other) == choose_season(data) == 168


def test_without_a_whole_season_before_the_forecast_the_last_value_is_repeated() -> None:
    split = windows()
    batch = split.gather(torch.arange(3))
    assert torch.equal(SeasonalNaive(40)(split, batch), Naive()(split, batch))


PAST, AHEAD = 30, 6


def data_of(values: np.ndarray, n_series: int = 1) -> DataModule:
    dates = pd.date_range("2024-01-01", periods=len(values) // n_series, freq="h").repeat(n_series)
    ids = {"series": np.arange(len(values)) % n_series} if n_series > 1 else {}
    return set_up(frame_data(
        pd.DataFrame({"y": values, **ids}, dates.rename("date")).reset_index(), name="series", target="y",
        id_column="series" if ids else None, date_column="date", seq_len=PAST, pred_len=AHEAD,
        split=[0.6, 0.2, 0.2],
    ))  # fmt: skip


def walk(n_rows: int) -> np.ndarray:
    """A random walk, which no linear model forecasts better than the last value."""
    return np.random.default_rng(0).normal(size=n_rows).cumsum()


def random_weights(n_covariates: int = 0) -> LinearWeights:
    generator = torch.Generator().manual_seed(0)
    return LinearWeights(
        torch.randn(PAST, AHEAD, generator=generator) / PAST,
        torch.randn(1, n_covariates, AHEAD, generator=generator),
        torch.arange(n_covariates),
        torch.zeros(0, dtype=torch.int64),
    )


@pytest.mark.parametrize(("season", "weight"), [(1, 0.0), (4, 0.0), (24, 0.3), (24, 1.0)])
def test_the_combination_is_the_weighted_mean_of_both_forecasts(season: int, weight: float) -> None:
    windows = data_of(walk(300)).windows["val"]
    batch, linear = windows.gather(torch.arange(7)), random_weights(n_covariates=3)
    found = Linear(NaiveShrinkage(season, weight).apply(linear))(windows, batch)
    expected = weight * Linear(linear)(windows, batch) + (1 - weight) * SeasonalNaive(season)(windows, batch)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("linear", "naive", "p_value", "weight"),
    [
        (1.0, 1.5, 0.19, 1.0), (1.0, 1.5, 0.3, 0.7), (1.0, 1.5, 0.8, 0.6), (1.0, 1.5, None, 0.6),
        (1.0, 99.0, None, 0.99), (1.0, 1.0, None, 0.5), (3.0, 2.0, 0.8, 0.4), (3.0, 2.0, 0.3, 0.3),
        (3.0, 2.0, 0.06, 0.06), (3.0, 2.0, 0.04, 0.0), (3.0, 2.0, None, 0.4), (0.0, 0.0, None, 0.5),
    ],
)  # fmt: skip
def test_the_weight_follows_from_the_errors(linear: float, naive: float, p_value: float | None, weight: float) -> None:
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


def test_many_short_series_show_that_a_linear_model_is_better() -> None:
    """The validation windows of 200 series of 70 rows begin on nine dates, too few for a test."""
    random = np.random.default_rng(0)
    hours = np.arange(70) + random.integers(24, size=(200, 1))
    values = np.sin(2 * np.pi * hours / 24) + 0.5 * random.normal(size=hours.shape)
    data = data_of(values.T.ravel(), n_series=200)
    fitted = FittedBaselines.fit(data)
    fitted.fit_linear(data, data)
    assert fitted.shrinkage is not None
    assert fitted.shrinkage.weight == 1


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
