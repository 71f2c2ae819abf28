"""Gaps that follow a calendar."""

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.data import downloaded_data
from forecast.data.files.sources import read_frame
from forecast.tools.check.diagnosis import read
from forecast.tools.check.gaps import find_calendar_of_gaps
from forecast.tools.check.settings import Choices

HOURS = pd.date_range("2024-01-01", "2024-03-29", freq="h")
BUSINESS = pd.bdate_range("2024-01-01", "2024-06-28")
EVENTS = pd.date_range("2024-01-01", periods=2_000, freq="5min")
EVENTS = EVENTS[np.sort(np.random.default_rng(0).permutation(2_000)[:900])]


@pytest.mark.parametrize(
    ("dates", "described"),
    [
        (BUSINESS.delete([14, 60]), "business days"),
        (HOURS[HOURS.day_of_week < 5], "sessions of 24 rows every hour on business days"),
        (HOURS[(HOURS.hour >= 8) & (HOURS.hour < 18) & (HOURS.day_of_week < 6)].delete(77),
         "sessions of 10 rows every hour on Mon, Tue, Wed, Thu, Fri, Sat"),
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


def test_a_downloaded_set_is_read_again_from_its_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With rows as steps, a file below a relative root is the same file, and its steps are the dates of its rows."""
    monkeypatch.chdir(tmp_path)
    Path("root").mkdir()
    dates = BUSINESS.delete([14, 60])
    pd.DataFrame({"date": dates, "x": np.arange(len(dates)) + 1.0}).to_csv("root/set.csv", index=False)
    options = {"name": "published", "seq_len": 8, "pred_len": 2, "split": [0.7, 0.1, 0.2]}
    make = partial(downloaded_data, root="root", path="set.csv", url=None, hash=None, **options)
    reading = read(make, Choices(steps="dates"))
    panel, settings = reading.panel, reading.settings
    assert [(setting.key, setting.value) for setting in settings] == [("data.steps", "rows")]
    assert panel.grid.tolist() == dates.tolist()
    assert not panel.has_missing
    assert reading.data.source.path == Path("root/set.csv")
