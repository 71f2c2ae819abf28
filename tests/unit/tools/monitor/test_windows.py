"""The newer windows of `forecast.monitor`: forecasts that begin after the last step of the test."""

import numpy as np
import pandas as pd
import pytest

from forecast.data import frame_data, read_frame
from forecast.tools.monitor import find_last_step, keep_windows_after

BUSINESS = pd.DatetimeIndex(pd.bdate_range("2024-01-01", "2024-04-26").drop(["2024-03-29", "2024-04-01"]))
TIMES = pd.timedelta_range("09:00:00", periods=4, freq="h")
SESSIONS = pd.DatetimeIndex((BUSINESS.to_numpy()[:, None] + TIMES.to_numpy()).ravel())
HOURS = pd.date_range("2024-01-01", periods=200, freq="h")


def frame_of(dates: pd.DatetimeIndex) -> pd.DataFrame:
    values = np.random.default_rng(0).normal(size=len(dates))
    return pd.DataFrame({"load": values}, index=dates.rename("date"))


@pytest.mark.parametrize(
    ("dates", "steps", "start", "expected"),
    [
        (HOURS, "dates", "2024-01-03 22:00", "2024-01-04 02:00"),
        (BUSINESS, "rows", "2024-03-27", "2024-04-04"),  # after Good Friday, the weekend and Easter Monday
        (SESSIONS, "rows", "2024-03-28 11:00", "2024-04-02 11:00"),
        (BUSINESS, "rows", "2024-04-25", "2024-05-01"),  # beyond the last row
        (HOURS, "dates", "2023-12-31 22:00", "2024-01-01 02:00"),  # before the first row
    ],
)
def test_the_last_step_of_a_forecast_is_counted_in_rows(
    dates: pd.DatetimeIndex, steps: str, start: str, expected: str
) -> None:
    panel = read_frame(frame_of(dates), steps=steps)
    assert find_last_step(pd.DatetimeIndex([start]), 5, panel) == np.datetime64(expected)


def test_forecasts_that_share_a_row_with_the_test_are_left_out() -> None:
    sizes = {"seq_len": 6, "pred_len": 3, "split": [0.7, 0.1, 0.2]}
    data = frame_data(frame_of(BUSINESS), steps="rows", name="made", **sizes)
    data.setup()
    last = pd.DatetimeIndex(["2024-04-11"])  # of the test
    (tested,) = BUSINESS.get_indexer(last)
    end = find_last_step(last, 3, data.panel)
    keep_windows_after(data, end)
    (starts,) = data.windows["test"].starts
    assert [*BUSINESS[[starts[0] + 6, starts[-1] + 6]]] == [*BUSINESS[[tested + 3, -3]]]
    assert data.n_windows["test"] == len(starts) == len(data.windows["test"])
