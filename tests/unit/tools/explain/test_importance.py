"""Importance of inputs, on series whose dependence on them is known, and the choice of a window."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from forecast.data import Batch, DataModule
from forecast.system.errors import ConfigError
from forecast.tools.explain.explanation import choose_window, windows_at_every_step
from forecast.tools.explain.importance import (
    InputGroup,
    InputKind,
    WindowSample,
    lag_blocks,
    list_inputs,
    list_known_inputs,
    measure_importance,
)
from tests.support.long_files import PRED_LEN, SEQ_LEN, by_hand, long_frame, long_frame_data
from tests.support.windows import every, set_up

LAG, HOUR, A = 0.8, 0.6, 0.25
"""What y, in original units, has of itself 24 hours before, of the hour and of the covariate A; it has no B."""
PLANTED = {"seq_len": 48, "pred_len": 24, "split": [0.6, 0.1, 0.3], "name": "planted"}


def planted_frame() -> pd.DataFrame:
    """Two hourly series y(t) = LAG · y(t − 24) + HOUR · sin(hour) + A · a(t) + noise."""
    random, parts, rows = np.random.default_rng(3), [], 3_000
    for name in ("one", "two"):
        dates = pd.date_range("2024-01-01", periods=rows, freq="h")
        a, b, y = random.normal(size=rows), random.normal(size=rows), random.normal(scale=0.3, size=rows)
        y += HOUR * np.sin(2 * np.pi * dates.hour / 24) + A * a
        for t in range(24, rows):
            y[t] += LAG * y[t - 24]
        parts.append(pd.DataFrame({"unique_id": name, "ds": dates, "y": y, "a": a, "b": b}))
    return pd.concat(parts, ignore_index=True)


def planted_data(**options: Any) -> DataModule:
    return set_up(long_frame_data(planted_frame(), future_covariates=["a", "b"], **{**PLANTED, **options}))


def read_inputs(batch: Batch) -> Tensor:
    """The inputs of a linear model of y (batch, pred_len, 5): y 24 hours before, sine of the hour, a, b, constant."""
    hour, a, b = batch.future_time[..., 0], batch.future_time[..., 4], batch.future_time[..., 5]
    sine = torch.sin(2 * torch.pi * (hour + 0.5) * 23 / 24)
    return torch.stack([batch.past[:, -24:, 0], sine, a, b, torch.ones_like(a)], dim=-1)


def fit(data: DataModule):
    windows = data.windows["train"]
    batch = windows.gather(torch.arange(0, len(windows), 24))
    inputs, truth = read_inputs(batch).flatten(0, 1), batch.future.flatten()
    coefficients = torch.linalg.lstsq(inputs, truth[:, None]).solution

    def forecast(batch: Batch) -> Tensor:
        return read_inputs(batch) @ coefficients

    return forecast, coefficients[:, 0]


def sample_of(data: DataModule, most: int = 200) -> WindowSample:
    return WindowSample(data, data.windows["test"], windows_at_every_step(data, "test"), most=most)


@pytest.mark.parametrize("eval_stride", [1, 24])
def test_planted_importances_are_found(eval_stride: int) -> None:
    """They are those that the coefficients imply; also where all scored windows begin at the same hour."""
    data = planted_data(eval_stride=eval_stride)
    forecast, coefficients = fit(data)
    sample = sample_of(data)
    found = {one.group.label: one for one in measure_importance(forecast, sample, repeats=5)}
    # An input with the coefficient c that is x of a window and x' of another adds c² (x − x')², mean over the pairs.
    own, others = read_inputs(sample.batch), read_inputs(sample.others)
    squares = (own[:, None] - others[None]).square().mean((0, 1, 2)) * coefficients**2
    assert found["hour, calendar"].mse == pytest.approx(float(squares[1]), rel=0.1)
    assert found["a, future covariate"].mse == pytest.approx(float(squares[2]), rel=0.1)
    means = [batch.past.mean(1)[:, 0] for batch in (sample.batch, sample.others)]
    level = (means[0][:, None] - means[1][None]).square().mean() * coefficients[0] ** 2
    assert found["y, level"].mse == pytest.approx(float(level), rel=0.25)
    order = ["y, lags 1–24", "hour, calendar", "a, future covariate", "b, future covariate"]
    assert sorted(order, key=lambda name: -found[name].mse) == order
    none = found["b, future covariate"]
    assert abs(none.mse) < 0.01 * found["a, future covariate"].mse
    assert abs(none.mse) < 3 * none.mse_std
    for name in ("y, lags 25–48", "day of week, calendar", "day of year, calendar"):
        assert (found[name].mse, found[name].mse_std) == (0, 0)
    for one in found.values():
        if one.mse > 0.001:
            assert one.mse > 5 * one.mse_std


def test_groups_replace_their_part_of_the_inputs_alone() -> None:
    torch.manual_seed(0)
    shapes, number = ((3, 12, 2), (3, 12, 3), (3, 4, 2), (3, 4, 3)), torch.arange(3)
    batch, donors = (Batch(*map(torch.randn, shapes), number, number) for _ in range(2))  # type: ignore[reportCallIssue]
    before = batch.past.clone()
    history = InputGroup(InputKind.HISTORY, "y", (1,)).replace(batch, donors)
    level = InputGroup(InputKind.LEVEL, "y", (1,)).replace(batch, donors)
    torch.testing.assert_close(history.past.mean(1), batch.past.mean(1))
    torch.testing.assert_close(history.past.diff(dim=1)[..., 1], donors.past.diff(dim=1)[..., 1])
    torch.testing.assert_close(level.past.mean(1)[:, 1], donors.past.mean(1)[:, 1])
    torch.testing.assert_close(level.past.diff(dim=1), batch.past.diff(dim=1))
    for changed in (history, level):
        assert torch.equal(changed.past[..., 0], batch.past[..., 0])
        assert all(kept is part for kept, part in zip(changed[1:], batch[1:], strict=True))
    lags = InputGroup(InputKind.LAGS, "both", (0, 1), (2, 5)).replace(batch, donors).past
    inside = torch.isin(torch.arange(12), torch.arange(12 - 5, 12 - 1))
    assert torch.equal(lags[:, ~inside], batch.past[:, ~inside])
    expected = donors.past - donors.past.mean(1, keepdim=True) + batch.past.mean(1, keepdim=True)
    torch.testing.assert_close(lags[:, inside], expected[:, inside])
    static = InputGroup(InputKind.STATIC, "region", (0, 2)).replace(batch, donors)
    assert torch.equal(static.past, batch.past)
    for part in ("past_time", "future_time"):
        mine, own, other = (getattr(each, part) for each in (static, batch, donors))
        assert torch.equal(mine[..., 1], own[..., 1])
        assert torch.equal(mine[..., [0, 2]], other[..., [0, 2]])
    assert torch.equal(batch.past, before)


@pytest.mark.parametrize(
    ("seq_len", "season", "expected"),
    [
        (48, 24, [(1, 24), (25, 48)]),
        (40, 2, [*((2 * i + 1, 2 * i + 2) for i in range(7)), (15, 28), (29, 40)]),
        (12, 24, [(1, 2), (3, 4), (5, 6), (7, 8), (9, 10), (11, 12)]),
        (1, 1, [(1, 1)]),
    ],
)
def test_lag_blocks_divide_the_past(seq_len: int, season: int, expected: list[tuple[int, int]]) -> None:
    assert lag_blocks(seq_len, season) == expected


@pytest.mark.parametrize("known_steps", [None, 2])
def test_every_time_feature_belongs_to_one_group(known_steps: int | None) -> None:
    frame = long_frame()
    frame["weather"] = np.resize(["dry", "rain", "snow"], len(frame))
    frame["shift"] = np.resize(["day", "night"], len(frame))
    roles = {"past_covariates": ["shift"], "future_covariates": ["weather", "price"]}
    roles["static_covariates"] = ["region", "size"]
    sizes = {"seq_len": 6, "pred_len": 3, "split": [0.6, 0.2, 0.2], "name": "sales"}
    data = long_frame_data(frame, holidays="DE", known_steps=known_steps, **sizes, **roles)
    data.setup()
    groups = list_known_inputs(data)
    assert [(group.kind.value, group.name) for group in groups] == [
        *(("calendar", name) for name in ("day of week", "day of month", "day of year", "holidays")),
        *(("future covariate", name) for name in ("weather", "price")),
        *(("static", name) for name in ("region", "size")),
    ]
    columns = [column for group in groups for column in group.columns]
    assert sorted(columns) == list(range(data.n_time_features))
    width = {group.name: len(group.columns) for group in groups}
    masked = {"weather": 6, "price": 2} if known_steps else {"weather": 3}
    assert width == {**dict.fromkeys(width, 1), "holidays": 3, "region": 2, **masked}
    history = [group for group in list_inputs(data) if group.kind == InputKind.HISTORY]
    found = {group.name: group.columns for group in history}
    assert found == {"y": (0,), "shift": (1, 2), "all 2 columns": (0, 1, 2)}
    batch = every(data, "test")
    size = batch.future_time[:, 0, columns[-1]]
    assert len(size.unique()) == len(batch.series.unique())


def test_no_window_is_its_own_donor() -> None:
    data = planted_data()
    sample = sample_of(data, most=5)
    spaced = np.linspace(0, len(data.windows["test"]), 6).round()  # one window of each fifth
    assert np.searchsorted(spaced, sample.batch.index.numpy(), side="right").tolist() == [1, 2, 3, 4, 5]
    seen = [sample.permute().index for _ in range(20)]
    for index in seen:
        assert torch.equal(index.sort().values, sample.others.index)
        assert not (index == sample.batch.index).any()
    assert len({tuple(index.tolist()) for index in seen}) > 5


# ---- the choice of a window by date, also where data.eval_stride scores only some windows

STRIDE = 4


@pytest.fixture(scope="module")
def data() -> DataModule:
    sizes = {"seq_len": SEQ_LEN, "pred_len": PRED_LEN, "split": [0.7, 0.1, 0.2], "name": "sales"}
    roles = {"past_covariates": ["temperature"], "future_covariates": ["price"], "static_covariates": ["region"]}
    return set_up(long_frame_data(long_frame(), eval_stride=STRIDE, **sizes, **roles))


def test_every_window_is_found_by_the_date_of_its_forecast(data: DataModule) -> None:
    """The first series that has it."""
    candidates = list(by_hand(long_frame(), "test", ["y", "temperature"], ["y"], ["price"]))
    dates = pd.date_range("2024-01-01", "2024-04-01", freq="D")
    found = {date: next((window for window in candidates if window[-1] == date), None) for date in dates}
    for date, expected in found.items():
        if expected is None:
            with pytest.raises(ConfigError):
                choose_window(data, "test", str(date))
            continue
        window = choose_window(data, "test", str(date))
        assert (window.series, window.origin) == (expected[4], date)
        np.testing.assert_allclose(window.batch.past[0], expected[0], atol=1e-5)
        np.testing.assert_allclose(window.batch.future[0], expected[2], atol=1e-5)
    for name, expected in (("first", candidates[0]), ("last", candidates[-1])):
        window = choose_window(data, "test", name)
        assert (window.series, window.origin) == (expected[4], expected[-1])
