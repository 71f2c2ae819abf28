"""python -m forecast.convert: the store is what the table reader reads, whatever the chunks, and whoever is killed."""

import gzip
import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.data import Panel, read_table
from forecast.data.row_ranges import StoredValues
from forecast.data.store import open_store
from forecast.system.errors import ForecastError
from tests.support.conversions import Convert, converter
from tests.support.csv_files import numbers, write

ROWS = 400


@pytest.fixture
def convert(tmp_path: Path, capsys: pytest.CaptureFixture) -> Convert:
    """Run the command on a.csv in `tmp_path`, unless told otherwise; give what it printed, or its one line of error."""

    return converter(tmp_path, capsys)


def check_same(store: Path, table: Panel) -> None:
    found = open_store(store)
    assert (found.columns, found.freq, found.grid.unit) == (table.columns, table.freq, "us")
    assert found.grid.equals(table.grid)
    values = np.asarray(table.values)
    assert isinstance(found.values, StoredValues)
    np.testing.assert_array_equal(found.values.mapped, values.astype(found.values.mapped.dtype))
    np.testing.assert_array_equal(found.values.minimum, np.nanmin(values, 0))
    np.testing.assert_array_equal(found.values.maximum, np.nanmax(values, 0))


DIALECTS = {
    "plain": ({}, {}),
    "german": (
        {"sep": ";", "decimal": ","},
        {"separator": ";", "decimal": ",", "date_format": "%d.%m.%Y %H:%M"},
    ),
    "some columns": ({}, {"columns": ["wind", "load"]}),
}


@pytest.mark.parametrize(
    ("dialect", "chunk"), [("plain", 3000), ("german", 300), ("some columns", 10_000_000)]
)
def test_a_store_holds_what_the_reader_reads(tmp_path: Path, convert: Convert, dialect: str, chunk: int):
    writing, reading = DIALECTS[dialect]
    frame = numbers(ROWS if chunk > 300 else 60)
    if "date_format" in reading:
        frame["date"] = pd.to_datetime(frame["date"]).dt.strftime(reading["date_format"])
    frame.to_csv(tmp_path / "a.csv", index=False, **writing)
    options = [f"data.{k}={v if k != 'columns' else '[wind,load]'}" for k, v in reading.items()]
    said = convert(f"chunk={chunk}", *options)
    assert f"{len(frame):,} rows" in said
    check_same(tmp_path / "a.store", read_table(tmp_path / "a.csv", **reading))
    if dialect == "plain":  # packed, and with a byte order mark
        text = (tmp_path / "a.csv").read_bytes()
        (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf" + text)
        (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text))
        for name in ("a.csv", "a.csv.gz"):
            convert(f"data.path={name}", f"chunk={chunk}", "overwrite=true")
            check_same(tmp_path / "a.store", read_table(tmp_path / name))


def faulty(fault: str, row: int) -> bytes:
    """A file with a fault in a row, from 0."""
    lines = numbers(ROWS).to_csv(index=False).encode().splitlines(keepends=True)
    date, *fields = lines[row + 1].split(b",")
    cells = {"text": b"much", "zero byte": b"1\x002", "open quote": b'"1'}
    dates = {"between": date[:-5] + b"01:00", "no date": b""}
    if fault in cells:
        lines[row + 1] = b",".join([date, fields[0], cells[fault], fields[2]])
    elif fault in dates:
        lines[row + 1] = b",".join([dates[fault], *fields])
    elif fault == "ragged":
        lines[row + 1] = lines[row + 1].strip() + b",7\n"
    return b"".join(lines)


@pytest.mark.parametrize("fault", ["text", "between", "ragged", "no date", "zero byte", "open quote"])
def test_a_fault_is_refused_in_the_reader_s_words(tmp_path: Path, convert: Convert, fault: str):
    write(tmp_path, faulty(fault, 57), "a.csv")
    with pytest.raises(ForecastError) as refused:
        read_table(tmp_path / "a.csv")
    expected = str(refused.value).replace(str(tmp_path / "a.csv"), "a.csv")
    for chunk in (1010, 3100):
        refused = convert(f"chunk={chunk}", status=2)
        assert refused == expected
        assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def with_empty_lines(rows: list[bytes]) -> bytes:
    """The lines of a file with empty lines in many places: one, several, and more than a small chunk holds."""
    added = {1: b"\n" * 500, 3: b"\n", 57: b",,,\n", 58: b"\n\n", 200: b"\n" * 1200, 233: b" \n"}
    return b"".join(added.get(number, b"") + row for number, row in enumerate(rows)) + b"\n\n"


@pytest.mark.parametrize("chunk", [1000, 10_000_000])
def test_empty_lines_are_skipped_as_the_reader_does(tmp_path: Path, convert: Convert, chunk: int):
    rows = numbers(ROWS).to_csv(index=False).encode().splitlines(keepends=True)
    write(tmp_path, with_empty_lines(rows), "a.csv")
    with pytest.warns(UserWarning, match="skipped 1,705 lines without a value: the first is line 2"):
        table = read_table(tmp_path / "a.csv")
    convert(f"chunk={chunk}")
    check_same(tmp_path / "a.store", table)
    bad = [*rows[:201], rows[201].replace(b"2021", b"soon"), *rows[202:]]
    write(tmp_path, with_empty_lines(bad), "a.csv")
    with warnings.catch_warnings(action="ignore"), pytest.raises(ForecastError) as refused:
        read_table(tmp_path / "a.csv")
    expected = str(refused.value).replace(str(tmp_path / "a.csv"), "a.csv")
    assert convert(f"chunk={chunk}", "overwrite=true", status=2) == expected


DAYS = "date,load\n2020-01-01,1\n2020-01-02,2\n2020-01-03,3\n"


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("", [], "a.csv: empty"),
        (DAYS, ["chunk=0"], "chunk=0"),
        ("d\0a\0t\0e\0,\0x\0\n\0", [], "UTF-16"),
        (
            DAYS + "2020-01-03,4\n",
            [],
            "line 5, column 'date': 2020-01-03 00:00:00 is in line 4 too: sort the file by date first",
        ),
        (DAYS, ["data.duplicates=sum"], "data.duplicates=sum: a store merges no rows"),
        (
            "date,load,opens\n2020-01-01,1,yes\n2020-01-02,2,no\n2020-01-03,3,maybe\n",
            ["chunk=20", "data.freq=D"],
            "column 'opens': text, where rows above are numbers, or true and false: set data.drop=[opens]",
        ),
        ("date,load\n" + "2020-01-01,1;" * 1_400_000, ["chunk=1000000"], "line 2: longer than 16 MiB"),
    ],
)
def test_what_cannot_be_converted(
    tmp_path: Path, convert: Convert, content: str, options: list[str], message: str
):
    (tmp_path / "a.csv").write_text(content)
    assert message in convert(*options, status=2)
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_numbers_that_float32_would_round_too_far_stay_float64(tmp_path: Path, convert: Convert):
    frame = numbers(ROWS)
    frame["constant"] = 0.1
    frame.to_csv(tmp_path / "a.csv", index=False)
    assert "float32" in convert("chunk=5000")
    frame["level"] = 2.0**30 + frame["wind"] * (np.arange(ROWS) >= ROWS // 2)  # begins in float32
    frame.to_csv(tmp_path / "a.csv", index=False)
    assert "float64" in convert("chunk=5000", "overwrite=true")
    check_same(tmp_path / "a.store", read_table(tmp_path / "a.csv"))
    frame.assign(load=frame["wind"] * 1e39).drop(columns="level").to_csv(tmp_path / "a.csv", index=False)
    assert "float64" in convert("chunk=5000", "overwrite=true")


def texts(rows: int) -> pd.DataFrame:
    """Columns that are text from the first row on, late, beside yes and no, as NA too, and as numbers in quotes."""
    random, row, frame = np.random.default_rng(5), np.arange(rows), numbers(rows)
    return frame.assign(
        sky=random.choice(["rain", " sun ", "NA", "", "çok"], rows),
        late=[None] * (rows // 2) + random.choice(["b", "a"], rows - rows // 2).tolist(),
        opens=np.where(row == 1, "maybe", random.choice(["yes", "no", ""], rows)),
        code=random.choice(["7", "12"], rows),
        flag=random.choice(["true", "false"], rows),
    ).drop(index=[*range(20, 30), rows - 30])


@pytest.mark.parametrize(("kind", "chunk"), [("csv", 3000), ("parquet", 6000)])
def test_text_is_coded_as_the_reader_codes_it(tmp_path: Path, convert: Convert, kind: str, chunk: int):
    frame, names = texts(ROWS), ["sky", "late", "opens", "code", "flag"]
    if kind == "csv":
        frame.to_csv(tmp_path / "a.csv", index=False)
    else:
        frame.reset_index(drop=True).to_parquet(tmp_path / "a.parquet", row_group_size=90)
    convert(f"data.path=a.{kind}", f"chunk={chunk}", "data.freq=h")
    table, store = (
        read_table(tmp_path / f"a.{kind}", freq="h", past_covariates=names),
        open_store(tmp_path / "a.store"),
    )
    assert set(store.texts) == {"sky", "late", "opens"}
    assert store.texts == table.texts
    found = store.select_columns(table.columns).values[:]
    np.testing.assert_array_equal(found, np.asarray(table.values).astype(np.float32))


def test_what_is_there_is_kept(tmp_path: Path, convert: Convert):
    numbers(ROWS).to_csv(tmp_path / "a.csv", index=False)
    convert()
    assert convert(status=2) == "a.store: already exists: give another output, or overwrite=true"
    numbers(90).to_csv(tmp_path / "a.csv", index=False)
    convert("overwrite=true")
    check_same(tmp_path / "a.store", read_table(tmp_path / "a.csv"))
    (tmp_path / "a.store" / "mine.txt").touch()
    assert "it holds other things" in convert("overwrite=true", status=2)
    assert sorted(os.listdir(tmp_path)) == ["a.csv", "a.store"]
