import numpy as np
import pandas as pd
import pytest

from forecast.data import read_frame
from forecast.data.calendars import find_calendar
from forecast.data.time_features import (
    describe_frequency,
    holiday_features,
    infer_frequency,
    season_candidates,
    season_length,
    time_feature_names,
    time_features,
)
from forecast.tools.export.metadata import calendar_expression
from tests.support.golden_answers import golden

BUSINESS = pd.bdate_range("2024-01-01", "2024-03-29")


def sessions(first: str, last: str, opens: str, closes: str, step: str) -> pd.DatetimeIndex:
    """Rows on business days, from the time of opening to that of closing."""
    days = pd.bdate_range(first, last)
    times = pd.timedelta_range(f"{opens}:00", f"{closes}:00", freq=step)
    return pd.DatetimeIndex((days.to_numpy()[:, None] + times.to_numpy()).ravel())


SESSIONS = sessions("2024-01-01", "2024-02-16", "09:30", "15:30", "30min")
OVERNIGHT = pd.date_range("2024-01-01", "2024-03-01", freq="h")
OVERNIGHT = OVERNIGHT[~((OVERNIGHT.day_of_week == 5) | ((OVERNIGHT.day_of_week == 6) & (OVERNIGHT.hour < 18)))]


@pytest.mark.parametrize(
    ("dates", "freq", "season", "after"),
    [
        (BUSINESS, "B", 5, ["2024-04-01", "2024-04-02", "2024-04-03", "2024-04-04", "2024-04-05", "2024-04-08"]),
        (BUSINESS[np.arange(len(BUSINESS)) % 15 != 0], "B", 5, ["2024-04-01"]),  # holidays without a row
        (BUSINESS + pd.Timedelta(hours=16), "B", 5, ["2024-04-01 16:00", "2024-04-02 16:00"]),
        (pd.date_range("2024-01-06", "2024-03-30", freq="W-SAT"), "W-SAT", 52, ["2024-04-06", "2024-04-13"]),
        (BUSINESS[BUSINESS.day_of_week < 4], "C", 4, ["2024-04-01", "2024-04-02", "2024-04-03", "2024-04-04"]),
        (SESSIONS, "30min", 13, ["2024-02-19 09:30", "2024-02-19 10:00"]),
        (SESSIONS[:-10], "30min", 13, ["2024-02-16 11:00", "2024-02-16 11:30"]),  # within a session
        (OVERNIGHT[:-1], "h", 21, ["2024-03-01 00:00", "2024-03-01 01:00"]),
    ],
)  # fmt: skip
def test_dates_go_on_as_in_the_last_weeks(dates: pd.DatetimeIndex, freq: str, season: int, after: list[str]) -> None:
    calendar = find_calendar("my.csv", dates, None)
    assert (calendar.freq, calendar.season) == (freq, season)
    assert [*calendar.after(dates[-1], len(after))] == [pd.Timestamp(date) for date in after]  # type: ignore


@pytest.mark.parametrize(
    ("rows", "asked", "after"),
    [
        (BUSINESS, "business", ["2024-04-01", "2024-04-02"]),
        (BUSINESS[BUSINESS.day_of_week == 0], ["Sun", "mon"], ["2024-03-31", "2024-04-01", "2024-04-07"]),
        (BUSINESS[:-2], "XNYS", ["2024-03-28", "2024-04-01"]),  # Good Friday
        (pd.bdate_range("2024-03-01", "2024-04-25"), "SA", ["2024-04-28"]),  # the weekend is Friday and Saturday
    ],
)
def test_dates_of_a_calendar_asked_for(rows: pd.DatetimeIndex, asked: str | list[str], after: list[str]) -> None:
    dates = find_calendar("my.csv", rows, asked).after(rows[-1], len(after))  # type: ignore
    assert [*dates] == [pd.Timestamp(date) for date in after]


@pytest.mark.parametrize(
    ("zone", "dates"),
    [
        ("America/New_York", sessions("2024-01-22", "2024-04-26", "09:30", "15:55", "5min")),  # DST on 10 March
        ("Europe/Berlin", sessions("2023-08-28", "2023-12-15", "09:00", "17:00", "h")),  # until 29 October
        ("Europe/Berlin", OVERNIGHT + pd.Timedelta(days=49)),  # with hours that clocks skip
        ("Europe/Berlin", OVERNIGHT + pd.Timedelta(days=266)),  # with hours that clocks repeat
    ],
)
@pytest.mark.parametrize("before", [4, 0, -4])
def test_sessions_keep_their_local_times_when_clocks_change(zone: str, dates: pd.DatetimeIndex, before: int) -> None:
    """A forecast from each of some days beside a change of the clocks, against the rows that were left out."""
    zoned = dates.tz_localize(zone, ambiguous=np.ones(len(dates), dtype=bool), nonexistent="NaT").dropna()
    offsets = zoned.tz_localize(None).to_numpy() - zoned.tz_convert(None).to_numpy()
    change = int(np.flatnonzero(np.diff(offsets))[0])
    per_week = int((zoned < zoned[0] + pd.Timedelta(weeks=1)).sum())
    cut = change + 1 - before * per_week // 8
    frame = pd.DataFrame({"price": np.arange(float(cut))}, index=zoned[:cut].rename("date"))
    panel = read_frame(frame, steps="rows").with_dates_after_ends(per_week)
    expected = zoned[: cut + per_week]
    found = panel.utc_offset.zoned(panel.grid)
    assert [*found] == [*expected.tz_convert(found.tz)]


# ---- features of dates

GOLDEN = golden("time_features")
FREQUENCIES = ["h", "15min", "D", "B", "W", "ME"]


@pytest.mark.parametrize("freq", FREQUENCIES)
def test_time_features_equal_the_reference(freq: str):
    dates = pd.DatetimeIndex(GOLDEN[f"{freq}_dates"].astype("datetime64[ns]"))
    np.testing.assert_allclose(time_features(dates, freq), GOLDEN[freq], rtol=0, atol=1e-6)
    np.testing.assert_allclose(time_features(dates, infer_frequency(dates)), GOLDEN[freq], rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("freq", "count", "seasons", "words"),
    [
        ("s", 6, (1,), "second"), ("10s", 6, (1,), "10 seconds"), ("500ms", 6, (1,), "500 milliseconds"),
        ("min", 5, (1440, 10_080), "minute"), ("15min", 5, (96, 672), "15 minutes"), ("7min", 5, (1,), "7 minutes"),
        ("30min", 5, (48, 336), "30 minutes"), ("h", 4, (24, 168), "hour"), ("4h", 4, (6, 42), "4 hours"),
        ("5h", 4, (1,), "5 hours"), ("36h", 4, (1,), "36 hours"), ("D", 3, (7, 365), "day"),
        ("2D", 3, (1,), "2 days"), ("28D", 3, (13,), "28 days"), ("B", 3, (5,), "business day"), ("C", 3, (1,), "C"),
        ("SMS", 3, (24,), "half month"), ("W-SUN", 2, (52,), "week"), ("4W-MON", 2, (13,), "4 weeks"),
        ("MS", 1, (12,), "month"), ("ME", 1, (12,), "month"), ("BME", 1, (12,), "month"),
        ("WOM-3FRI", 1, (12,), "month"), ("QS-OCT", 1, (4,), "quarter"), ("2QE-DEC", 1, (2,), "2 quarters"),
        ("YS-JAN", 1, (1,), "year"),
    ],
)  # fmt: skip
def test_a_step_has_features_seasons_and_words(freq: str, count: int, seasons: tuple[int, ...], words: str) -> None:
    """A day also has a week, and a week a year."""
    features = time_features(pd.date_range(pd.Timestamp("2020-01-01"), periods=900, freq=freq), freq)
    assert features.shape == (900, count)
    assert features.min() >= -0.5
    assert features.max() <= 0.5
    assert season_length(freq) == seasons[0]
    assert season_candidates(freq) == seasons
    assert describe_frequency(freq) == words


def test_a_feast_its_eve_and_the_day_after() -> None:
    dates = pd.date_range("2021-05-11 18:00", "2021-05-17", freq="h")
    told = holiday_features(dates, "TR") > 0
    days = {name: sorted({*dates.strftime("%m-%d")[column]}) for name, column in zip("hba", told.T, strict=True)}
    assert days == {
        "h": ["05-13", "05-14", "05-15"],
        "b": ["05-12", "05-13", "05-14"],
        "a": ["05-14", "05-15", "05-16"],
    }


@pytest.mark.parametrize("country", ["TR", "DE-BY"])
def test_an_exported_file_says_them_in_pandas(country: str) -> None:
    dates = pd.date_range("2021-05-01", "2021-06-10", freq="h")
    known = {"dates": dates, "np": np, "pd": pd, "holidays": pytest.importorskip("holidays")}
    said = [eval(calendar_expression(name, country), known) for name in time_feature_names("h", country)]
    np.testing.assert_allclose(np.stack(said, axis=1), time_features(dates, "h", country))
