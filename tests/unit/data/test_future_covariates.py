"""Future covariates before and after a forecast origin, compared with windows that pandas cuts."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.data import DataModule, long_data
from forecast.data.covariates import covariate_feature_names
from tests.support.long_files import LENGTHS, PRED_LEN, SEQ_LEN, long_frame, long_frame_data

CALENDAR = 3
OPTIONS: dict[str, Any] = {
    "name": "mine", "seq_len": SEQ_LEN, "pred_len": PRED_LEN, "split": [0.7, 0.1, 0.2],
    "future_covariates": ["price", "temperature"], "as_of": {"temperature": "told"},
}  # fmt: skip


def weather(future: int = 0) -> pd.DataFrame:
    """Series with a measured temperature, and what was told of it in advance."""
    frame = long_frame(future)
    return frame.assign(told=np.random.default_rng(2).normal(10, 4, len(frame)))


def ready(frame: pd.DataFrame, **options: Any) -> DataModule:
    data = long_frame_data(frame, **OPTIONS | options)
    data.setup()
    return data


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
    data = ready(frame, known_steps={"temperature": known})
    windows = data.windows["test"]
    batch = windows.gather(torch.arange(len(windows)))
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
    data = long_data(path=tmp_path / "past.csv", future_path=tmp_path / "ahead.csv", **OPTIONS)
    data.setup()
    whole = ready(frame)
    assert data.panel.future_columns == ("price", "temperature", "told")
    future, expected = data.panel.future, whole.panel.future
    assert future is not None
    assert expected is not None
    np.testing.assert_allclose(future[:, [0, 2]], expected[:, [0, 2]])
    assert np.isnan(future[data.panel.ends[0] : data.panel.stops[0], 1]).all()
