import gzip
import os
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecast.data.files.file_source import read_table
from forecast.system.errors import ConfigError, DataError, ForecastError
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


def test_changing_offsets_become_utc(tmp_path: Path):
    dates = ["2021-10-31 02:00+02:00", "2021-10-31 02:00+01:00", "2021-10-31 03:00+01:00"]
    path = write(tmp_path, lines(*[f"{date},1,{n}" for n, date in enumerate(dates)]))
    with pytest.warns(UserWarning, match="read as UTC"):
        table = read_table(path)
    assert table.grid.equals(pd.date_range("2021-10-31 00:00", periods=3, freq="h"))


def changed(row: int, text: str) -> str:
    return lines(*GOOD[:row], text, *GOOD[row + 1 :])


BAD_FILES: dict[str, tuple[str | bytes, dict, str]] = {
    "empty": ("", {}, r"empty"),
    "blank": ("\n\n", {}, r"empty"),
    "header only": ("date,load\n", {}, r"a header and no rows"),
    "dates only": ("date\n2021-01-01\n", {}, r"nothing to forecast"),
    "no date column": ("when,load\n1,2\n", {}, r"no column 'date' in line 1 \('when', 'load'"),
    "no header": ("\n".join(GOOD), {}, r"no column 'date'"),
    "other separator": (lines(*GOOD).replace(",", ";"), {}, r"separated by ';': set 'data.separator=;'"),
    "duplicate column": (lines(*GOOD, header="date,load,load"), {}, r"line 1: column 'load' appears twice"),
    "values without a name": (lines(*GOOD, header="date,load,"), {}, r"line 1: field 3 has values and no name"),
    "more values than names": (lines(*GOOD, header="date,load"), {}, r"line 1: field 3 has values and no name"),
    "long line": (changed(2, f"{HOURS[2]},2,1,9"), {}, r"line 4: 4 fields, where the lines above have 3"),
    "text": (changed(3, f"{HOURS[3]},n.a.,1"), {}, r"line 5, column 'load': 'n.a.' is not a number: correct it"),
    "decimal comma": (changed(3, f'{HOURS[3]},"3,5",1'), {}, r"line 5, column 'load': '3,5' .*data.decimal"),
    "infinite": (changed(4, f"{HOURS[4]},-inf,1"), {}, r"line 6, column 'load': an infinite number"),
    "too large": (changed(4, f"{HOURS[4]},1e999,1"), {}, r"line 6, column 'load': an infinite number"),
    "empty line": (changed(2, ""), {}, r"line 4: an empty line"),
    "no date": (changed(2, ",2,1"), {}, r"line 4, column 'date': no date"),
    "bad date": (changed(2, "soon,2,1"), {}, r"line 4, column 'date': 'soon' cannot be read"),
    "bad first date": (changed(0, "soon,2,1"), {}, r"line 2, column 'date': 'soon' is not a date"),
    "row numbers": (lines("1,2,3", "2,2,3", "3,2,3"), {}, r"line 2, column 'date': '1' is not a date"),
    "mixed dates": (changed(2, "01.03.2021 02:00,2,1"), {}, r"line 4, column 'date': '01.03.2021 02:00' cannot"),
    "not the format": (lines(*GOOD), {"date_format": "%d/%m/%Y"}, r"line 2, column 'date': .* does not match"),
    "day or month": ("date,x\n01/02/2021,1\n02/02/2021,1\n03/02/2021,1\n", {}, r"line 2, .*day or month first"),
    "some offsets": (changed(3, "2021-03-01 03:00Z,3,1"), {}, r"line 5, column 'date': .*offset from UTC, or none"),
    "twice": (changed(3, f"{HOURS[2]},3,1"), {}, r"line 5, column 'date': 2021-03-01 02:00:00 is in line 4 too"),
    "twice, apart": (changed(4, f"{HOURS[1]},3,1"), {}, r"line 6, column 'date': .*01:00:00 is in line 3 too"),
    "backwards": (changed(4, "2021-02-28 23:00,3,1"), {}, r"line 6, column 'date': .* comes after .*: sort"),
    "off the step": (lines(*GOOD), {"freq": "2h"}, r"line 3, column 'date': .* by the step 2h"),
    "off the anchor": (lines(*GOOD), {"freq": "W-WED"}, r"line 2, column 'date': .* cannot begin a grid of step W-WED"),
    "two rows": (lines(*GOOD[:2]), {}, r"too few rows to tell the step between them \(2\)"),
    "zero byte": (b"date,load\n2021-01-01,1\n2021-01-02,\x002\n", {}, r"line 3: a zero byte"),
    "Latin-1": ("date,température\n2021-01-01,1\n".encode("latin-1"), {}, r"line 1: not text in UTF-8"),
    "open quote": (changed(1, f'{HOURS[1]},"1,2'), {}, r"line 3: a quote is opened and never closed"),
    "ten million columns": (b"date" + b"," * 10_000_000, {}, r"line 1: 10,000,001 columns"),
    "no such column": (lines(*GOOD), {"columns": ["lod"]}, r"no column 'lod'; .*; did you mean 'load'"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, name: str):
    text, options, message = BAD_FILES[name]
    path = write(tmp_path, text)
    with pytest.raises(DataError, match=message) as refused:
        read_table(path, **options)
    assert str(refused.value).startswith(str(path))
    assert "\n" not in str(refused.value)


def test_unreadable_files_are_refused(tmp_path: Path):
    with pytest.raises(DataError, match="no such file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(DataError, match="folder"):
        read_table(tmp_path)
    with pytest.raises(DataError, match="device"):
        read_table("/dev/zero")
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match="device"):
        read_table(tmp_path / "pipe.csv")


def test_damaged_archives_are_refused(tmp_path: Path):
    packed = gzip.compress(lines(*GOOD).encode())
    files = {"cut.csv.gz": packed[:-12], "cut.csv": packed[:-12], "text.zip": b"PK\x03\x04date,load\n"}
    for name, content in files.items():
        with pytest.raises(DataError, match="cannot be read"):
            read_table(write(tmp_path, content, name))
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("a.csv", "date,load\n")
        archive.writestr("b.csv", "date,load\n")
    with pytest.raises(DataError, match="2 files in the archive"):
        read_table(tmp_path / "two.zip")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"separator": ""}, "data.separator='' must be one character"),
        ({"decimal": "::"}, "data.decimal"),
        ({"decimal": ",", "thousands": ","}, "must differ"),
        ({"columns": []}, "data.columns"),
        ({"columns": ["load", "load"]}, "each once"),
        ({"freq": "hourly"}, "'hourly' is not a step"),
        ({"date_format": "%Q"}, "data.date_format"),
    ],
)
def test_impossible_options_are_refused(tmp_path: Path, options: dict, message: str):
    with pytest.raises(ConfigError, match=message):
        read_table(write(tmp_path, lines(*GOOD)), **options)


def test_missing_numbers_and_rows_stay_missing(tmp_path: Path):
    text = lines(f"{HOURS[0]},7,1", f"{HOURS[1]},,NaN", f"{HOURS[2]},5", f"{HOURS[4]},9,3")
    table = read_table(write(tmp_path, text), freq="h")
    assert table.grid.equals(pd.DatetimeIndex(HOURS))
    none = np.nan
    np.testing.assert_array_equal(table.values, [[7, 1], [none, none], [5, none], [none, none], [9, 3]])
    assert table.missing.tolist() == [2, 3]


def test_rows_without_a_target_at_the_ends_are_left_out(tmp_path: Path):
    text = lines(*(f"{hour},{i if 1 <= i <= 3 else ''},1" for i, hour in enumerate(HOURS)))
    with pytest.warns(UserWarning, match="1 rows") as told:
        table = read_table(write(tmp_path, text), columns=["load"], past_covariates=["price"])
    assert [str(one.message).split(": ")[1] for one in told] == [
        "1 rows before the first value of a target are left out",
        "1 rows after the last value of a target are left out",
    ]
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


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["2021-03-01"], r"data\.rows=\['2021-03-01'\]: write two dates"),
        (["soon", None], "write dates as 2006-01-01"),
        (["2021-03-02", "2021-03-01"], "the first date lies after the last one"),
        (["2022-01-01", None], r"leaves no row: there are 2021-03-01"),
    ],
)
def test_impossible_rows_are_refused(tmp_path: Path, rows: list, message: str):
    with pytest.raises((ConfigError, DataError), match=message):
        read_table(write(tmp_path, lines(*GOOD)), rows=rows)


def test_dates_off_the_grid_and_grids_of_thin_air_are_refused(tmp_path: Path):
    with pytest.raises(DataError, match=r"line 5, .*03:30:00 does not follow .* correct the date"):
        read_table(write(tmp_path, changed(3, "2021-03-01 03:30,3,1")), freq="h")
    with pytest.raises(DataError, match="5 dates on a grid of step s with"):
        read_table(write(tmp_path, lines(*GOOD)), freq="s")


def test_a_date_off_the_grid_far_into_the_file_is_named(tmp_path: Path):
    frame = numbers(5000)
    frame.loc[4321, "date"] = frame.loc[4321, "date"].replace(":00", ":01")
    frame.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(DataError, match="line 4323, column 'date'"):
        read_table(tmp_path / "a.csv", freq="h")


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
