"""Local times against what pandas makes of UTC, the other way round."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecast.data import csv_data, long_data, read_frame
from forecast.data.calendars import UtcOffset
from forecast.data.files.sources import FrameSource, read_table

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
def test_local_times_become_utc(
    tmp_path_factory: pytest.TempPathFactory, year: int, day: str, zone: str, freq: str
):
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


@pytest.mark.parametrize(("freq", "rows_per_date"), [("h", 2), ("30min", 3)])
def test_several_rows_of_one_date_are_added_up_in_their_hour(tmp_path: Path, freq: str, rows_per_date: int):
    utc = pd.date_range("2024-10-26 12:00", periods=96, freq=freq)
    path = local_file(tmp_path / "autumn.csv", utc, "Europe/Berlin")
    header, *rows = path.read_text().splitlines(keepends=True)
    path.write_text("".join([header, *(row for row in rows for _ in range(rows_per_date))]))
    table = read_table(path, timezone="Europe/Berlin", duplicates="sum")
    assert table.grid.equals(utc)
    assert table.values[:, 0].tolist() == [rows_per_date * n for n in range(96)]


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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
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
    with warnings.catch_warnings():
        warnings.simplefilter("error")
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
