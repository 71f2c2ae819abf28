"""The program that `forecast.export` prints: the dates of the forecast."""

import holidays
import numpy as np
import pandas as pd
import pytest

from forecast.data import read_frame
from forecast.data.calendars import find_calendar
from forecast.data.time_features import date_range
from forecast.data.utc_offset import UtcOffset
from forecast.tools.export.example import define_steps, write_checks, write_future_dates

WEEK = pd.bdate_range("2023-12-11", "2023-12-29")
SESSIONS = pd.DatetimeIndex((WEEK.to_numpy()[:, None] + np.arange(9, 17).astype("timedelta64[h]")).ravel())


@pytest.mark.parametrize(
    ("dates", "asked"),
    [
        (WEEK, None),
        (WEEK, "XNYS"),
        (WEEK, "DE-BY"),
        (pd.date_range("2023-01-01", periods=9, freq="BME"), "ME"),
        (pd.date_range("2023-01-01", periods=9, freq="BMS"), "MS"),
        (pd.date_range("2023-01-01", periods=9, freq="QS-FEB"), "QS-FEB"),
        (date_range(pd.Timestamp("2023-01-01"), periods=9, freq="M-30"), None),
        (SESSIONS, None),
        (SESSIONS[:-3], "US"),
    ],
)
def test_the_dates_of_a_calendar(dates: pd.DatetimeIndex, asked: str | None) -> None:
    calendar = find_calendar("my.csv", dates, asked)
    about = {"calendar": calendar.state_dict(), "pred_len": 40}
    names = {"past": pd.DataFrame(index=dates), "about": about, "np": np, "pd": pd, "holidays": holidays}
    exec(define_steps(calendar.freq) + write_future_dates(about, UtcOffset()), names)
    expected = calendar.after(dates[-1], 40)  # type: ignore
    assert [*names["future"]] == [*expected]


@pytest.mark.parametrize(("columns", "absent"), [(["y"], None), (["y", "wind"], None), (["wind"], "y")])
def test_columns_that_the_model_does_not_read_may_be_absent(columns: list[str], absent: str | None) -> None:
    history = pd.DataFrame(1.5, WEEK, columns)
    about = {"feature_columns": ["y", "wind"], "unread_columns": ["wind"], "calendar": {}}
    past = history.reindex(columns=about["feature_columns"]).tail(3)
    names = {"history": history, "past": past, "about": about, "pd": pd}
    if absent:
        with pytest.raises(SystemExit, match=f"no column {absent}"):
            exec(write_checks(about), names)
    else:
        exec(write_checks(about), names)
        assert names["past"].to_numpy().tolist() == [[1.5, 0.0]] * 3


@pytest.mark.parametrize("freq", ["B", "SMS-16", "WOM-3FRI", "M-30", "3M-15", "M-1-11-21"])
def test_the_dates_of_even_steps(freq: str) -> None:
    dates = date_range(pd.Timestamp("2023-12-01"), periods=30, freq=freq)
    about = {"calendar": None, "freq": freq, "pred_len": 14, "feature_columns": [], "unread_columns": []}
    names = {"past": pd.DataFrame(index=dates[:16]), "about": about, "pd": pd} | {"history": pd.DataFrame()}
    exec(define_steps(freq) + write_checks(about) + write_future_dates(about, UtcOffset()), names)
    assert [*names["future"]] == [*dates[16:]]
    names["past"] = pd.DataFrame(index=dates[:16].delete(4))
    with pytest.raises(SystemExit, match="a date of the last rows is missing"):
        exec(define_steps(freq) + write_checks(about), names)


def test_the_dates_of_sessions_where_clocks_change() -> None:
    """Clocks go forward in New York on 10 March 2024."""
    days = pd.bdate_range("2024-01-29", "2024-03-07")
    times = np.arange(570, 960, 30).astype("timedelta64[m]")
    dates = pd.DatetimeIndex((days.to_numpy()[:, None] + times).ravel(), name="date").tz_localize(
        "America/New_York"
    )
    later = dates + pd.Timedelta(days=14)  # so that the UTC offset changes within the rows too
    for index in (dates, later):
        panel = read_frame(pd.DataFrame({"price": 1.0}, index=index), steps="rows")
        assert panel.calendar is not None
        about = {"calendar": panel.calendar.state_dict(), "pred_len": 40}
        names = {"past": pd.DataFrame(index=panel.grid), "about": about, "np": np, "pd": pd}
        exec(write_future_dates(about, panel.utc_offset), names)
        assert [*names["future"]] == [*panel.with_dates_after_ends(40).grid[-40:]]
