"""Dates that are written in several columns, and read again as `data.date_column` reads them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.data import read_table
from forecast.data.files.dates import split_dates
from forecast.data.files.patterns import find_parts


@pytest.mark.parametrize(
    ("names", "freq"),
    [
        (["year", "month", "day", "hour"], "h"),
        (["Year", "Month", "Day"], "D"),
        (["yr", "mnth"], "MS"),
        (["year", "quarter"], "QS"),
        (["day", "hour"], "h"),
        (["date", "time"], "15min"),
    ],
)
def test_dates_are_read_as_they_were_written(tmp_path: Path, names: list[str], freq: str) -> None:
    dates = pd.date_range("2023-12-31" if freq in "hD" else "2024-01-01", periods=30, freq=freq)
    table = split_dates(dates, names)
    assert list(table.columns) == names
    table.assign(load=range(30)).to_csv(tmp_path / "table.csv", index=False)
    assert read_table(tmp_path / "table.csv", date_column=names).grid.tolist() == dates.tolist()


@pytest.mark.parametrize(("night", "hours"), [("2024-11-03", [1, 2, 2, 3]), ("2024-03-10", [1, 2, 4, 5])])
def test_hours_that_end_are_those_of_the_file_where_clocks_change(
    tmp_path: Path, night: str, hours: list[int]
) -> None:
    begins = pd.date_range(night, periods=30, freq="h", tz="America/New_York")
    hour = np.timedelta64(1, "h")
    table = split_dates(begins + hour, ["day", "hour"], stamp=hour)
    assert table["hour"].tolist()[:4] == hours
    table.assign(load=range(30)).to_csv(tmp_path / "table.csv", index=False)
    options = {"date_column": ["day", "hour"], "stamp": "end", "timezone": "America/New_York"}
    read = read_table(tmp_path / "table.csv", **options)
    assert read.grid.tolist() == begins.tz_convert("UTC").tz_localize(None).tolist()


def test_months_beside_years_are_named_mm() -> None:
    """Columns yyyy and mm hold numbers; after an hour, mm is a minute."""
    assert find_parts(["yyyy", "mm"]) == ["year", "month"]
    assert find_parts(["year", "month", "day", "hour", "mm"])[-1] is None
    table = split_dates(pd.date_range("2011-06-01", periods=2, freq="MS"), ["yyyy", "mm"])
    assert table.to_dict("list") == {"yyyy": [2011, 2011], "mm": [6, 7]}
