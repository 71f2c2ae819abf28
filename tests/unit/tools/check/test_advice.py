import shlex

import numpy as np
import pandas as pd
import pytest

from forecast.cli.compose import compose_config
from forecast.cli.overrides import parse, quote
from forecast.data import Panel, csv_data, frame_data
from forecast.data.source import AUTO
from forecast.system.formatting import quote_for_shell
from forecast.tools.check import advice
from forecast.tools.check.advice import Choices, Setting, format_argument, suggest_lengths, suggest_training
from forecast.tools.check.diagnosis import SPLIT, diagnose
from forecast.tools.check.facts import split_parts
from forecast.tools.check.seasons import Season

WEEK, DAY = Season(168, "a week", 0.8), Season(24, "a day", 0.9)


@pytest.mark.parametrize(
    ("rows", "seasons", "pred_len", "day", "past", "why"),
    [
        (39_456, [DAY, WEEK], 24, 24, 504, "three of the longest season, a week"),
        (39_456, [DAY, WEEK], 168, 24, 672, "four horizons"),
        (39_456, [DAY], 24, 24, 336, "the default of models on patches"),
        (39_456, [DAY], 24, 96, 480, "at most 5 days of steps below an hour"),
        (39_456, [DAY], 720, 96, 480, "at most 5 days of steps below an hour"),
        (39_456, [DAY, Season(336, "a week", 0.95)], 48, 48, 672, "two of the strongest season, a week"),
        (39_456, [DAY], 24, 288, 720, "at most 5 days of steps below an hour"),
        (2_500, [DAY, WEEK], 24, 24, 168, "the longest season, a week"),  # three: 29% of the training part
        (2_500, [], 24, 24, 96, "four horizons"),
        (2_500, [], 24, 96, 96, "four horizons"),
    ],
)
def test_the_past_suggested(rows: int, seasons: list[Season], pred_len: int, day: int, past: int, why: str) -> None:
    dates = pd.date_range("2021-01-01", periods=rows, freq="h")
    panel = Panel.of_table(dates, np.arange(float(rows))[:, None], ["load"], "h")
    found = suggest_lengths(split_parts(panel, [0.7, 0.1, 0.2]), seasons, 24, day, Choices(pred_len=pred_len))
    assert found[0] == Setting("seq_len", past, why)


def training(windows: int, past: int, has_future: bool = False, model: str | None = None) -> dict[str, Setting]:
    settings = [Setting("seq_len", past, ""), Setting("pred_len", 2, "")]
    settings += [Setting("model", model, "")] if model else []
    found = suggest_training(windows, settings, Choices(), has_future)
    return {setting.key: setting for setting in found}


def test_little_training_is_suggested_where_windows_are_many() -> None:
    for windows, has_future, batch, epochs in (
        (50_000, False, 32, 5), (1_500, False, 32, 14), (100, False, 16, 50), (50_000, True, 128, 5),
    ):  # fmt: skip
        found = training(windows, 336, has_future)
        assert (found["data.batch_size"].value, found["trainer.max_epochs"].value) == (batch, epochs)


def test_short_windows_get_shorter_patches() -> None:
    for model, past, patch, tokens in (
        (None, 28, 1, 28), (None, 168, 3, 56), (None, 336, None, 56), (None, 3, 1, 3),
        ("patch_encoder", 28, 7, 4), ("patch_encoder", 336, None, 14),
    ):  # fmt: skip
        found = training(500, past, model=model)
        assert (found["model.patch_len"].value if "model.patch_len" in found else None) == patch
        why = f"on {tokens} tokens, all attention types" if tokens < 50 else "exact, and fast"
        assert found["attention"].why.startswith(why)
    assert training(500, 6 * 513)["attention"].value == "nystrom"
    assert training(500, 6 * 4_097)["attention"].value == "linear"


@pytest.mark.slow
def test_the_default_model_is_known_as_it_is() -> None:
    for model, (patch_len, _) in advice.PATCHES.items():
        config = compose_config(f"model={model}")
        known = (advice.PAST, AUTO, patch_len, advice.EPOCHS)
        assert known == (
            config.seq_len, config.data.windows_per_epoch, config.model.patch_len, config.trainer.max_epochs
        )  # fmt: skip
    assert compose_config().model._target_ == compose_config("model=residual_informer").model._target_


RANDOM = np.random.default_rng(0)
EVEN, HEAVY = RANDOM.normal(size=400), RANDOM.standard_t(2, size=400)


@pytest.mark.parametrize(
    ("train", "typed", "named"),
    [
        ([np.stack([EVEN, HEAVY], axis=1)], None, "outliers in heavy;"),
        ([np.stack([EVEN, HEAVY], axis=1)], "asinh", None),
        ([np.ones((50, 2))], None, None),
        ([], None, None),
        ([EVEN[:, None], 1000 + EVEN[:20, None]], None, None),  # two levels of two series are no outliers
        ([(np.arange(400) % 40 == 0).astype(float)[:, None]], None, None),  # nor rare days marked by one
    ],
)
def test_outliers_suggest_a_transform(train: list[np.ndarray], typed: str | None, named: str | None, tmp_path) -> None:
    dates = pd.date_range("2024-01-01", periods=400, freq="h", name="date")
    pd.DataFrame({"even": EVEN}, dates).to_csv(tmp_path / "mine.csv")
    sizes = {"seq_len": 24, "pred_len": 6, "split": [0.7, 0.1, 0.2], "name": "mine", "transform": typed}
    found = advice.suggest_transform(train, ["even", "heavy"][: train[0].shape[1] if train else 2],
                              csv_data(path=tmp_path / "mine.csv", **sizes))  # fmt: skip
    assert [setting.value for setting in found] == (["auto"] if named else [])
    assert all(named in setting.why for setting in found if named)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("data.path", "~/it's/a b,c=d.csv"), ("data.separator", ";"), ("data.target", "Ziel[1]"),
        ("data.columns", ["plain", "a, b", "[x]", "it's", "température"]), ("data.fill", None),
        ("data.split", [0.6, 0.2, 0.2]), ("data.split", ["2017-07-01", "2017-11-01"]), ("seq_len", 96),
    ],
)  # fmt: skip
def test_arguments_are_read_as_they_were_meant(key: str, value: object) -> None:
    argument = format_argument(key, value)
    (override,) = parse([quote(argument, sweep=False)])
    assert (override.key_or_group, override.value()) == (key, value)
    assert shlex.split(quote_for_shell(argument)) == [argument]


def test_a_longer_past_is_suggested_where_the_linear_baseline_validates_better() -> None:
    """A pattern that repeats every 1,200 hours is not in a past of two weeks, nor in one of a month."""
    rows, random = 18_000, np.random.default_rng(3)
    dates = pd.date_range("2020-01-01", periods=rows, freq="h", name="date")
    day = np.sin(2 * np.pi * np.arange(rows) / 24)
    shape = np.resize(random.normal(size=1_200), rows)
    frame = pd.DataFrame({"load": day + shape + 0.1 * random.normal(size=rows)}, dates)
    options = {"split": SPLIT, "seq_len": 1, "pred_len": 1, "name": "frame", "steps": "dates"}
    found = diagnose(lambda **changed: frame_data(frame, **options | changed), Choices(pred_len=24))
    assert found.suggested["seq_len"] == 1_440


@pytest.mark.parametrize(("has_holidays", "named"), [(False, []), (True, ["holiday"]), (True, [])])
def test_weekly_rows_of_many_series_are_read_from_a_year_back(has_holidays: bool, named: list[str]) -> None:
    """Thirty shops whose sales peak in the same weeks of each year; a column of holidays is found by its name."""
    random, weeks, shops = np.random.default_rng(0), 143, 30
    shape = np.resize(2 * (random.random(52) < 0.1), weeks)
    sales = random.uniform(1, 2, (shops, 1)) * (5 + shape) + 0.3 * random.normal(size=(shops, weeks))
    columns = {
        "date": np.tile(pd.date_range("2020-01-03", periods=weeks, freq="7D"), shops),
        "shop": np.repeat(np.arange(shops), weeks),
        "sales": sales.ravel(),
        "size": np.repeat(random.random(shops), weeks),
    }
    if has_holidays:
        columns["holiday"] = np.tile(shape > 0, shops).astype(float)
    options = {
        "split": SPLIT, "seq_len": 1, "pred_len": 1, "name": "frame", "steps": "dates", "id_column": "shop",
        "date_column": "date", "target": "sales", "future_covariates": named,
    }  # fmt: skip
    choices = Choices(steps="dates", pred_len=7, target="sales", future_covariates=named)
    found = diagnose(lambda **changed: frame_data(pd.DataFrame(columns), **options | changed), choices)
    assert found.suggested["seq_len"] == 52
    proposed = ["holiday"] if has_holidays and not named else None
    assert found.suggested.get("data.future_covariates") == proposed
