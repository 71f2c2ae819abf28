"""Covariates: booleans and categories as indicators, and those of the future before and after a forecast origin."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.data import DataModule, csv_data, frame_data, long_data, read_table
from forecast.data.covariates import covariate_feature_names, encode_categories
from tests.support.long_files import LENGTHS, PRED_LEN, SEQ_LEN, long_frame, long_frame_data
from tests.support.windows import every, set_up

ROWS = 60
SIZES = {"name": "mine", "seq_len": SEQ_LEN, "pred_len": PRED_LEN, "split": [0.7, 0.1, 0.2]}
ROLES = {"columns": ["load"], "past_covariates": ["wind", "weather"], "future_covariates": ["promo", "price"]}
TRAIN = 42  # rows


def table() -> pd.DataFrame:
    """Hail comes in the test rows only."""
    random, dates = np.random.default_rng(0), pd.date_range("2024-01-01", periods=ROWS, freq="D", name="date")
    weather = random.choice(["sun", "rain", "snow"], ROWS).astype(object)
    weather[-4:] = "hail"
    return pd.DataFrame({
        "load": random.normal(50, 9, ROWS), "wind": random.normal(size=ROWS), "weather": weather,
        "promo": random.choice(["a b", "none"], ROWS), "price": random.uniform(1, 9, ROWS)
    }, dates)  # fmt: skip


def ready(frame: pd.DataFrame, state: dict | None = None, **options) -> DataModule:
    data = frame_data(frame, **{**SIZES, **ROLES, **options})
    if state is not None:
        data = data.with_state(state)
    with warnings.catch_warnings(action="ignore"):
        data.setup()
    return data


def test_windows_have_the_dummies_of_pandas_for_the_categories_of_the_training_rows() -> None:
    frame = table()
    data, numbers = ready(frame), frame[["load", "wind", "price"]]
    assert data.feature_columns == ("load", "wind", "weather=rain", "weather=snow", "weather=sun")
    dummies = pd.get_dummies(frame[["weather", "promo"]], prefix_sep="=").astype(float)
    train = numbers.iloc[:TRAIN]
    expected = ((numbers - train.mean()) / train.std(ddof=0)).join(dummies)
    batch = every(data, "test")
    for window in range(data.n_windows["test"]):
        origin = ROWS - PRED_LEN - data.n_windows["test"] + 1 + window
        past, ahead = expected.iloc[origin - SEQ_LEN : origin], expected.iloc[origin : origin + PRED_LEN]
        known = ["promo=a b", "promo=none", "price"]
        np.testing.assert_allclose(batch.past[window], past[list(data.feature_columns)].to_numpy(float), atol=1e-5)
        np.testing.assert_allclose(batch.past_time[window, :, -3:], past[known].to_numpy(float), atol=1e-5)
        np.testing.assert_allclose(batch.future_time[window, :, -3:], ahead[known].to_numpy(float), atol=1e-5)


def test_rows_after_the_training_rows_change_no_category_and_no_scale() -> None:
    frame, other = table(), table()
    other.iloc[TRAIN:] = [1e5, -1e5, "fog", "flash", 1e4]
    one, two = ready(frame), ready(other)
    assert one.state_dict()["categories"] == two.state_dict()["categories"]
    np.testing.assert_array_equal(every(one, "train").past, every(two, "train").past)
    np.testing.assert_array_equal(every(one, "train").future_time, every(two, "train").future_time)


def as_parquet(frame: pd.DataFrame, folder: Path) -> Callable[..., DataModule]:
    frame.reset_index().to_parquet(folder / "a.parquet")
    return lambda **options: csv_data(path=folder / "a.parquet", **options)


def as_categories(frame: pd.DataFrame, folder: Path) -> Callable[..., DataModule]:
    return lambda **options: frame_data(frame.astype({"weather": "category", "promo": "category"}), **options)


def as_series(frame: pd.DataFrame, folder: Path) -> Callable[..., DataModule]:
    frame.reset_index().assign(unique_id="a").to_csv(folder / "long.csv", index=False)
    return lambda **options: long_data(path=folder / "long.csv", date_column="date", target="load", **options)


@pytest.mark.parametrize("write", [as_parquet, as_categories, as_series])
def test_every_source_gives_the_same_windows(write: Callable, tmp_path: Path) -> None:
    frame = table()
    frame.loc[frame.index[5], ["weather", "promo"]] = None
    data = write(frame, tmp_path)(**{**SIZES, **ROLES})
    with warnings.catch_warnings(action="ignore"):
        data.setup()
    one, two = every(ready(frame), "train"), every(data, "train")
    for part in ("past", "past_time", "future_time"):
        np.testing.assert_allclose(getattr(one, part), getattr(two, part), atol=1e-6)
    assert one.past[0, 5, 2:].tolist() == [*one.past_time[0, 5, -3:-1].tolist(), 0] == [0, 0, 0]


def test_categories_of_numbers_are_matched_as_numbers(tmp_path: Path) -> None:
    frame = table()
    frame["promo"] = pd.Categorical(np.arange(ROWS) % 3 + 1)
    data = ready(frame)
    assert data.feature_columns[:2] == ("load", "wind")
    assert data.state_dict()["categories"]["promo"] == ["1", "2", "3"]
    frame.to_csv(tmp_path / "a.csv")
    panel = encode_categories("mine", read_table(tmp_path / "a.csv", **ROLES), data.categories)  # type: ignore
    assert panel.future is not None
    np.testing.assert_array_equal(panel.future[:, :3].argmax(1), np.arange(ROWS) % 3)


def test_a_file_of_yes_and_no_alone_has_the_categories_of_training() -> None:
    """Such a column is read as the numbers 1 and 0."""
    frame = table()
    frame["promo"] = np.where(np.arange(ROWS) % 7 < 3, "Yes", "no")
    frame.loc[frame.index[5], "promo"] = "maybe"
    trained = ready(frame)
    later = frame.iloc[20:-4].assign(promo=lambda part: part["promo"].str.lower())
    with warnings.catch_warnings(action="error", category=UserWarning):
        found = encode_categories("mine", frame_data(later, **SIZES, **ROLES).source_panel, trained.categories)
    names = ["promo=Yes", "promo=maybe", "promo=no"]
    assert found.future_columns[:3] == tuple(names)
    expected = pd.get_dummies(frame["promo"], prefix="promo", prefix_sep="=")[names].iloc[20:-4]
    np.testing.assert_array_equal(np.asarray(found.future)[:, :3], expected.to_numpy(float))


# ---- of the future, compared with windows that pandas cuts

CALENDAR = 3
OPTIONS: dict[str, Any] = {
    "name": "mine", "seq_len": SEQ_LEN, "pred_len": PRED_LEN, "split": [0.7, 0.1, 0.2],
    "future_covariates": ["price", "temperature"], "as_of": {"temperature": "told"},
}  # fmt: skip


def weather(future: int = 0) -> pd.DataFrame:
    """Series with a measured temperature, and what was told of it in advance."""
    frame = long_frame(future)
    return frame.assign(told=np.random.default_rng(2).normal(10, 4, len(frame)))


def ready_series(frame: pd.DataFrame, **options: Any) -> DataModule:
    return set_up(long_frame_data(frame, **OPTIONS | options))


def windows_by_hand(frame: pd.DataFrame, known: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The covariates and the mask of `temperature` of each test window, before and after its origin."""
    found = []
    for name, length in LENGTHS.items():
        one = frame[frame["unique_id"] == name].reset_index(drop=True)
        train = one[: int(0.7 * length)]

        def scaled(column: str, by: str, one: Any = one, train: Any = train) -> np.ndarray:
            found = (one[column] - train[by].mean()) / train[by].std(ddof=0)
            return found.ffill().fillna(0.0).to_numpy()

        price = scaled("price", "price")
        measured, told = scaled("temperature", "temperature"), scaled("told", "temperature")
        is_measured, is_told = one["temperature"].notna().to_numpy(), one["told"].notna().to_numpy()
        for origin in range(length - int(0.2 * length), length - PRED_LEN + 1):
            before = slice(origin - SEQ_LEN, origin)
            past = np.stack([price[before], measured[before], is_measured[before]], axis=1)
            steps = []
            for step in range(PRED_LEN):
                row, last = origin + step, origin + known - 1
                steps.append([price[row], told[min(row, last)], is_told[row] and step < known])
            found.append((past.astype(float), np.array(steps, dtype=float)))
    return found


@pytest.mark.parametrize("known", [1, 2, PRED_LEN, 100])
def test_windows_are_those_cut_by_hand(known: int) -> None:
    frame = weather(future=2)
    frame.loc[[33, 36, 95, 130, 131], ["temperature", "told"]] = np.nan
    data = ready_series(frame, known_steps={"temperature": known})
    batch = every(data, "test")
    past, ahead = map(np.stack, zip(*windows_by_hand(frame, known), strict=True))
    np.testing.assert_allclose(batch.past_time[..., CALENDAR:], past, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(batch.future_time[..., CALENDAR:], ahead, rtol=1e-5, atol=1e-6)
    assert data.n_time_features == CALENDAR + 3
    assert covariate_feature_names(data.panel.future_covariates, data.scaled.scales.known_steps) == [
        "price", "temperature", "temperature known"
    ]  # fmt: skip


def test_a_file_of_the_future_holds_what_was_told(tmp_path: Path) -> None:
    frame = weather(future=PRED_LEN)
    ends = frame.groupby("unique_id", sort=False).tail(PRED_LEN).index
    frame.drop(index=ends).to_csv(tmp_path / "past.csv", index=False)
    frame.loc[ends, ["unique_id", "ds", "price", "told"]].to_csv(tmp_path / "ahead.csv", index=False)
    data = set_up(long_data(path=tmp_path / "past.csv", future_path=tmp_path / "ahead.csv", **OPTIONS))
    whole = ready_series(frame)
    assert data.panel.future_columns == ("price", "temperature", "told")
    future, expected = data.panel.future, whole.panel.future
    assert future is not None
    assert expected is not None
    np.testing.assert_allclose(future[:, [0, 2]], expected[:, [0, 2]])
    assert np.isnan(future[data.panel.ends[0] : data.panel.stops[0], 1]).all()
