import gzip
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecast.data.files.sources import read_table
from forecast.system.errors import ForecastError
from tests.support.csv_files import numbers, real_file, write

HOURS = ["2021-03-01 00:00", "2021-03-01 01:00", "2021-03-01 02:00", "2021-03-01 03:00", "2021-03-01 04:00"]


def lines(*rows: str, header: str = "date,load,price") -> str:
    return "\n".join([header, *rows]) + "\n"


GOOD = [f"{hour},{n},{n * 0.5}" for n, hour in enumerate(HOURS)]


def test_a_table_is_read_exactly(tmp_path: Path):
    frame = numbers(300)
    frame.to_csv(tmp_path / "a.csv", index=False)
    table = read_table(tmp_path / "a.csv")
    assert table.columns == ("load", "price", "wind")
    assert table.freq == "h"
    assert table.grid.equals(pd.DatetimeIndex(frame["date"]))
    np.testing.assert_array_equal(table.values, frame[["load", "price", "wind"]].to_numpy())
    assert table.values.dtype == np.float64


def test_the_published_file_is_read():
    table = read_table(real_file("ETTh1.csv"))
    assert table.values.shape == (17_420, 7)
    assert table.columns == ("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT")
    assert table.freq == "h"
    assert table.values[0, 0] == 5.827000141143799
    assert str(table.grid[-1]) == "2018-06-26 19:00:00"


GOOD_FILES = {
    "byte-order mark": b"\xef\xbb\xbf" + lines(*GOOD).encode(),
    "CRLF": lines(*GOOD).replace("\n", "\r\n").encode(),
    "CR only": lines(*GOOD).replace("\n", "\r").encode(),
    "UTF-16": lines(*GOOD).encode("utf-16"),
    "no line end": lines(*GOOD).rstrip().encode(),
    "blank lines at the end": (lines(*GOOD) + "\n\n").encode(),
    "trailing commas": lines(*[f"{row}," for row in GOOD], header="date,load,price,").encode(),
    "trailing commas below line 1": lines(*[f"{row}," for row in GOOD]).encode(),
    "quotes": lines(*[",".join(f'"{cell}"' for cell in row.split(",")) for row in GOOD]).encode(),
    "spaces": lines(*[row.replace(",", " , ") for row in GOOD], header="date , load , price").encode(),
    "ISO T": lines(*[row.replace(" ", "T") for row in GOOD]).encode(),
    "one offset": lines(*[row.replace("00,", "00+01:00,", 1) for row in GOOD]).encode(),
    "Z": lines(*[row.replace("00,", "00Z,", 1) for row in GOOD]).encode(),
}


@pytest.mark.parametrize("name", GOOD_FILES)
def test_ways_to_write_the_same_table(tmp_path: Path, name: str):
    table = read_table(write(tmp_path, GOOD_FILES[name]))
    assert table.columns == ("load", "price")
    assert table.grid.equals(pd.DatetimeIndex(HOURS))
    np.testing.assert_array_equal(table.values, [[n, n / 2] for n in range(5)])


def test_packed_files(tmp_path: Path):
    text = lines(*GOOD).encode()
    packed = write(tmp_path, gzip.compress(text), "table.csv.gz")
    with zipfile.ZipFile(tmp_path / "table.zip", "w") as archive:
        archive.writestr("table.csv", text)
        archive.writestr("__MACOSX/._table.csv", b"\0")
    misnamed = [
        write(tmp_path, packed.read_bytes(), "packed.csv"),
        write(tmp_path, text, "not_packed.csv.gz"),
    ]
    for path in (packed, tmp_path / "table.zip", *misnamed):
        np.testing.assert_array_equal(read_table(path).values[:, 0], range(5))


@pytest.mark.parametrize(
    ("separator", "decimal", "thousands", "cell", "value"),
    [
        (";", ",", None, "1,5", 1.5),
        (";", ",", ".", "1.234,5", 1234.5),
        (",", ",", None, '"1,5"', 1.5),
        (",", ".", ",", '"1,234.5"', 1234.5),
        ("\t", ".", None, "1e3", 1000.0),
        (";", ".", "'", "1'234.5", 1234.5),
    ],
)
def test_signs(tmp_path: Path, separator: str, decimal: str, thousands: str | None, cell: str, value: float):
    text = "\n".join([f"date{separator}load", *[f"{hour}{separator}{cell}" for hour in HOURS]])
    table = read_table(write(tmp_path, text), separator=separator, decimal=decimal, thousands=thousands)
    np.testing.assert_array_equal(table.values, np.full((5, 1), value))


def test_columns_are_chosen_in_order(tmp_path: Path):
    text = lines(*[f"{row},north" for row in GOOD], header="date,load,price,region")
    table = read_table(write(tmp_path, text), columns=["price", "load"])
    assert table.columns == ("price", "load")
    np.testing.assert_array_equal(table.values[:, 1], range(5))


@pytest.mark.parametrize(
    ("dates", "options", "freq", "first"),
    [
        (["13/07/2021", "14/07/2021", "15/07/2021"], {}, "D", "2021-07-13"),
        (["07/13/2021", "07/14/2021", "07/15/2021"], {}, "D", "2021-07-13"),
        (["01/02/2021", "02/02/2021", "03/02/2021"], {"date_format": "%d/%m/%Y"}, "D", "2021-02-01"),
        (["20210701", "20210702", "20210703"], {}, "D", "2021-07-01"),
        (["2021-01", "2021-02", "2021-03"], {}, "MS", "2021-01-01"),
        (["2019", "2020", "2021"], {}, "YS-JAN", "2019-01-01"),
        (["2021-03-07", "2021-03-14", "2021-03-21"], {}, "W-SUN", "2021-03-07"),
        (["2021-03-07", "2021-03-14"], {"freq": "W-SUN"}, "W-SUN", "2021-03-07"),
        (["01.03.2021 00:00", "01.03.2021 00:15", "01.03.2021 00:30"],
         {"date_format": "%d.%m.%Y %H:%M"}, "15min", "2021-03-01"),
        (["01/02/2021", "01/03/2021", "01/04/2021"], {"day_first": True}, "MS", "2021-02-01"),
        (["01/02/2021", "01/03/2021", "01/04/2021"], {"day_first": False}, "D", "2021-01-02"),
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
    [
        ("2021-03-01", "%d.%m.%Y", True),
        ("2021-03-01", "%m/%d/%Y %H:%M", False),
        ("2021-03-01", "%Y/%m/%d %I:%M %p", False),
        ("2021-03-01", "%Y-%m-%d", None),
        ("2021-03-01", "%d %B %Y", None),
    ],
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
    future = write(
        tmp_path, "date,price\n" + "".join(f"{date},{n}\n" for n, date in enumerate(ahead)), "f.csv"
    )
    panel = read_table(path, columns=["load"], future_covariates=["price"], future_path=future)
    assert panel.grid.equals(pd.date_range("2021-01-12", periods=25, freq="D"))
    assert panel.future is not None
    np.testing.assert_array_equal(panel.future[:, 0], [*range(20), *range(5)])


@pytest.mark.filterwarnings("ignore:.*the offset from UTC changes:UserWarning")
def test_changing_offsets_become_utc(tmp_path: Path):
    dates = ["2021-10-31 02:00+02:00", "2021-10-31 02:00+01:00", "2021-10-31 03:00+01:00"]
    path = write(tmp_path, lines(*[f"{date},1,{n}" for n, date in enumerate(dates)]))
    table = read_table(path)
    assert table.grid.equals(pd.date_range("2021-10-31 00:00", periods=3, freq="h"))


def test_missing_numbers_and_rows_stay_missing(tmp_path: Path):
    text = lines(f"{HOURS[0]},7,1", f"{HOURS[1]},,NaN", f"{HOURS[2]},5", f"{HOURS[4]},9,3")
    table = read_table(write(tmp_path, text), freq="h")
    assert table.grid.equals(pd.DatetimeIndex(HOURS))
    none = np.nan
    np.testing.assert_array_equal(table.values, [[7, 1], [none, none], [5, none], [none, none], [9, 3]])
    assert table.missing.tolist() == [2, 3]


@pytest.mark.filterwarnings("ignore:.*left out 1 row:UserWarning")
def test_rows_without_a_target_at_the_ends_are_left_out(tmp_path: Path):
    text = lines(*(f"{hour},{i if 1 <= i <= 3 else ''},1" for i, hour in enumerate(HOURS)))
    table = read_table(write(tmp_path, text), columns=["load"], past_covariates=["price"])
    assert table.values[:, 0].tolist() == [1, 2, 3]


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


CELL = st.one_of(
    st.text(max_size=8), st.sampled_from(["1", "-2.5", "", "nan", "1e400", '"', ",", "\n", "2021-01-01"])
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(CELL, max_size=5), max_size=6), st.booleans())
def test_any_text_is_read_or_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, rows: list, header: bool
):
    text = "date,load\n" * header + "\n".join(",".join(row) for row in rows)
    path = write(tmp_path_factory.getbasetemp(), text.encode("utf-8", "surrogatepass"))
    table, refused = None, None
    try:
        table = read_table(path)
    except ForecastError as error:
        refused = str(error)
    assert table is not None or len(str(refused).splitlines()) == 1
    assert table is None or not np.isinf(table.values).any()


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_in_one_line(tmp_path_factory: pytest.TempPathFactory, content: bytes):
    for suffix in ("csv", "csv.gz", "zip"):
        with pytest.raises(ForecastError) as refused:
            read_table(write(tmp_path_factory.getbasetemp(), content, f"bytes.{suffix}"))
        assert len(str(refused.value).splitlines()) == 1


def test_columns_may_be_named_by_numbers(tmp_path: Path):
    path = write(tmp_path, lines(*GOOD, header="date,1,2"))
    assert read_table(path, columns=[2]).columns == ("2",)
