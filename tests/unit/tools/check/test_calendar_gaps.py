"""Gaps that follow a calendar."""

import numpy as np
import pandas as pd
import pytest

from forecast.data.files.frame_source import read_frame
from forecast.tools.check.calendar_gaps import find_calendar_of_gaps

HOURS = pd.date_range("2024-01-01", "2024-03-29", freq="h")
BUSINESS = pd.bdate_range("2024-01-01", "2024-06-28")
EVENTS = pd.date_range("2024-01-01", periods=2_000, freq="5min")
EVENTS = EVENTS[np.sort(np.random.default_rng(0).permutation(2_000)[:900])]


@pytest.mark.parametrize(
    ("dates", "described"),
    [
        (BUSINESS.delete([14, 60]), "business days"),
        (HOURS[HOURS.day_of_week < 5], "sessions of 24 rows every h on business days"),
        (HOURS[(HOURS.hour >= 8) & (HOURS.hour < 18) & (HOURS.day_of_week < 6)].delete(77),
         "sessions of 10 rows every h on Mon, Tue, Wed, Thu, Fri, Sat"),
        (BUSINESS, None),  # no gap
        (HOURS.delete([100, 101, 900]), None),  # missing values
        (BUSINESS.delete(range(40, 50)), None),  # two weeks without rows  # type: ignore
        (pd.date_range("2024-01-01", periods=90).delete([20, 50]), None),
        (pd.date_range("2020-01-01", periods=40, freq="MS").delete([20]), None),
        (EVENTS, None),
    ],
)  # fmt: skip
def test_the_calendar_of_gaps(dates: pd.DatetimeIndex, described: str | None) -> None:
    panel = read_frame(pd.DataFrame({"x": np.arange(len(dates)) + 1.0}, index=dates))
    calendar = find_calendar_of_gaps(panel)
    assert (calendar and calendar.describe()) == described
