"""Gaps, gaps that follow a calendar, and the windows of a split."""

from functools import partial
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecast.data import Panel, downloaded_data, read_table
from forecast.data.files.sources import read_frame
from forecast.tools.check.advice import Choices
from forecast.tools.check.diagnosis import read
from forecast.tools.check.gaps import find_calendar_of_gaps, find_gaps, runs, split_parts

HOURS = pd.date_range("2024-01-01", "2024-03-29", freq="h")
BUSINESS = pd.bdate_range("2024-01-01", "2024-06-28")
EVENTS = pd.date_range("2024-01-01", periods=2_000, freq="5min")
EVENTS = EVENTS[np.sort(np.random.default_rng(0).permutation(2_000)[:900])]


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_runs(mask: list[bool]) -> None:
    expected, row = [], 0
    for value, group in groupby(mask):
        length = len(list(group))
        if value:
            expected.append((row, length))
        row += length
    starts, lengths = runs(np.array(mask))
    assert list(zip(starts.tolist(), lengths.tolist(), strict=True)) == expected


def test_gaps_of_numbers_beside_columns_of_text(tmp_path: Path) -> None:
    dates = pd.date_range("2024-01-01", periods=30, freq="h")
    table = pd.DataFrame({"date": dates, "y": np.arange(30.0), "temperature": 1.0, "expected": 2.0})
    table["sky"] = ["clear", "rain"] * 15
    table.loc[4, "expected"] = np.nan
    table.to_csv(tmp_path / "a.csv", index=False)
    roles = {"past_covariates": ["sky"], "future_covariates": ["temperature"]}
    read_as = {"target": "y", "columns": ["y"], "as_of": {"temperature": "expected"}}
    found = find_gaps(read_table(tmp_path / "a.csv", **roles, **read_as))
    assert (found.missing_rows, found.missing_numbers) == (0, 1)
    assert str(found.places[0]) == "expected 2024-01-01 04:00"


def test_windows_of_a_part() -> None:
    dates = pd.date_range("2021-01-01", periods=30, freq="D")
    panel = Panel.of_table(dates, np.arange(30.0)[:, None], ["load"], "D")
    train, val, test = split_parts(panel, ["2021-01-21", "2021-01-25"])
    assert (train.n_rows, val.n_rows, test.n_rows) == (20, 4, 6)
    assert train.windows(8, 3).tolist() == [10]
    assert [test.windows(*lengths).tolist() for lengths in ((8, 3), (8, 7))] == [[4], [0]]
    assert test.windows(26, 3).tolist() == [2]  # pasts cannot begin before the first row


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
    assert [(setting.key, setting.value) for setting in reading.settings] == [("data.steps", "rows")]
    assert reading.panel.grid.tolist() == dates.tolist()
    assert not reading.panel.has_missing
    assert reading.data.source.path == Path("root/set.csv")
