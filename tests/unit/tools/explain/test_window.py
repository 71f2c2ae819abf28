"""The choice of a window by number or date, also where data.eval_stride scores only some windows."""

import numpy as np
import pandas as pd
import pytest

from forecast.data import DataModule, frame_data
from forecast.system.errors import ConfigError
from forecast.tools.explain.window import choose_window, windows_at_every_step
from tests.support.long_files import LENGTHS, PRED_LEN, SEQ_LEN, by_hand, long_frame, long_frame_data

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
    """The first series that has it; a window that is scored has a number."""
    scored = 0
    candidates = list(by_hand(long_frame(), "test", ["y", "temperature"], ["y"], ["price"]))
    for date in pd.date_range("2024-01-01", "2024-04-01", freq="D"):
        found = next((window for window in candidates if window[-1] == date), None)
        if found is None:
            with pytest.raises(ConfigError):
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
    names = [*range(count), "first", "last"]
    assert [choose_window(data, "test", name).number for name in names] == [*range(count), 0, count - 1]
    day_first = choose_window(data, "test", "20/02/2024")  # as a forecast reads it
    assert day_first.origin == pd.Timestamp("2024-02-20")


def test_a_date_of_data_with_a_time_zone_is_a_local_time() -> None:
    dates = pd.date_range("2024-03-01", periods=1_000, freq="h", tz="Europe/Berlin", name="date")
    frame = pd.DataFrame({"load": np.arange(1_000.0)}, index=dates)
    zoned = frame_data(frame, name="load", seq_len=24, pred_len=6, split=[0.5, 0.1, 0.4])
    zoned.setup()
    place = dates.get_loc(pd.Timestamp("2024-04-05 12:00", tz="Europe/Berlin"))
    for text in ("2024-04-05T12:00", "2024-04-05T10:00+00:00"):
        window = choose_window(zoned, "test", text)
        assert window.origin == pd.Timestamp("2024-04-05 12:00")
        future = zoned.unscale_targets(window.batch.future, window.batch.series)
        assert future[0, 0, 0] == pytest.approx(place)
