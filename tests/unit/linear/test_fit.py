"""Linear models, with and without covariates, beside models fitted and measured on every window, one by one."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import forecast.linear.covariate_steps as covariate_steps
from forecast.data import Batch, DataModule, frame_data, sample_data
from forecast.evaluation import baselines
from forecast.evaluation.baselines import FittedBaselines, Linear
from forecast.linear.covariate_steps import find_covariate_steps
from forecast.linear.fit import (
    Choice,
    average,
    choose_linear_model,
    fit_and_test_grams,
    fit_choice,
    fit_least_squares,
    solve_recent,
    squared_error,
)
from forecast.linear.gram import Gram, window_gram
from forecast.models.linear_model import LinearWeights
from tests.support.windows import every, set_up

SEQ_LEN, PRED_LEN = 12, 5


def gram_pairs(made: DataModule) -> list[tuple[Gram, Gram]]:
    return list(fit_and_test_grams(made, window_gram(made.windows["train"])))


def data() -> DataModule:
    return set_up(sample_data(name="sample", seq_len=SEQ_LEN, pred_len=PRED_LEN, split=[0.5, 0.1, 0.4]))


def each(split: str, made: DataModule) -> tuple[torch.Tensor, torch.Tensor]:
    """Every window and variable as a row: pasts, futures."""
    batch = every(made, split)
    return batch.past.mT.flatten(0, 1).double(), batch.future.mT.flatten(0, 1).double()


def test_averaged_lookbacks_forecast_the_mean_of_the_forecasts() -> None:
    made = data()
    gram = window_gram(made.windows["train"])
    past, _ = each("test", made)
    by_hand, fitted = [], []
    for lookback in (12, 6, 3):
        recent = past[:, -lookback:]
        mean = recent.mean(1, keepdim=True)
        fitted.append(solve_recent(gram, lookback, 0.1, ()))
        by_hand.append((recent - mean) @ fitted[-1][0] + mean)
    torch.testing.assert_close(past @ average(fitted)[0], torch.stack(by_hand).mean(0))
    weight = fit_choice(gram, Choice(0.1, 3)).past_weight
    torch.testing.assert_close((past @ weight.double()), torch.stack(by_hand).mean(0), rtol=0, atol=1e-5)


def test_each_origin_is_tested_on_later_windows() -> None:
    """The windows that measure the error have horizons after all rows that the model was fitted on."""
    made = data()
    rows = made.windows["train"].values.tensor.double()
    ends = [4_357, 5_808, 7_259, 8_710]  # three, four and five sixths of the training rows, and all of them
    found = gram_pairs(made)
    assert len(found) == 4
    for (before, after), end, stop in zip(found, ends, [*ends[1:], int(made.rows["val"][1][0])], strict=True):
        for gram, part in ((before, rows[:end]), (after, rows[end - SEQ_LEN : stop])):
            windows = part.unfold(0, SEQ_LEN + PRED_LEN, 1).flatten(0, 1)
            windows = windows - windows.mean(1, keepdim=True)
            centre = torch.eye(SEQ_LEN + PRED_LEN, dtype=torch.float64) - 1 / (SEQ_LEN + PRED_LEN)
            torch.testing.assert_close(centre @ gram.auto @ centre, windows.T @ windows, rtol=1e-6, atol=1e-4)


def test_the_choice_is_the_one_that_errs_least() -> None:
    made = data()
    (before, after) = gram_pairs(made)[-1]
    chosen = choose_linear_model([(before, after)])
    past, future = each("val", made)

    def error(choice: Choice) -> float:
        weight = fit_choice(before, choice).past_weight.double()
        return float((past @ weight - future).square().sum())

    others = [Choice(ridge, depth) for ridge in (1e-6, 1e-2, 0.3, 3.0) for depth in (1, 2, 3)]
    assert all(error(chosen) <= error(other) * (1 + 1e-6) for other in others)


def hourly_load(rows: int = 4000) -> pd.Series:
    random, t = np.random.default_rng(0), np.arange(rows)
    noise = np.convolve(random.normal(size=rows), 0.9 ** np.arange(100))[:rows]
    workday = t // 24 % 7 < 5
    day = np.sin(2 * np.pi * t / 24) + 0.4 * np.sin(4 * np.pi * t / 24 + 1)
    load = 30 + (3 + 2 * workday) * day + 5 * workday + 0.3 * noise
    return pd.Series(load, pd.date_range("2024-01-01", periods=rows, freq="h", name="date"), name="load")


@pytest.mark.parametrize(
    ("missing", "tolerance"), [([], 1e-5), ([1500], 1e-3), ([3300, 3401, 3502, 3603, 3704, 3805], 1e-2)]
)
def test_the_linear_baseline_is_least_squares_on_every_window(missing: list[int], tolerance: float) -> None:
    """Written out on the file before hours were lost: the scores are close, whether in training or in test."""
    seq_len, pred_len, load = 168, 24, hourly_load()
    frame = load.drop(load.index[missing]).to_frame()
    frame = pd.concat([frame, frame.iloc[[70, 900, 3500]]]).sort_index()
    sizes = {"seq_len": seq_len, "pred_len": pred_len, "split": [0.7, 0.1, 0.2]}
    data = frame_data(frame, name="load", **sizes, duplicates="first", features="M")
    data.setup()
    train, test = int(0.7 * len(load)), len(load) - int(0.2 * len(load))
    center, scale = (getattr(data.scaler, name).item() for name in ("center", "scale"))
    scaled = (load.to_numpy() - center) / scale
    every = np.lib.stride_tricks.sliding_window_view(scaled, seq_len + pred_len)
    every = every - every[:, :seq_len].mean(1, keepdims=True)
    fitted, tested = every[: train - seq_len - pred_len + 1], every[test - seq_len :]
    weight = np.linalg.lstsq(fitted[:, :seq_len], fitted[:, seq_len:], rcond=None)[0]
    errors = tested[:, seq_len:] - tested[:, :seq_len] @ weight
    windows = data.windows["test"]
    batch = windows.gather(torch.arange(len(windows)))
    measured = batch.future[..., 0].isfinite().numpy()
    forecast = Linear(FittedBaselines.fit(data).linear)(windows, batch)
    by_hand = np.square(errors[measured]).mean()
    assert measured.sum() == errors.size - sum(pred_len for row in missing if row >= test)
    assert (forecast - batch.future).square().nanmean().item() == pytest.approx(by_hand, rel=tolerance)


PAST, AHEAD, RIDGE = 5, 3, 0.05
OPTIONS: dict[str, Any] = {
    "seq_len": PAST, "pred_len": AHEAD, "split": [0.6, 0.2, 0.2], "future_covariates": ["price"],
    "past_covariates": ["wind"], "season": 4,
}  # fmt: skip
BOTH = ("future", "past")


def planted(rows: int = 400, seed: int = 0, n_targets: int = 1) -> pd.DataFrame:
    """Targets that depend on themselves, on the wind four steps ago and on the price of the same step."""
    random = np.random.default_rng(seed)
    wind, price = random.normal(size=rows), random.normal(size=rows)
    frame = pd.DataFrame(index=pd.date_range("2024-01-01", periods=rows, freq="D", name="date"))
    for target in range(n_targets):
        y = 0.1 * random.normal(size=rows)
        for t in range(4, rows):
            y[t] += 0.4 * y[t - 1] + (1 + target) * (0.7 * wind[t - 4] - 0.5 * price[t])
        frame[f"y{target}"] = y
    return frame.assign(wind=wind, price=price)


def ready(frame: pd.DataFrame, **options: Any) -> DataModule:
    return set_up(frame_data(frame, name="frame", **{**OPTIONS, **options}))


def long(**options: Any) -> DataModule:
    parts = [planted(rows, rows).reset_index().assign(id=f"s{rows}") for rows in (90, 140, 120)]
    return ready(pd.concat(parts), id_column="id", date_column="date", target="y0", **options)


def by_hand(data: DataModule, batch: Batch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Past of the targets and horizon minus its mean (windows, n_targets, steps), and the covariates (windows, n)."""
    past, known = batch.past.double(), torch.cat([batch.past_time, batch.future_time], 1).double()
    n_calendar = batch.past_time.shape[2] - 1
    mean = past.mean(1, keepdim=True)
    price = known[..., n_calendar] - known[:, :PAST, n_calendar].mean(1, keepdim=True)
    wind = (past - mean)[..., data.n_targets]
    own = (past - mean)[..., : data.n_targets].mT
    future = (batch.future.double() - mean[..., : data.n_targets]).mT
    return own.numpy(), future.numpy(), torch.cat([wind, price], 1).numpy()


def ridge_by_hand(data: DataModule) -> tuple[np.ndarray, np.ndarray]:
    """Weights of all targets together by one augmented system: W (seq_len, pred_len), C (n_targets, n, pred_len)."""
    own, future, read = by_hand(data, every(data, "train"))
    n_targets, n_read = own.shape[1], read.shape[1]
    designs = []
    for target in range(n_targets):
        blocks = [own[:, target], *(read * (target == other) for other in range(n_targets))]
        designs.append(np.concatenate(blocks, axis=1))
    penalty_of_own = RIDGE * np.square(own).sum((0, 1)).mean()
    penalty_of_read = RIDGE * np.square(read).sum(0).mean()
    penalties = np.diag(np.sqrt([penalty_of_own] * PAST + [penalty_of_read] * (n_targets * n_read)))
    x = np.concatenate([*designs, penalties])
    y = np.concatenate([*future.swapaxes(0, 1), np.zeros((len(penalties), AHEAD))])
    weights = np.linalg.lstsq(x, y, rcond=None)[0]
    return weights[:PAST], weights[PAST:].reshape(n_targets, n_read, AHEAD)


CASES = {"table": lambda: ready(planted()), "targets": lambda: ready(planted(n_targets=2)), "series": long}


@pytest.mark.parametrize("case", CASES)
def test_weights_are_those_of_a_ridge_regression_on_every_window(case: str) -> None:
    data = CASES[case]()
    expected = ridge_by_hand(data)
    found = solve_recent(window_gram(data.windows["train"]), PAST, RIDGE, BOTH)
    torch.testing.assert_close(found, tuple(map(torch.from_numpy, expected)), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("roles", [("future",), BOTH])
def test_the_squared_error_is_that_of_every_window(case: str, roles: tuple) -> None:
    data = CASES[case]()
    choice = Choice(RIDGE, 1, roles)
    fitted = fit_choice(window_gram(data.windows["train"]), choice)
    batch = every(data, "val")
    by_hand = float((Linear(fitted)(data.windows["val"], batch) - batch.future).double().square().sum())
    weight, covariates = solve_recent(window_gram(data.windows["train"]), PAST, RIDGE, roles)
    weight = weight + (1 - weight.sum(0)) / PAST  # with the mean
    found = squared_error(window_gram(data.windows["val"]), weight, covariates)
    assert found == pytest.approx(by_hand, rel=1e-4)


ROUTES: dict[str, Callable[[], DataModule]] = {
    "one table": lambda: ready(planted(n_targets=2)),
    "many series": long,
    "a test stride": lambda: ready(planted(), eval_stride=3),
}


@pytest.mark.parametrize("split", ["train", "val"])
@pytest.mark.parametrize("route", ROUTES)
def test_sliding_and_reading_each_window_give_the_same_sums(route: str, split: str, monkeypatch) -> None:
    windows = ROUTES[route]().windows[split]
    grams = []
    for shortest in (0, 1 << 40):
        monkeypatch.setattr(covariate_steps, "MIN_RUN", shortest)
        dense = covariate_steps.make_dense(windows)
        numbers = covariate_steps.choose_windows(dense, find_covariate_steps(windows))
        assert (numbers is None) == (shortest == 0)
        grams.append(window_gram(windows))
    torch.testing.assert_close(grams[0].covariates, grams[1].covariates)
    weight, covariates = solve_recent(grams[0], PAST, RIDGE, BOTH)
    weight = weight + (1 - weight.sum(0)) / PAST  # with the mean
    errors = [squared_error(gram, weight, covariates) for gram in grams]
    assert errors[0] == pytest.approx(errors[1])
    torch.testing.assert_close(*(solve_recent(gram, PAST, RIDGE, BOTH) for gram in grams))


@pytest.mark.parametrize(("case", "thorough"), [("table", True), ("targets", False), ("series", True)])
def test_planted_covariates_are_read(case: str, thorough: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "MAX_PRODUCTS", 0)
    data = CASES[case]()
    batch = every(data, "test")

    def error(fitted: LinearWeights) -> float:
        return float((Linear(fitted)(data.windows["test"], batch) - batch.future).square().mean())

    fitted = FittedBaselines.fit(data, thorough=thorough)
    assert fitted.choice is not None
    assert fitted.choice.roles == BOTH
    own = fit_choice(window_gram(data.windows["train"]), Choice(1e-6, 1))
    assert error(fitted.linear) < 0.2 * error(own)


def test_values_that_a_forecast_may_not_know_do_not_move_it() -> None:
    """The wind of the horizon, and all that comes after it."""
    frame = planted()
    fitted = FittedBaselines.fit(ready(frame)).linear
    origin = 350
    changed = frame.copy()
    changed.iloc[origin:, changed.columns.get_loc("wind")] += 50
    changed.iloc[origin:, changed.columns.get_loc("y0")] -= 50
    changed.iloc[origin + AHEAD :] *= -3
    known = changed.copy()
    known.iloc[origin, known.columns.get_loc("price")] += 1
    forecasts = []
    for given in (frame, changed, known):
        data = ready(given)  # scaled by the rows before the origin
        windows = data.windows["test"]
        number = int(torch.nonzero(windows.origins(torch.arange(len(windows))) == origin))
        forecasts.append(Linear(fitted)(windows, windows.gather(torch.tensor([number]))))
    assert torch.equal(forecasts[0], forecasts[1])
    assert not torch.equal(forecasts[0], forecasts[2])


def test_a_long_outage_changes_no_weight() -> None:
    """An AR(1) process that lacks 70% of the training rows: its windows are too few, not too small."""
    random, x = np.random.default_rng(0), np.zeros(20_000)
    for t in range(1, len(x)):
        x[t] = 0.8 * x[t - 1] + random.normal()
    weights = []
    for missing in (0, int(0.7 * 0.6 * len(x))):
        given = x.copy()
        given[300 : 300 + missing] = np.nan
        frame = pd.DataFrame({"x": given}, pd.date_range("2024-01-01", periods=len(x), freq="h", name="date"))
        data = ready(frame, seq_len=24, pred_len=1, scaler="none", past_covariates=(), future_covariates=())
        weight = fit_least_squares(window_gram(data.windows["train"]), 1e-6).past_weight
        weights.append(weight + (1 - weight.sum(0)) / len(weight))  # with the mean
    torch.testing.assert_close(weights[1], weights[0], atol=0.06, rtol=0)
    assert weights[1][-1].item() == pytest.approx(0.8, abs=0.06)
