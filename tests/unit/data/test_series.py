from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.data import DataModule, long_data
from forecast.data.time_features import time_features
from forecast.evaluation.baselines import FittedBaselines
from forecast.models.linear_model import without_covariates
from tests.support.long_files import LENGTHS, PRED_LEN, SEQ_LEN, by_hand, long_frame, long_frame_data
from tests.support.windows import every, set_up

SIZES = {"name": "mine", "seq_len": SEQ_LEN, "pred_len": PRED_LEN, "split": [0.7, 0.1, 0.2]}
STATIC = ["region", "size"]


def ready(source: Path | pd.DataFrame, **options) -> DataModule:
    options = SIZES | options
    is_frame = isinstance(source, pd.DataFrame)
    return set_up(long_frame_data(source, **options) if is_frame else long_data(path=source, **options))


@pytest.mark.parametrize(
    ("options", "features", "targets"),
    [
        ({}, ["y"], ["y"]),
        ({"features": "S"}, ["y"], ["y"]),
        ({"features": "M", "past_covariates": ["temperature"]}, ["y", "temperature"], ["y"]),
        ({"features": "M", "columns": ["y", "temperature"]}, ["y", "temperature"], ["y", "temperature"]),
        ({"features": "MS", "columns": ["temperature", "y"]}, ["temperature", "y"], ["y"]),
    ],
)
def test_windows_are_those_cut_by_hand(options: dict, features: list[str], targets: list[str]) -> None:
    frame = long_frame(0 if "columns" in options else 4)
    data = ready(frame, future_covariates=["price"], static_covariates=STATIC, **options)
    for split in ("train", "val", "test"):
        check_windows(data, frame, split, features, targets)


def check_windows(data: DataModule, frame: pd.DataFrame, split: str, features: list[str], targets: list[str]) -> None:
    batch = every(data, split)
    expected = list(by_hand(frame, split, features, targets, ["price"]))
    assert len(batch.index) == len(expected) == data.n_windows[split] > 0
    past, known_past, ahead, known_ahead, names, dates = zip(*expected, strict=True)
    np.testing.assert_allclose(batch.past, np.stack(past), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(batch.future, np.stack(ahead), rtol=1e-5, atol=1e-6)
    calendar = 3  # day of week, of month, of year
    np.testing.assert_allclose(batch.past_time[..., calendar], np.stack(known_past)[..., 0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(batch.future_time[..., calendar], np.stack(known_ahead)[..., 0], rtol=1e-5, atol=1e-6)
    windows = data.windows[split]
    origins = windows.origins(batch.index).numpy()
    assert data.panel.ids[batch.series.numpy()].tolist() == list(names)
    assert list(data.panel.dates(origins)) == list(dates)
    assert data.panel.dates(origins - SEQ_LEN).equals(pd.DatetimeIndex(dates) - pd.Timedelta(days=SEQ_LEN))
    for step in range(PRED_LEN):
        told = time_features(pd.DatetimeIndex(dates) + pd.Timedelta(days=step), "D")
        np.testing.assert_allclose(batch.future_time[:, step, :calendar], told, atol=1e-6)
    sizes = np.array([10.0 * list(LENGTHS).index(name) for name in names])
    north = np.array([list(LENGTHS).index(name) % 2 == 0 for name in names])
    static = batch.future_time[:, 0, calendar + 1 :]
    np.testing.assert_allclose(static, np.stack([north, ~north, (sizes - 15) / np.std([0, 10, 20, 30])], 1), atol=1e-6)
    assert torch.equal(batch.past_time[:, 0, calendar + 1 :], static)


def test_the_same_series_from_any_file_in_any_order(tmp_path: Path) -> None:
    frame = long_frame(future=2)
    options = {"future_covariates": ["price"], "static_covariates": STATIC}
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_csv(tmp_path / "b.csv", index=False, sep=";", decimal=",")
    frame.astype({"unique_id": "category", "ds": "string"}).to_parquet(tmp_path / "b.parquet")
    frame.sample(frac=1, random_state=3).to_parquet(tmp_path / "mixed.parquet")
    first = ready(frame, **options)
    assert list(first.panel.ids) == list(LENGTHS)
    signs = {"separator": ";", "decimal": ","}
    for name in ("a.csv", "b.csv", "b.parquet", "mixed.parquet"):
        other = ready(tmp_path / name, **options, **(signs if name == "b.csv" else {}))
        order = first.panel.ids.get_indexer(other.panel.ids)
        for split in ("train", "test"):
            mine, theirs = every(first, split), every(other, split)
            of, whose = first.windows[split].series(mine.index), other.windows[split].series(theirs.index)
            for s in range(len(LENGTHS)):
                for a, b in zip(mine[:4], theirs[:4], strict=True):
                    torch.testing.assert_close(a[of == order[s]], b[whose == s], rtol=1e-6, atol=1e-6)


def test_a_checkpoint_keeps_the_scales_of_its_series_and_gives_new_ones_their_own() -> None:
    frame = long_frame()
    trained = ready(frame.loc[frame["unique_id"] != "a"])
    state = trained.state_dict()
    shifted = frame.assign(y=frame["y"] * 3 + 5)
    data = set_up(long_frame_data(shifted, **SIZES | {"split": "test"}).with_state(state))
    assert torch.equal(data.scaler.scale[1:], trained.scaler.scale)
    seen = shifted.loc[shifted["unique_id"] == "a", "y"].to_numpy()[:SEQ_LEN]  # all that the first forecast may know
    np.testing.assert_allclose([data.scaler.center[0, 0], data.scaler.scale[0, 0]], [seen.mean(), seen.std()])
    assert data.n_windows["test"] == sum(n - SEQ_LEN - PRED_LEN + 1 for n in LENGTHS.values())
    linear, naive_mae = without_covariates(torch.zeros(1, 1)), torch.tensor([[1.0], [2.0], [3.0]])
    fitted = FittedBaselines(linear, naive_mae, 7, list(LENGTHS)[1:])
    naive_mae = fitted.naive_mae_of(data.panel.ids)
    assert naive_mae[:, 0].tolist()[1:] == [1, 2, 3]
    assert naive_mae[0].isnan()


def test_gaps_within_each_series_stay_missing() -> None:
    frame = long_frame(future=2)
    holes = frame.copy()
    holes.loc[[3, 60, 61], "y"] = np.nan
    holes = holes.drop(index=[20, 21, 100])
    data = ready(holes, future_covariates=["price"])
    for s, name in enumerate(LENGTHS):
        one = holes[holes["unique_id"] == name].set_index("ds")[["y", "price"]].asfreq("D")
        history = one.loc[: one["y"].last_valid_index()]
        rows = slice(data.panel.starts[s], data.panel.ends[s])
        np.testing.assert_array_equal(data.panel.values[rows, 0], history["y"])
        assert data.panel.future is not None
        np.testing.assert_array_equal(data.panel.future[rows, 0], history["price"])
        assert data.scaled.time.future is not None
        prices = data.scaled.scales.future_scaler.inverse(
            data.scaled.time.future.past[rows][None],
            torch.tensor([s]),  # what the model reads
        )
        np.testing.assert_allclose(prices[0, :, 0], history["price"].ffill(), rtol=1e-5)


@pytest.mark.filterwarnings("ignore:constant in the training rows:UserWarning")
def test_a_value_that_was_constant_in_training_is_not_an_outlier() -> None:
    """The price of one series, constant in its training rows, and a static number that is equal in all series."""
    frame = long_frame()
    one = frame["unique_id"] == "a"
    price = frame["price"].where(~one, 500.0)
    frame["price"] = price.where(~one | (frame.groupby("unique_id").cumcount() < 38), 450.0)
    frame["size"] = 100.0
    data = ready(frame, future_covariates=["price"], static_covariates=["size"])
    test = every(data, "test")
    assert test.future_time.abs().max() < 50 / data.scaled.scales.future_scaler.scale[1:].min()
