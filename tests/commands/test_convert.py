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
from forecast.data.store import StoreSource, open_store
from forecast.system.errors import ForecastError
from tests.support.commands import answer
from tests.support.conversions import Convert, converter
from tests.support.csv_files import numbers, write

ROWS = 400


@pytest.fixture
def convert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> Convert:
    """Run the command on a.csv in `tmp_path`, unless told otherwise; give what it printed, or its one line of error."""

    return converter(tmp_path, monkeypatch, capsys)


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
    "old mac": ({"lineterminator": "\r"}, {}),
    "utf-16": ({"encoding": "utf-16"}, {"encoding": "utf-16"}),
}


@pytest.mark.parametrize(
    ("dialect", "chunk"), [("plain", 900), ("german", 300), ("some columns", 900), ("german", 10_000_000)]
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


@pytest.mark.parametrize("chunk", [60, 5000])
def test_missing_values_stay_missing_but_at_the_ends(tmp_path: Path, convert: Convert, chunk: int):
    """Values, rows, and all values at the ends and in the middle are missing, whatever chunk they lie in."""
    frame, random = numbers(120), np.random.default_rng(chunk)
    frame.iloc[:, 1:] = frame.iloc[:, 1:].mask(random.random((120, 3)) < 0.3)
    frame.loc[[30, 94], ["load", "price", "wind"]] = 1.0
    for empty in (slice(30), slice(60, 80), slice(95, None)):
        frame.iloc[empty, 1:] = np.nan
    frame = frame.drop(index=[*random.choice(np.arange(31, 94), 20, replace=False)])
    frame.to_csv(tmp_path / "a.csv", index=False)
    said = convert(f"chunk={chunk}", "data.freq=h")
    with warnings.catch_warnings(action="ignore"):
        table = read_table(tmp_path / "a.csv", freq="h")
        store = StoreSource(path=tmp_path / "a.store").read()
    assert (store.first_date, store.last_date) == (table.first_date, table.last_date)
    rows = slice(store.starts[0], store.stops[0])
    np.testing.assert_array_equal(store.values[rows], np.asarray(table.values).astype(np.float32))
    assert store.missing.tolist() == table.missing.tolist()
    assert f"missing    {np.isnan(open_store(tmp_path / 'a.store').values[:]).sum()} numbers" in said


def faulty(fault: str, row: int) -> bytes:
    """A file with a fault in a row, from 0."""
    lines = numbers(ROWS).to_csv(index=False).encode().splitlines(keepends=True)
    date, *fields = lines[row + 1].split(b",")
    cells = {
        "text": b"much",
        "infinite": b"inf",
        "zero byte": b"1\x002",
        "latin": b"\xe9",
        "open quote": b'"1',
    }
    dates = {"between": date[:-5] + b"01:00", "no date": b"", "bad date": b"soon"}
    if fault in cells:
        lines[row + 1] = b",".join([date, fields[0], cells[fault], fields[2]])
    elif fault in dates:
        lines[row + 1] = b",".join([dates[fault], *fields])
    elif fault == "ragged":
        lines[row + 1] = lines[row + 1].strip() + b",7\n"
    return b"".join(lines)


FAULTS = [
    "text", "infinite", "between", "ragged", "no date", "bad date",
    "zero byte", "latin", "open quote",
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
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


@pytest.mark.parametrize("chunk", [400, 10_000_000])
def test_empty_lines_are_skipped_as_the_reader_does(
    tmp_path: Path, convert: Convert, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    chunk: int,
):  # fmt: skip
    rows = numbers(ROWS).to_csv(index=False).encode().splitlines(keepends=True)
    write(tmp_path, with_empty_lines(rows), "a.csv")
    assert answer(monkeypatch, "convert", tmp_path, "data.path=a.csv", f"chunk={chunk}") == 0
    skipped = "a.csv: skipped 1,705 lines without a value: the first is line 2"
    assert capsys.readouterr().err == f"warning: {skipped}\n"
    with warnings.catch_warnings(record=True, action="always") as said:
        table = read_table(Path("a.csv"))
    assert [str(each.message) for each in said] == [skipped]
    check_same(tmp_path / "a.store", table)
    for row in (58, 201):
        bad = [*rows[:row], rows[row].replace(b"2021", b"soon"), *rows[row + 1 :]]
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
        ("when,load\n1,2\n", [], "a.csv: no column 'date'"),
        (DAYS, ["data.fill=mean"], "data.fill"),
        (DAYS, ["chunk=0"], "chunk=0"),
        (DAYS, ["data.columns=[wind]"], "'wind'"),
        ("d\0a\0t\0e\0,\0x\0\n\0", [], "UTF-16"),
        (
            DAYS + "2020-01-03,4\n",
            [],
            "line 5, column 'date': 2020-01-03 00:00:00 is in line 4 too: sort the file by date first",
        ),
        (DAYS, ["data.duplicates=sum"], "data.duplicates=sum: a store merges no rows"),
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
    assert "float32" in convert("chunk=900")
    frame["level"] = 2.0**30 + frame["wind"] * (np.arange(ROWS) >= ROWS // 2)  # begins in float32
    frame.to_csv(tmp_path / "a.csv", index=False)
    assert "float64" in convert("chunk=900", "overwrite=true")
    check_same(tmp_path / "a.store", read_table(tmp_path / "a.csv"))
    frame.assign(load=frame["wind"] * 1e39).drop(columns="level").to_csv(tmp_path / "a.csv", index=False)
    assert "float64" in convert("chunk=900", "overwrite=true")


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


@pytest.mark.parametrize(("kind", "chunk"), [("csv", 700), ("parquet", 3000)])
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


def test_parquet_is_read_as_csv_is(tmp_path: Path, convert: Convert):
    frame = numbers(ROWS)
    frame.to_csv(tmp_path / "a.csv", index=False)
    texts, dated = frame.copy(), frame.assign(date=pd.to_datetime(frame["date"]))
    zoned = dated.assign(date=dated["date"].dt.tz_localize("UTC"))
    whole = dated.assign(load=dated["load"].astype(np.float32))
    for number, made in enumerate((texts, dated, zoned, dated.set_index("date"))):
        made.to_parquet(tmp_path / "a.parquet", row_group_size=70 + number)
        convert("data.path=a.parquet", "chunk=1000", "overwrite=true")
        check_same(tmp_path / "a.store", read_table(tmp_path / "a.csv"))
    whole.to_parquet(tmp_path / "a.parquet")
    convert("data.path=a.parquet", "overwrite=true")


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
