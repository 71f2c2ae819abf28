"""Dates of rows: where they are, in parts, of months and quarters, regular on no even grid, and in time zones."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecast.data import Panel, csv_data, long_data, read_frame, read_table
from forecast.data.calendars import UtcOffset
from forecast.data.files.sources import FrameSource, LongSource
from forecast.data.files.text import find_parts
from forecast.data.files.write import FileFormat
from forecast.system.errors import DataError

HOURS = pd.date_range("2024-02-01", periods=40, freq="h")
FRAME = pd.DataFrame({"load": np.arange(40.0)}, HOURS)


@pytest.mark.parametrize(
    ("frame", "name"),
    [
        (FRAME, "date"),
        (FRAME.rename_axis("hour"), "hour"),
        (FRAME.reset_index(names="ds"), "ds"),
        (FRAME.reset_index(names="date").assign(created=HOURS), "date"),
        (FRAME.reset_index(names="when").assign(when=lambda f: f["when"].dt.strftime("%Y/%m/%d %H:%M")), "when"),
        (FRAME.to_period().reset_index(names="hour"), "hour"),
    ],
)
def test_the_dates_are_the_index_or_a_column(frame: pd.DataFrame, name: str) -> None:
    source = FrameSource(frame, columns=["load"])
    panel = source.read()
    assert source.date_column == name
    assert list(panel.columns) == ["load"]
    assert panel.dates(np.arange(40)).equals(HOURS)


TWO = FRAME.assign(date=HOURS + pd.Timedelta(days=9), time=HOURS).reset_index(drop=True)


@pytest.mark.parametrize(
    ("frame", "wanted"),
    [
        (TWO, "time"),
        (TWO.set_index(HOURS + pd.Timedelta(days=5)), "time"),
        (TWO.set_index(pd.Index(TWO["date"], name="time")), "time"),
        (TWO.drop(columns="time").set_index(HOURS.rename("time")), "time"),
    ],
)
def test_a_named_column_or_index_is_taken(frame: pd.DataFrame, wanted: str) -> None:
    panel = FrameSource(frame, columns=["load"], date_column=wanted).read()
    assert panel.grid.name == wanted
    assert panel.dates(np.arange(40)).equals(HOURS)


INDEX = "give the rows an index of dates, such as pd.date_range('2024-01-01'"


@pytest.mark.parametrize(
    ("frame", "wanted", "advice"),
    [
        (TWO, "Zeit", "name one of the columns of dates (date, time) (date_column)"),
        (TWO.rename(columns={"date": "made"}), "date", "name one of the columns of dates (made, time) (date_column)"),
        (FRAME.assign(Zeit=1.0).rename_axis("time"), "Zeit", f"{INDEX}, periods=40, freq='h')"),
    ],
)
def test_a_name_of_no_dates_is_refused(frame: pd.DataFrame, wanted: str, advice: str) -> None:
    with pytest.raises(DataError) as refused:
        read_frame(frame, columns=["load"], date_column=wanted)
    problem = f"the DataFrame: neither the index nor one column {wanted!r} holds dates"
    assert str(refused.value) == f"{problem}: {advice}"


# ---- rows as steps, and dates in parts

BUSINESS = pd.bdate_range("2023-10-02", "2024-03-28")
HOLIDAYS = pd.DatetimeIndex(["2023-11-23", "2023-12-25", "2024-01-01", "2024-01-15"])
PRICES = pd.DataFrame({"price": np.arange(125.0)}, index=BUSINESS.difference(HOLIDAYS))


def long_file(path: Path, **series: pd.DataFrame) -> Path:
    parts = [frame.rename_axis("ds").reset_index().assign(unique_id=name) for name, frame in series.items()]
    pd.concat(parts).rename(columns={"price": "y"}).to_csv(path, index=False)
    return path


def test_series_share_the_dates_of_all(tmp_path: Path) -> None:
    late = PRICES.iloc[5:].drop(PRICES.index[20])
    panel = LongSource(path=long_file(tmp_path / "a.csv", a=PRICES, b=late), steps="rows").read()
    assert len(panel.grid) == len(PRICES)
    assert panel.grid_starts.tolist() == [0, 5]
    assert panel.lengths.tolist() == [125, 120]
    assert np.flatnonzero(np.isnan(panel.values[panel.starts[1] :, 0])).tolist() == [15]


def table(dates: list[str], header: str = "date") -> str:
    return "\n".join([f"{header},x", *(f"{date},{n}" for n, date in enumerate(dates)), ""])


MONTHS = pd.date_range("2001-01-01", periods=24, freq="MS")


@pytest.mark.parametrize(
    ("text", "options", "freq", "last"),
    [
        (table([f"{date:%b %Y}" for date in MONTHS]), {}, "MS", "2002-12-01"),
        (table([f"{date:%m/%Y}" for date in MONTHS]), {}, "MS", "2002-12-01"),
        (table([f'"{date:%Y, %m}"' for date in MONTHS]), {}, "MS", "2002-12-01"),
        (table([f"{y}Q{q}" for y in (2001, 2002) for q in (1, 2, 3, 4)]), {}, "QS-JAN", "2002-10-01"),
        (
            table([f"{y},{q}" for y in (2001, 2002) for q in (1, 2, 3, 4)], "year,quarter"),
            {"date_column": ["year", "quarter"]}, "QS-JAN", "2002-10-01",
        ),
        (
            table([f"2001,{n}" for n in range(1, 13)], "year,month"),
            {"date_column": ["year", "month"]}, "MS", "2001-12-01",
        ),
        (
            table([f"2001,2,{n}" for n in range(1, 13)], "year,month,day"),
            {"date_column": ["year", "month", "day"]}, "D", "2001-02-12",
        ),
        (
            table([f"2001,2,{day},{hour}" for day in (27, 28) for hour in range(1, 25)], "year,month,day,hour"),
            {"date_column": ["year", "month", "day", "hour"]}, "h", "2001-03-01",
        ),
        (table([f"{date:%Y-%m-%d}" for date in MONTHS + pd.offsets.MonthEnd()]), {}, "ME", "2002-12-31"),
    ],
)  # fmt: skip
def test_dates_of_months_quarters_and_parts(tmp_path: Path, text: str, options: dict, freq: str, last: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    panel = read_table(tmp_path / "a.csv", **options)
    assert (panel.freq, str(panel.grid[-1].date())) == (freq, last)  # type: ignore
    np.testing.assert_array_equal(panel.values[:, 0], np.arange(len(panel.grid)))


def test_series_without_dates_all_begin_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,v\n" + "".join(f"{name},{n}\n" for n, name in enumerate("aababb")))
    panel = LongSource(path=tmp_path / "a.csv", id_column="id", target="v", start="2024-01-01", freq="h").read()
    assert panel.grid_starts.tolist() == [0, 0]
    assert panel.values[:, 0].tolist() == [0, 1, 3, 2, 4, 5]


def split(
    dates: pd.DatetimeIndex,
    names: list[str],
    offset: UtcOffset = UtcOffset(),  # noqa: B008
) -> pd.DataFrame:
    """The columns of dates of a forecast, whose data have these columns."""
    frame = pd.DataFrame({"load": 0.0}, index=dates.rename(" ".join(names)))
    return FileFormat().tabulate(frame, offset, None, names).drop(columns="load")


@pytest.mark.parametrize(
    ("names", "freq"),
    [
        (["year", "month", "day", "hour"], "h"),
        (["year", "quarter"], "QS"),
        (["day", "hour"], "h"),
        (["date", "time"], "15min"),
    ],
)
def test_dates_are_read_as_they_were_written(tmp_path: Path, names: list[str], freq: str) -> None:
    dates = pd.date_range("2023-12-31" if freq in "hD" else "2024-01-01", periods=30, freq=freq)
    table = split(dates, names)
    assert list(table.columns) == names
    table.assign(load=range(30)).to_csv(tmp_path / "table.csv", index=False)
    assert read_table(tmp_path / "table.csv", date_column=names).grid.tolist() == dates.tolist()


@pytest.mark.parametrize(("night", "hours"), [("2024-11-03", [1, 2, 2, 3]), ("2024-03-10", [1, 2, 4, 5])])
def test_hours_that_end_are_those_of_the_file_where_clocks_change(tmp_path: Path, night: str, hours: list[int]) -> None:
    begins = pd.date_range(night, periods=30, freq="h", tz="America/New_York")
    hour = np.timedelta64(1, "h")
    table = split(begins + hour, ["day", "hour"], UtcOffset(stamp=hour))
    assert table["hour"].tolist()[:4] == hours
    table.assign(load=range(30)).to_csv(tmp_path / "table.csv", index=False)
    options = {"date_column": ["day", "hour"], "stamp": "end", "timezone": "America/New_York"}
    read = read_table(tmp_path / "table.csv", **options)
    assert read.grid.tolist() == begins.tz_convert("UTC").tz_localize(None).tolist()


def test_months_beside_years_are_named_mm() -> None:
    """Columns yyyy and mm hold numbers; after an hour, mm is a minute."""
    assert find_parts(["yyyy", "mm"]) == ["year", "month"]
    assert find_parts(["year", "month", "day", "hour", "mm"])[-1] is None
    table = split(pd.date_range("2011-06-01", periods=2, freq="MS"), ["yyyy", "mm"])
    assert table.to_dict("list") == {"yyyy": [2011, 2011], "mm": [6, 7]}


# ---- regular in the calendar, on no grid of equal lengths

KINDS = {  # kind: (given dates, next dates, step, season)
    "days 1, 15": ("2024-01-01 01-15 02-01 02-15 03-01", "2024-03-15 04-01", "SMS-15", 24),
    "days 1, 16": ("2024-01-01 01-16 02-01 02-16 03-01", "2024-03-16 04-01", "SMS-16", 24),
    "15 and month end": ("2024-01-15 01-31 02-15 02-29 03-15", "2024-03-31 04-15", "SME-15", 24),
    "ISO weeks": ("2015-W51 2015-W52 2015-W53 2016-W01", "2016-01-11 01-18", "W-MON", 52),
    "four weeks": ("2024-01-03 01-31 02-28 03-27 04-24", "2024-05-22 06-19", "4W-WED", 13),
    "fiscal years": ("2018-06-30 2019-06-30 2020-06-30 2021-06-30", "2022-06-30 2023-06-30", "YE-JUN", 1),
    "last business days": ("2024-01-31 02-29 03-29 04-30 05-31 06-28", "2024-07-31 08-30", "BME", 12),
    "third Fridays": ("2024-01-19 02-16 03-15 04-19 05-17", "2024-06-21 07-19", "WOM-3FRI", 12),
    "third Fridays of quarters": ("2006-12-15 2007-03-16 06-15 09-21 12-21", "2008-03-21 06-20", "3WOM-3FRI", 4),
    "last Fridays": ("2024-01-26 02-23 03-29 04-26 05-31", "2024-06-28 07-26", "LWOM-FRI", 12),
}


def texts(dates: str) -> list[str]:
    """The dates of a row of the table, in which a date without a year has that of the date before it."""
    found: list[str] = []
    for date in dates.split():
        found.append(date if date[:2] in ("18", "19", "20") and len(date) > 5 else f"{found[-1][:4]}-{date}")
    return found


def read(folder: Path, dates: list[str], how: str, **options: object) -> Panel:
    frame = pd.DataFrame({"date": dates, "load": [float(n % 3) for n in range(len(dates))]})
    if how == "frame":
        return read_frame(frame, **options)
    if how == "parquet":
        frame.to_parquet(folder / "load.parquet")
        return read_table(folder / "load.parquet", **options)
    frame.to_csv(folder / "load.csv", index=False)
    return read_table(folder / "load.csv", **options)


@pytest.mark.parametrize("kind", KINDS)
def test_dates_go_on_as_a_person_would_write_them(tmp_path: Path, kind: str) -> None:
    """Also where a row is missing, which is a missing value."""
    given, after, freq, season = KINDS[kind]
    for how in ("csv", "parquet", "frame"):
        panel = read(tmp_path, texts(given), how)
        expected = texts(after)
        dates = panel.with_dates_after_ends(len(expected)).grid.strftime("%Y-%m-%d")
        assert [*dates[-len(expected) :]] == expected
        assert (panel.freq, panel.season, panel.n_rows) == (freq, season, len(texts(given)))
    whole = [*texts(given), *texts(after)]
    panel = read(tmp_path, whole[:-2] + whole[-1:], "csv")
    assert (panel.freq, panel.missing.tolist()) == (freq, [1])
    assert panel.grid.equals(read(tmp_path, whole, "csv").grid)


def test_other_days_of_months_are_refused_or_read_as_months(tmp_path: Path) -> None:
    dates = texts("2024-01-15 02-15 03-15 04-15 05-15")
    with pytest.raises(DataError, match=r"data\.date_format=%Y-%m-15"):
        read(tmp_path, dates, "csv")
    panel = read(tmp_path, dates, "csv", date_format="%Y-%m-15")
    assert (panel.freq, str(panel.last_date)) == ("MS", "2024-05-01 00:00:00")
    for how in ({}, {"steps": "rows"}):
        with pytest.raises(DataError):
            read(tmp_path, texts("2024-01-01 01-11 01-21 02-01 02-11 02-21 03-01"), "csv", **how)


# ---- local times against what pandas makes of UTC, the other way round


ZONES = ["Europe/Berlin", "America/New_York", "America/St_Johns", "Australia/Sydney", "Asia/Kolkata", "UTC"]


def local_file(path: Path, utc: pd.DatetimeIndex, zone: str) -> Path:
    local = utc.tz_localize("UTC").tz_convert(zone).strftime("%Y-%m-%d %H:%M")
    path.write_text("date,load\n" + "".join(f"{date},{n}\n" for n, date in enumerate(local)))
    return path


@settings(max_examples=8, deadline=None)
@given(
    st.integers(1990, 2035),
    st.sampled_from(["03-01", "03-20", "10-01", "10-20"]),  # clocks change within the 40 days after
    st.sampled_from(ZONES),
    st.sampled_from(["h", "30min", "15min"]),
)
def test_local_times_become_utc(tmp_path_factory: pytest.TempPathFactory, year: int, day: str, zone: str, freq: str):
    begin = pd.Timestamp(f"{year}-{day} 16:00")
    utc = pd.date_range(begin, begin + pd.Timedelta(days=40), freq=freq)
    path = local_file(tmp_path_factory.getbasetemp() / "local.csv", utc, zone)
    assert read_table(path, timezone=zone).grid.equals(utc)


def test_an_hour_that_comes_twice_in_any_order_and_once(tmp_path: Path):
    utc = pd.date_range("2024-10-26 12:00", periods=48, freq="h")
    path = local_file(tmp_path / "autumn.csv", utc, "Europe/Berlin")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], *lines[:0:-1]]))  # from newest to oldest
    assert read_table(path, timezone="Europe/Berlin", sort=True).values[:, 0].tolist() == [*range(48)]
    twice = [n for n, line in enumerate(lines) if line.startswith("2024-10-27 02:00")]
    assert len(twice) == 2
    path.write_text("".join(line for n, line in enumerate(lines) if n != twice[1]))
    table = read_table(path, timezone="Europe/Berlin")
    assert table.grid.equals(utc)
    assert np.flatnonzero(np.isnan(table.values[:, 0])).tolist() == [twice[1] - 1]  # the header is a line


def with_offsets(path: Path, dates: pd.DatetimeIndex) -> Path:
    """Dates of a zone, each with its offset from UTC, and values that count the hours since 1970."""
    hours = dates.tz_convert(None).to_numpy().astype("datetime64[h]").astype(int)
    rows = [f"{date.isoformat()},{hour}" for date, hour in zip(dates, hours, strict=True)]
    path.write_text("date,load\n" + "\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize(
    ("offset", "minutes"),
    [("Z", 0), ("+02:00", 120), ("-0330", -210), ("+05", 300), (" UTC", 0), (" GMT", 0), ("", None)],
)
@pytest.mark.parametrize("hours", ["2024-01-01T{:02}:00", "20240101T{:02}0000"])
def test_the_utc_offset_is_what_the_dates_say(tmp_path: Path, hours: str, offset: str, minutes: int | None):
    rows = [f"{hours.format(hour)}{offset},1" for hour in range(9)]
    (tmp_path / "t.csv").write_text("\n".join(["date,load", *rows]) + "\n")
    table = read_table(tmp_path / "t.csv")
    assert table.utc_offset.minutes == minutes
    assert str(table.grid[0]) == "2024-01-01 00:00:00"
    assert table.at_utc_offset(UtcOffset()) is table
    if minutes is not None:
        assert table.at_utc_offset(UtcOffset(0)).grid.equals(table.grid - pd.Timedelta(minutes=minutes))


@pytest.mark.parametrize("zones", [("America/Los_Angeles", "Etc/GMT+7"), ("Etc/GMT+8", "Etc/GMT+7")])
def test_a_newer_file_is_read_at_the_utc_offset_of_training(tmp_path: Path, zones: tuple[str, str]):
    """Trained on offsets that change, or on winter's, then given a file of summer's."""
    training = pd.date_range("2024-02-01", periods=1200, freq="h", tz=zones[0])
    summer = pd.date_range("2024-06-01", periods=100, freq="h", tz=zones[1])
    sizes = {"name": "load", "seq_len": 12, "pred_len": 4, "batch_size": 8}
    with warnings.catch_warnings(action="ignore"):
        old = csv_data(path=with_offsets(tmp_path / "a.csv", training), split=[0.7, 0.1, 0.2], **sizes)
        old.setup()
    new = csv_data(path=with_offsets(tmp_path / "b.csv", summer), split="test", **sizes)
    new = new.with_state(old.state_dict())
    new.setup()
    for data in (old, new):
        hours = data.panel.grid.to_numpy().astype("datetime64[h]").astype(int) - data.panel.values[:, 0]
        assert set(hours) == {0 if zones[0].startswith("America") else -8}


SIZES = {"name": "load", "seq_len": 12, "pred_len": 4, "split": [0.7, 0.1, 0.2], "batch_size": 8}


def test_calendar_features_and_holidays_are_of_local_time(tmp_path: Path):
    """Across the change of clocks; the last feature columns are the holiday and its neighbours."""
    local = pd.date_range("2024-03-25", periods=400, freq="h", tz="Europe/Berlin")
    path = local_file(tmp_path / "t.csv", local.tz_convert(None), "Europe/Berlin")
    data = csv_data(path=path, timezone="Europe/Berlin", holidays="DE", **SIZES)
    with warnings.catch_warnings(action="error"):
        data.setup()
    features = data.scaled.time.calendar[:].numpy()
    np.testing.assert_allclose(features[:, 0], local.hour / 23 - 0.5, atol=1e-6)
    is_holiday = np.isin(local.strftime("%m-%d"), ["03-29", "04-01"])  # Good Friday and Easter Monday
    assert ((features[:, 4] > 0) == is_holiday).all()


def test_split_and_rows_are_local_times(tmp_path: Path):
    local = pd.date_range("2024-03-25", periods=400, freq="h", tz="Europe/Berlin")
    path = local_file(tmp_path / "t.csv", local.tz_convert(None), "Europe/Berlin")
    split = ["2024-04-02T22:00Z", "2024-04-05"]
    data = csv_data(path=path, timezone="Europe/Berlin", **{**SIZES, "split": split})
    data.setup()
    assert int(data.rows["val"][0][0]) == local.get_loc(pd.Timestamp("2024-04-03", tz="Europe/Berlin"))
    table = read_table(path, timezone="Europe/Berlin", rows=["2024-04-01", "2024-04-01"])
    assert table.utc_offset.zoned(table.grid).equals(local[local.normalize() == "2024-04-01"])
    # times that clocks skip and repeat
    assert table.utc_offset.read(pd.Timestamp("2024-03-31 02:30")) == pd.Timestamp("2024-03-31 01:00")  # type: ignore
    assert table.utc_offset.read(pd.Timestamp("2024-10-27 02:30")) == pd.Timestamp("2024-10-27 00:30")  # type: ignore


def test_future_covariates_take_the_utc_offset_of_the_series(tmp_path: Path):
    dates = pd.date_range("2024-06-01", periods=50, freq="h", tz="Etc/GMT+7")
    price = range(60)
    ahead = pd.date_range(dates[-1] + dates.freq, periods=10, freq="h").tz_convert("UTC")
    for path, days, known in (("a.csv", dates, price[:50]), ("b.csv", ahead, price[50:])):
        frame = pd.DataFrame({"unique_id": "a", "ds": days.map(pd.Timestamp.isoformat), "price": known})
        (frame.assign(y=1.0) if path == "a.csv" else frame).to_csv(tmp_path / path, index=False)
    data = long_data(
        path=tmp_path / "a.csv", future_path=tmp_path / "b.csv", future_covariates=["price"], name="load", seq_len=12,
        pred_len=4, batch_size=8, split=[0.7, 0.1, 0.2],
    )  # fmt: skip
    panel = data.source.read()
    assert panel.utc_offset.minutes == -7 * 60
    assert panel.future is not None
    assert panel.future[:, 0].tolist() == list(price)
    assert panel.grid.equals(pd.date_range("2024-06-01", periods=60, freq="h"))


def test_days_have_no_utc_offset(tmp_path: Path):
    """Midnights of a zone are days, whatever they are ahead of UTC."""
    dates = pd.date_range("2024-01-01", periods=300, freq="D", tz="Europe/Berlin")
    days, values = pd.date_range("2024-01-01", periods=300, freq="D"), np.arange(300.0)
    frame = pd.DataFrame({"date": dates, "load": values})
    frame.to_parquet(tmp_path / "a.parquet")
    frame.assign(date=dates.map(pd.Timestamp.isoformat)).to_csv(tmp_path / "a.csv", index=False)
    long = frame.assign(unique_id="a")
    tables = [
        read_table(tmp_path / "a.csv"), read_table(tmp_path / "a.csv", timezone="Europe/Berlin"),
        read_frame(frame.set_index("date")), read_table(tmp_path / "a.parquet"),
        FrameSource(long, id_column="unique_id", date_column="date", target="load").read(),
    ]  # fmt: skip
    for table in tables:
        assert table.utc_offset.minutes is None
        assert table.grid.equals(days)
