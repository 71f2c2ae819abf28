"""Local times against what pandas makes of UTC, the other way round."""

from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecast.data.table import read_table
from forecast.errors import ConfigError, DataError

ZONES = ["Europe/Berlin", "America/New_York", "America/St_Johns", "Australia/Sydney", "Asia/Kolkata", "UTC"]


def local_file(path: Path, utc: pd.DatetimeIndex, zone: str) -> Path:
    local = utc.tz_localize("UTC").tz_convert(zone).strftime("%Y-%m-%d %H:%M")
    path.write_text("date,load\n" + "".join(f"{date},{n}\n" for n, date in enumerate(local)))
    return path


@settings(max_examples=15, deadline=None)
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
    assert read_table(path, timezone=zone).dates.equals(utc)


def test_half_an_hour_of_daylight_saving(tmp_path: Path):
    utc = pd.date_range("2024-03-01", periods=6_000, freq="30min")
    path = local_file(tmp_path / "howe.csv", utc, "Australia/Lord_Howe")
    assert read_table(path, timezone="Australia/Lord_Howe").dates.equals(utc)


def test_days_stay_days(tmp_path: Path):
    days = pd.date_range("2024-01-01", periods=400, freq="D")
    (tmp_path / "days.csv").write_text("date,load\n" + "".join(f"{day:%Y-%m-%d},1\n" for day in days))
    table = read_table(tmp_path / "days.csv", timezone="Europe/Berlin")
    assert table.dates.equals(days)
    assert table.freq == "D"


def test_an_hour_left_out_where_it_comes_twice_is_a_gap(tmp_path: Path):
    utc = pd.date_range("2024-10-26 12:00", periods=48, freq="h")
    path = local_file(tmp_path / "autumn.csv", utc, "Europe/Berlin")
    lines = path.read_text().splitlines(keepends=True)
    twice = [n for n, line in enumerate(lines) if line.startswith("2024-10-27 02:00")]
    assert len(twice) == 2
    path.write_text("".join(line for n, line in enumerate(lines) if n != twice[1]))
    with pytest.raises(
        DataError, match=f"line {twice[1] + 1}, .*02:00:00 does not follow 2024-10-27 00:00:00"
    ):
        read_table(path, timezone="Europe/Berlin")


@pytest.mark.parametrize(
    "zone", ["", "Mars/Olympus", "../../etc/passwd", "/etc/localtime", "Europe", "\0", "x" * 300]
)
def test_what_is_no_zone_is_refused(tmp_path: Path, zone: str):
    path = local_file(tmp_path / "t.csv", pd.date_range("2024-01-01", periods=9, freq="h"), "UTC")
    with pytest.raises(ConfigError, match="is not a zone"):
        read_table(path, timezone=zone)
