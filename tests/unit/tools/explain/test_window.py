"""The choice of a window by date, also where data.eval_stride scores only some windows."""

import numpy as np
import pandas as pd
import pytest

from forecast.data import DataModule
from forecast.system.errors import ConfigError
from forecast.tools.explain.explanation import choose_window, windows_at_every_step
from tests.support.long_files import PRED_LEN, SEQ_LEN, by_hand, long_frame, long_frame_data

STRIDE = 4


@pytest.fixture(scope="module")
def data() -> DataModule:
    sizes = {"seq_len": SEQ_LEN, "pred_len": PRED_LEN, "split": [0.7, 0.1, 0.2], "name": "sales"}
    roles = {
        "past_covariates": ["temperature"],
        "future_covariates": ["price"],
        "static_covariates": ["region"],
    }
    made = long_frame_data(long_frame(), eval_stride=STRIDE, **sizes, **roles)
    made.setup()
    return made


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_windows_at_every_step_are_all_windows_of_the_split(data: DataModule, split: str) -> None:
    expected = list(by_hand(long_frame(), split, ["y", "temperature"], ["y"], ["price"]))
    every = windows_at_every_step(data, split)
    assert len(every) == len(expected)
    assert (len(data.windows[split]) < len(every)) == (split != "train")


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
