"""Files whose rows are steps, files with gaps, files without a header or dates, and dates of months and quarters."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.data.files.dates import split_dates
from forecast.data.files.sources import LongSource, read_table
from forecast.data.files.text import find_parts

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
def test_dates_of_months_quarters_and_parts(
    tmp_path: Path, text: str, options: dict, freq: str, last: str
) -> None:
    (tmp_path / "a.csv").write_text(text)
    panel = read_table(tmp_path / "a.csv", **options)
    assert (panel.freq, str(panel.grid[-1].date())) == (freq, last)  # type: ignore
    np.testing.assert_array_equal(panel.values[:, 0], np.arange(len(panel.grid)))


def test_series_without_dates_all_begin_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,v\n" + "".join(f"{name},{n}\n" for n, name in enumerate("aababb")))
    panel = LongSource(
        path=tmp_path / "a.csv", id_column="id", target="v", start="2024-01-01", freq="h"
    ).read()
    assert panel.grid_starts.tolist() == [0, 0]
    assert panel.values[:, 0].tolist() == [0, 1, 3, 2, 4, 5]


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
