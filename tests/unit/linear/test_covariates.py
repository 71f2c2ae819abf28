"""The linear model with covariates beside a ridge regression on every window, written out."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import forecast.linear.covariate_steps as covariate_steps
from forecast.data import Batch, DataModule, frame_data, store_data
from forecast.evaluation import baselines
from forecast.evaluation.baselines import RIDGE as PLAIN
from forecast.evaluation.baselines import FittedBaselines, Linear
from forecast.linear import fit
from forecast.linear.covariate_steps import find_covariate_steps
from forecast.linear.fit import (
    Choice,
    choose_linear_model,
    cut_at_origin,
    fit_and_test_grams,
    fit_choice,
    fit_least_squares,
    solve,
    solve_recent,
    squared_error,
)
from forecast.linear.gram import window_gram
from forecast.models.linear_model import LinearModel, LinearWeights
from tests.support.stores import write_store

SEQ_LEN, PRED_LEN, RIDGE = 5, 3, 0.05
OPTIONS: dict[str, Any] = {
    "seq_len": SEQ_LEN, "pred_len": PRED_LEN, "split": [0.6, 0.2, 0.2], "future_covariates": ["price"],
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
    data = frame_data(frame, name="frame", **{**OPTIONS, **options})
    data.setup()
    return data


def long(**options: Any) -> DataModule:
    """Three series, of several lengths."""
    parts = [planted(rows, rows).reset_index().assign(id=f"s{rows}") for rows in (90, 140, 120)]
    return ready(pd.concat(parts), id_column="id", date_column="date", target="y0", **options)


def every(data: DataModule, split: str) -> Batch:
    return data.windows[split].gather(torch.arange(data.n_windows[split]))


def by_hand(data: DataModule, batch: Batch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Past of the targets and horizon minus its mean (windows, n_targets, steps), and the covariates (windows, n)."""
    past, known = batch.past.double(), torch.cat([batch.past_time, batch.future_time], 1).double()
    n_calendar = batch.past_time.shape[2] - 1
    mean = past.mean(1, keepdim=True)
    price = known[..., n_calendar] - known[:, :SEQ_LEN, n_calendar].mean(1, keepdim=True)
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
    penalties = np.diag(np.sqrt([penalty_of_own] * SEQ_LEN + [penalty_of_read] * (n_targets * n_read)))
    x = np.concatenate([*designs, penalties])
    y = np.concatenate([*future.swapaxes(0, 1), np.zeros((len(penalties), PRED_LEN))])
    weights = np.linalg.lstsq(x, y, rcond=None)[0]
    return weights[:SEQ_LEN], weights[SEQ_LEN:].reshape(n_targets, n_read, PRED_LEN)


CASES = {
    "table": lambda: ready(planted()),
    "targets": lambda: ready(planted(n_targets=2)),
    "series": long,
}


@pytest.mark.parametrize("case", CASES)
def test_weights_are_those_of_a_ridge_regression_on_every_window(case: str) -> None:
    data = CASES[case]()
    expected = ridge_by_hand(data)
    for found in zip(
        solve_recent(window_gram(data.windows["train"]), SEQ_LEN, RIDGE, BOTH), expected, strict=True
    ):
        np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("case", CASES)
def test_the_baseline_forecasts_with_these_weights(case: str) -> None:
    data = CASES[case]()
    own_weights, covariates = ridge_by_hand(data)
    fitted = fit_choice(window_gram(data.windows["train"]), Choice(RIDGE, 1, BOTH))
    batch = every(data, "test")
    own, _, read = by_hand(data, batch)
    expected = np.einsum("ntl,lp->npt", own, own_weights) + np.einsum("nr,trp->npt", read, covariates)
    mean = batch.past.mean(1, keepdim=True)[..., : data.n_targets].numpy()
    np.testing.assert_allclose(Linear(fitted)(data.windows["test"], batch), expected + mean, atol=1e-4)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("roles", [(), ("future",), ("past",), BOTH])
def test_the_squared_error_is_that_of_every_window(case: str, roles: tuple) -> None:
    data = CASES[case]()
    choice = Choice(RIDGE, 1, roles)
    fitted = fit_choice(window_gram(data.windows["train"]), choice)
    batch = every(data, "val")
    by_hand = float((Linear(fitted)(data.windows["val"], batch) - batch.future).double().square().sum())
    weight, covariates = solve_recent(window_gram(data.windows["train"]), SEQ_LEN, RIDGE, roles)
    weight = weight + (1 - weight.sum(0)) / SEQ_LEN  # with the mean
    found = squared_error(window_gram(data.windows["val"]), weight, covariates)
    assert found == pytest.approx(by_hand, rel=1e-4)


def with_gaps(frame: pd.DataFrame) -> pd.DataFrame:
    """Missing values in four rows, of all kinds of columns but the future covariate."""
    frame = frame.copy()
    frame.iloc[[50, 120], 0] = np.nan
    frame.iloc[[121, 200], 1] = np.nan
    return frame


ROUTES: dict[str, Callable[[], DataModule]] = {
    "one table": lambda: ready(planted(n_targets=2)),
    "missing values": lambda: ready(with_gaps(planted(n_targets=2))),
    "many series": long,
    "a test stride": lambda: ready(planted(), eval_stride=3),
    "gaps of their own": lambda: ready(
        with_gaps(planted(n_targets=2)).drop(columns=["wind", "price"]),
        future_covariates=(),
        past_covariates=(),
    ),
}


@pytest.mark.parametrize("split", ["train", "val"])
@pytest.mark.parametrize("route", ROUTES)
def test_sliding_and_reading_each_window_give_the_same_sums(route: str, split: str, monkeypatch) -> None:
    windows = ROUTES[route]().windows[split]
    grams = []
    for shortest in (0, 1 << 40):
        monkeypatch.setattr(covariate_steps, "MIN_RUN", shortest)
        dense = covariate_steps.make_dense(windows)
        choices = covariate_steps.choose_windows(dense, find_covariate_steps(windows))
        assert any(chosen.runs for chosen in choices) == (shortest == 0)
        grams.append(window_gram(windows))
    torch.testing.assert_close(grams[0].covariates, grams[1].covariates)
    weight, covariates = solve_recent(grams[0], SEQ_LEN, RIDGE, BOTH)
    weight = weight + (1 - weight.sum(0)) / SEQ_LEN  # with the mean
    errors = [squared_error(gram, weight, covariates) for gram in grams]
    assert errors[0] == pytest.approx(errors[1])
    for found, expected in zip(*(solve_recent(g, SEQ_LEN, RIDGE, BOTH) for g in grams), strict=True):
        torch.testing.assert_close(found, expected)


def count_solutions(monkeypatch: pytest.MonkeyPatch, data: DataModule, *, thorough: bool) -> int:
    """How many linear models are fitted to choose and to fit the baselines."""
    calls = []
    monkeypatch.setattr(fit, "solve", lambda *given: calls.append(1) or solve(*given))
    FittedBaselines.fit(data, thorough=thorough)
    return len(calls)


def test_a_fit_that_is_not_thorough_compares_fewer_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    data = ready(planted())
    all_of_them = count_solutions(monkeypatch, data, thorough=True)
    assert count_solutions(monkeypatch, data, thorough=False) == all_of_them  # which takes no time here
    monkeypatch.setattr(baselines, "MAX_PRODUCTS", 0)
    few = count_solutions(monkeypatch, data, thorough=False)
    assert few < all_of_them / 6


@pytest.mark.parametrize("thorough", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_planted_covariates_are_read(case: str, thorough: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "MAX_PRODUCTS", 0)
    data = CASES[case]()
    batch = every(data, "test")

    def error(fitted: LinearWeights) -> float:
        return float((Linear(fitted)(data.windows["test"], batch) - batch.future).square().mean())

    fitted = FittedBaselines.fit(data, thorough=thorough)
    assert fitted.choices[True].roles == BOTH
    own = fit_choice(window_gram(data.windows["train"]), Choice(1e-6, 1))
    assert error(fitted.linear) < 0.2 * error(own)


def test_without_covariates_nothing_is_chosen() -> None:
    data = ready(planted().drop(columns=["wind", "price"]), future_covariates=(), past_covariates=())
    fitted = FittedBaselines.fit(data)
    assert not fitted.choices
    expected = fit_least_squares(window_gram(data.windows["train"]), PLAIN)
    assert torch.equal(fitted.linear.past_weight, expected.past_weight)


def test_covariates_that_do_not_help_are_dropped() -> None:
    frame = planted()
    random = np.random.default_rng(9)
    frame["wind"], frame["price"] = random.normal(size=(2, len(frame)))
    data = ready(frame)
    assert FittedBaselines.fit(data).linear.covariates.shape == (1, 0, PRED_LEN)


def test_values_that_a_forecast_may_not_know_do_not_move_it() -> None:
    """The wind of the horizon, and all that comes after it."""
    frame = planted()
    fitted = FittedBaselines.fit(ready(frame)).linear
    origin = 350
    changed = frame.copy()
    changed.iloc[origin:, changed.columns.get_loc("wind")] += 50
    changed.iloc[origin:, changed.columns.get_loc("y0")] -= 50
    changed.iloc[origin + PRED_LEN :] *= -3
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


def test_missing_values_of_the_horizon_are_not_counted() -> None:
    """A third of the targets are missing: the planted weights of the covariates are recovered."""
    frame = planted(3000)
    complete = fit_choice(window_gram(ready(frame, scaler="none").windows["train"]), Choice(1e-6, 1, BOTH))
    frame.loc[np.random.default_rng(1).random(len(frame)) < 0.3, "y0"] = np.nan
    frame.iloc[[0, -1], 0] = 0.0
    data = ready(frame, scaler="none")
    found = fit_choice(window_gram(data.windows["train"]), Choice(1e-6, 1, BOTH))
    last = found.covariates[0, -PRED_LEN:]  # prices of the horizon
    torch.testing.assert_close(last.diagonal(), torch.full((PRED_LEN,), -0.5), atol=0.05, rtol=0)
    torch.testing.assert_close(last, complete.covariates[0, -PRED_LEN:], atol=0.1, rtol=0)


@pytest.mark.parametrize("n_targets", [1, 2])
def test_a_long_outage_changes_no_weight(n_targets: int) -> None:
    """One target is missing in 60% of the rows: its windows are too few, not too small."""

    def fitted(frame: pd.DataFrame) -> LinearWeights:
        data = ready(frame, scaler="none")
        return fit_choice(window_gram(data.windows["train"]), Choice(1e-6, 1, BOTH))

    frame = planted(3000, n_targets=n_targets)
    complete = fitted(frame)
    frame.loc[frame.index[100:1200], f"y{n_targets - 1}"] = np.nan
    found = fitted(frame)
    torch.testing.assert_close(found.past_weight, complete.past_weight, atol=0.05, rtol=0)
    torch.testing.assert_close(found.covariates, complete.covariates, atol=0.05, rtol=0)
    of_horizon = found.covariates[:, -PRED_LEN:].diagonal(dim1=1, dim2=2)
    expected = -0.5 * torch.arange(1.0, n_targets + 1)[:, None].expand_as(of_horizon)
    torch.testing.assert_close(of_horizon, expected, atol=0.05, rtol=0)


def test_an_outage_without_covariates_is_left_out() -> None:
    """The same weights as least squares on the windows whose horizon is measured, written out."""
    frame = planted(3000).drop(columns=["wind", "price"])
    frame.iloc[500:1500] = np.nan
    data = ready(frame, scaler="none", future_covariates=(), past_covariates=())
    batch = every(data, "train")
    measured = batch.future.isfinite().all(1)[:, 0]
    mean = batch.past.mean(1, keepdim=True)
    past, future = ((part - mean)[measured, :, 0].double() for part in (batch.past, batch.future))
    weight = torch.linalg.lstsq(past, future, driver="gelsd").solution
    by_hand = weight + (1 - weight.sum(0)) / SEQ_LEN
    found = fit_least_squares(window_gram(data.windows["train"]), 1e-6).past_weight
    torch.testing.assert_close(found + (1 - found.sum(0)) / SEQ_LEN, by_hand.float(), atol=0.01, rtol=0)


def test_what_is_read_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """The horizon of future covariates comes first, then their latest past, then that of the others."""

    def read(limit: int) -> tuple[list[int], list[int]]:
        monkeypatch.setattr(covariate_steps, "MAX_READ", limit)
        steps = find_covariate_steps(ready(planted()).windows["train"])
        return steps.step[steps.is_future].tolist(), steps.step[~steps.is_future].tolist()

    assert read(13) == (list(range(-SEQ_LEN, PRED_LEN)), list(range(-SEQ_LEN, 0)))
    assert read(10) == (list(range(-SEQ_LEN, PRED_LEN)), [-2, -1])
    assert read(4) == ([-1, 0, 1, 2], [])
    assert read(2) == ([], [-2, -1])
    data = ready(planted())  # with this limit, all that follows the sums still works
    fitted = choose_linear_model(fit_and_test_grams(data, window_gram(data.windows["train"])))
    assert fitted.roles in ((), ("past",))


def test_less_is_read_for_many_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work grows with the targets and with the square of the values that are read."""
    data = ready(planted(n_targets=2))
    monkeypatch.setattr(covariate_steps, "MAX_WORK", 2 * (SEQ_LEN + PRED_LEN) * 10**2)
    assert len(find_covariate_steps(data.windows["train"]).step) == 10
    monkeypatch.setattr(covariate_steps, "MAX_WORK", 2 * (SEQ_LEN + PRED_LEN) * 13**2)
    assert len(find_covariate_steps(data.windows["train"]).step) == 13


def test_a_model_takes_its_covariates_from_a_checkpoint() -> None:
    data = ready(planted())
    fitted = FittedBaselines.fit(data)
    model, loaded = LinearModel(SEQ_LEN, PRED_LEN), LinearModel(SEQ_LEN, PRED_LEN)
    model.set_weights(fitted.linear)
    loaded.load_state_dict(model.state_dict())
    batch = every(data, "test")
    mean = batch.past.mean(1, keepdim=True)
    inputs = batch.past - mean, batch.past_time, batch.future_time, torch.tensor(data.target_index)
    forecast = (mean + loaded(*inputs))[..., data.target_index]
    torch.testing.assert_close(forecast, Linear(fitted.linear)(data.windows["test"], batch))
    loaded.load_state_dict(LinearModel(SEQ_LEN, PRED_LEN).state_dict())  # one without covariates
    assert loaded.covariates is None
    again = FittedBaselines.from_state_dict(fitted.state_dict(), fitted.ids).linear
    assert isinstance(again, LinearWeights)
    assert torch.equal(again.covariates, fitted.linear.covariates)


@pytest.mark.parametrize("sixths", [1, 2, 3])
def test_an_origin_lies_at_the_same_share_of_each_series(sixths: int) -> None:
    """No window of a series is fitted on beyond its origin, and the errors are those of the sixth after it."""
    train = long().windows["train"]
    before, after = cut_at_origin(train, sixths)
    for number, starts in enumerate(train.starts):
        end = starts.stop + SEQ_LEN + PRED_LEN - 1
        rows = end - starts.start
        origin = end - sixths * (rows // 6)
        of_series = [windows.series(torch.arange(len(windows))) == number for windows in (before, after)]
        fitted, tested = (
            windows.origins(torch.arange(len(windows)))[own]
            for windows, own in zip((before, after), of_series, strict=True)
        )
        assert [int(fitted[0]), int(fitted[-1]) + PRED_LEN] == [starts.start + SEQ_LEN, origin]
        assert [int(tested[0]), int(tested[-1]) + PRED_LEN] == [origin, origin + rows // 6]


def test_a_series_too_short_for_an_origin_is_left_out() -> None:
    frame = pd.concat(planted(rows, rows).reset_index().assign(id=f"s{rows}") for rows in (14, 140))
    data = ready(frame, id_column="id", date_column="date", target="y0")
    before, _ = cut_at_origin(data.windows["train"], 3)
    assert [len(rows) for rows in before.starts] == [0, 35]
    assert len(list(fit_and_test_grams(data, window_gram(data.windows["train"])))) == 4


def test_a_store_gives_the_linear_model_of_its_table(tmp_path: Path) -> None:
    frame = planted()
    table = ready(frame, target="y0", features="MS")
    whole = ready(frame, past_covariates=(), future_covariates=())
    path = write_store(tmp_path / "table.store", whole.panel)
    store = store_data(name="store", path=str(path), **{**OPTIONS, "target": "y0", "features": "MS"})
    store.setup()
    choices = [
        choose_linear_model(fit_and_test_grams(data, window_gram(data.windows["train"])))
        for data in (table, store)
    ]
    assert choices[0] == choices[1]
    one, other = (fit_choice(window_gram(data.windows["train"]), choices[0]) for data in (table, store))
    torch.testing.assert_close(one.past_weight, other.past_weight, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(one.covariates, other.covariates, rtol=1e-4, atol=1e-5)
