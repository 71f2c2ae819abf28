"""The choice of a window by number or date, also where data.eval_stride scores only some windows."""

import numpy as np
import pandas as pd
import pytest

from forecast.data import DataModule
from forecast.system.errors import ConfigError
from forecast.tools.explain.window import choose_window, windows_at_every_step
from tests.support.long_files import LENGTHS, PRED_LEN, SEQ_LEN, by_hand, long_frame, long_frame_data

STRIDE = 4


@pytest.fixture(scope="module")
def data() -> DataModule:
    made = long_frame_data(
        long_frame(),
        seq_len=SEQ_LEN,
        pred_len=PRED_LEN,
        split=[0.7, 0.1, 0.2],
        name="sales",
        eval_stride=STRIDE,
        past_covariates=["temperature"],
        future_covariates=["price"],
        static_covariates=["region", "size"],
    )
    made.setup()
    return made


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_windows_at_every_step_are_all_windows_of_the_split(data: DataModule, split: str) -> None:
    expected = list(by_hand(long_frame(), split, ["y", "temperature"], ["y"], ["price"]))
    every = windows_at_every_step(data, split)
    assert len(every) == len(expected)
    assert (len(data.windows[split]) < len(every)) == (split != "train")


def test_every_window_is_found_by_the_date_of_its_forecast(data: DataModule) -> None:
    """The first series that has it; a window that is scored has a number."""
    scored = 0
    for date in pd.date_range("2024-01-01", "2024-04-01", freq="D"):
        candidates = by_hand(long_frame(), "test", ["y", "temperature"], ["y"], ["price"])
        found = next((window for window in candidates if window[-1] == date), None)
        if found is None:
            with pytest.raises(ConfigError, match="has the windows 0 to"):
                choose_window(data, "test", str(date))
            continue
        window = choose_window(data, "test", str(date))
        assert (window.series, window.origin) == (found[4], date)
        np.testing.assert_allclose(window.batch.past[0], found[0], atol=1e-5)
        np.testing.assert_allclose(window.batch.future[0], found[2], atol=1e-5)
        if window.number is None:
            assert window.name == f"the window of {date}"
        else:
            scored += 1
            assert choose_window(data, "test", window.number).dates.equals(window.dates)
    assert 0 < scored < len(LENGTHS) * 8


def test_numbers_count_the_scored_windows(data: DataModule) -> None:
    count = len(data.windows["test"])
    assert [choose_window(data, "test", number).number for number in range(count)] == list(range(count))
    assert choose_window(data, "test", "first").number == 0
    assert choose_window(data, "test", "last").number == count - 1
    for wrong in (count, -1, "soon", "2031-01-01"):
        with pytest.raises(ConfigError, match=f"the windows 0 to {count - 1} of 4 series"):
            choose_window(data, "test", wrong)
