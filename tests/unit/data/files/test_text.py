"""Text as a table: lines that are no rows, columns, dates, missing values, an index without a name."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.data.files.sources import read_table
from forecast.system.errors import DataError
from tests.support.csv_files import lines, write
from tests.support.refusals import is_said

HOURS = ["2021-03-01 00:00", "2021-03-01 01:00", "2021-03-01 02:00", "2021-03-01 03:00", "2021-03-01 04:00"]


GOOD = [f"{hour},{n},{n * 0.5}" for n, hour in enumerate(HOURS)]


def test_columns_are_chosen_in_order(tmp_path: Path):
    text = lines(*[f"{row},north" for row in GOOD], header="date,load,price,region")
    table = read_table(write(tmp_path, text), columns=["price", "load"])
    assert table.columns == ("price", "load")
    np.testing.assert_array_equal(table.values[:, 1], range(5))


@pytest.mark.parametrize(
    ("dates", "options", "freq", "first"),
    [
        (["07/13/2021", "07/14/2021", "07/15/2021"], {}, "D", "2021-07-13"),
        (["2021-01", "2021-02", "2021-03"], {}, "MS", "2021-01-01"),
        (["2021-03-07", "2021-03-14"], {"freq": "W-SUN"}, "W-SUN", "2021-03-07"),
        (["01.03.2021 00:00", "01.03.2021 00:15", "01.03.2021 00:30"],
         {"date_format": "%d.%m.%Y %H:%M"}, "15min", "2021-03-01"),
        (["01/02/2021", "01/03/2021", "01/04/2021"], {"day_first": True}, "MS", "2021-02-01"),
        (["01/14/2021", "01/15/2021", "01/16/2021"], {"day_first": True}, "D", "2021-01-14"),
    ],
)  # fmt: skip
def test_dates(tmp_path: Path, dates: list[str], options: dict, freq: str, first: str):
    text = "when,x\n" + "".join(f"{date},{n}\n" for n, date in enumerate(dates))
    table = read_table(write(tmp_path, text), date_column="when", **options)
    assert table.freq == freq
    assert str(table.grid[0]) == f"{first} 00:00:00"


@pytest.mark.parametrize(
    ("first", "pattern", "day_first"),
    [("2021-03-01", "%d.%m.%Y", True), ("2021-03-01", "%m/%d/%Y %H:%M", False), ("2021-03-01", "%Y-%m-%d", None)],
)
def test_a_date_after_the_12th_shows_whether_the_day_comes_first(
    tmp_path: Path, first: str, pattern: str, day_first: bool | None
) -> None:
    dates = pd.date_range(first, periods=20, freq="D").strftime(pattern)
    text = "date,x\n" + "".join(f"{date},{n}\n" for n, date in enumerate(dates))
    assert read_table(write(tmp_path, text)).utc_offset.day_first == day_first


def test_a_file_of_the_future_is_read_in_the_order_of_the_file(tmp_path: Path) -> None:
    past = pd.date_range("2021-01-12", periods=20, freq="D").strftime("%d/%m/%Y")
    ahead = pd.date_range("2021-02-01", periods=5, freq="D").strftime("%d/%m/%Y")
    path = write(tmp_path, "date,load,price\n" + "".join(f"{date},1,{n}\n" for n, date in enumerate(past)))
    future = write(tmp_path, "date,price\n" + "".join(f"{date},{n}\n" for n, date in enumerate(ahead)), "f.csv")
    panel = read_table(path, columns=["load"], future_covariates=["price"], future_path=future)
    assert panel.grid.equals(pd.date_range("2021-01-12", periods=25, freq="D"))
    assert panel.future is not None
    np.testing.assert_array_equal(panel.future[:, 0], [*range(20), *range(5)])


def test_missing_numbers_and_rows_stay_missing(tmp_path: Path):
    text = lines(f"{HOURS[0]},7,1", f"{HOURS[1]},,NaN", f"{HOURS[2]},5", f"{HOURS[4]},9,3")
    table = read_table(write(tmp_path, text), freq="h")
    assert table.grid.equals(pd.DatetimeIndex(HOURS))
    none = np.nan
    np.testing.assert_array_equal(table.values, [[7, 1], [none, none], [5, none], [none, none], [9, 3]])
    assert table.missing.tolist() == [2, 3]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([HOURS[1], HOURS[3]], [1, 2, 3]), ([None, HOURS[1]], [0, 1]), ([HOURS[2], None], [2, 3, 4]),
        (["2021-03-01", "2021-03-01"], [0, 1, 2, 3, 4]),
    ],
)  # fmt: skip
def test_rows_between_two_dates(tmp_path: Path, rows: list, expected: list[int]):
    table = read_table(write(tmp_path, lines(*GOOD)), rows=rows, freq="h")
    assert table.grid.equals(pd.DatetimeIndex(HOURS)[expected])


DATES = pd.date_range("2024-01-01", periods=40, freq="h")
FRAME = pd.DataFrame({"date": DATES, "load": np.arange(40.0)})


def test_row_numbers_are_not_forecast(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "table.csv")
    panel = read_table(tmp_path / "table.csv")
    assert panel.columns == ("load",)
    assert panel.grid.tolist() == DATES.tolist()
    both = read_table(tmp_path / "table.csv", columns=["Unnamed: 0", "load"])
    assert both.columns == ("Unnamed: 0", "load")


def test_dates_without_a_name_are_found(tmp_path: Path) -> None:
    FRAME.set_axis(DATES)[["load"]].to_csv(tmp_path / "table.csv")
    with pytest.warns(UserWarning, match="'Unnamed: 0' looks like dates and is used"):
        panel = read_table(tmp_path / "table.csv")
    assert (panel.columns, panel.grid.tolist()) == (("load",), DATES.tolist())


# ---- lines above the header, and without a value


HOURLY = pd.date_range("2024-01-01", periods=30, freq="h")
ROWS = "".join(f"{date},{number},{number}.5\n" for number, date in enumerate(HOURLY))
OPEN_METEO = (
    "latitude,longitude,elevation,utc_offset_seconds,timezone,timezone_abbreviation\n"
    "52.52,13.41,38.0,0,GMT,GMT\n\n"
    f"time,temperature_2m (°C),wind\n{ROWS}"
)
TITLED = f"A title: load, price\nUnit;kW\ndate,load,price\n{ROWS}"


@pytest.mark.parametrize(("text", "lines"), [(OPEN_METEO, 3), (TITLED, 2), (TITLED.replace("\n", "\r\n"), 2)])
@pytest.mark.filterwarnings("ignore:.*looks like dates and is used")
def test_lines_above_the_header_are_named_and_skipped(text: str, lines: int, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    advice = f"the header seems to be line {lines + 1}: set data.skip_rows={lines}$"
    with pytest.raises(DataError, match=advice):
        read_table(path)
    panel = read_table(path, skip_rows=lines)
    assert panel.grid.equals(HOURLY)
    np.testing.assert_array_equal(panel.values, np.arange(30)[:, None] + [[0, 0.5]])


METEOROLOGICAL = "Heathrow (London Airport)\n   yyyy  mm   tmax     sun\n" + "".join(
    f"   {1948 + n // 12}  {n % 12 + 1:2}    {n % 7 + 8.9:4.1f}    {n % 5 + 30.5:>5}\n" for n in range(60)
)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        (f"time,load,price\nUTC,kW,EUR\n{ROWS}", "set data.date_column to the name of the dates; rows …"),
        (f"sep=;\n{TITLED}", "line 4: set data.skip_rows=3"),
        (
            f"sep=;\n{TITLED}".replace(",", ";"),
            "line 4 and it looks separated by ';': set data.skip_rows=3 'data.separator=;'",
        ),
        (METEOROLOGICAL, "line 2 and it looks separated by ' ': set data.skip_rows=1 'data.separator= '"),
        ("year, month, x\n2001, 1, 5\n2001, 2, 6\n", ": set data.date_column=[year,month]"),
    ],
)
def test_only_lines_above_a_likely_header_are_named(text: str, advice: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        read_table(write(tmp_path, text), date_column="date" if "date," in text else "day")
    assert is_said(advice, str(error.value))


def test_a_file_whose_first_line_is_the_header_keeps_it(tmp_path: Path) -> None:
    """As another file for a trained model, or one of the future, which may be without the lines above the header."""
    path = write(tmp_path, f"date,load,price\n{ROWS}")
    with pytest.warns(UserWarning, match="line 1 names the dates: data.skip_rows=2 is not applied"):
        panel = read_table(path, skip_rows=2)
    assert panel.grid.equals(HOURLY)


TEN_ROWS = [f"2021-03-01 {hour:02}:00,{hour},{hour * 0.5}" for hour in range(10)]


def with_lines(added: dict[int, str], rows: list[str] = TEN_ROWS, header: str = "date,load,price") -> str:
    """A file in which these lines, by number, are added."""
    lines = [header, *rows]
    for number, text in sorted(added.items()):
        lines.insert(number - 1, text)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("text", ["", "  ", "\t", ",,", "NA,,", "\r"])
def test_empty_lines_are_skipped_with_one_warning(text: str, tmp_path: Path) -> None:
    path = write(tmp_path, with_lines({4: text, 5: text, 9: text}) + "\n\n")
    with warnings.catch_warnings(record=True, action="always") as said:
        table = read_table(path)
    assert [str(each.message) for each in said] == [f"{path}: skipped 3 lines without a value: the first is line 4"]
    plain = read_table(write(tmp_path, with_lines({}), "plain.csv"))
    np.testing.assert_array_equal(table.values, plain.values)
    assert table.grid.equals(plain.grid)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({8: "2021-03-01 05:00,n.a.,1"}, "line 8, column 'load': 'n.a.' is not a number"),
        ({8: ",5,1"}, "line 8, column 'date': no date"),
        ({8: "2021-03-01 02:00,5,1"}, "line 8, column 'date': 2021-03-01 02:00:00 comes after"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*skipped 2 lines without a value")
def test_messages_name_the_lines_of_the_file(bad: dict[int, str], says: str, tmp_path: Path) -> None:
    path = write(tmp_path, with_lines({3: "", 5: "", **bad}))
    with pytest.raises(DataError, match=f"table.csv, {says}"):
        read_table(path)
