"""forecast convert: the store is what the table reader reads, whatever the chunks, and whoever is killed."""

import gzip
import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.data import Panel, read_table
from forecast.data.files.sources import LongSource
from forecast.data.row_ranges import StoredValues
from forecast.data.store import StoreSource, open_store
from forecast.system.errors import ForecastError
from tests.support.commands import run_command
from tests.support.csv_files import numbers, write

ROWS = 400


Convert = Callable[..., str]


@pytest.fixture
def convert(tmp_path: Path, capsys: pytest.CaptureFixture) -> Convert:
    """Convert a.csv in `tmp_path` to a.store, unless told otherwise; give the output, or the one line of error."""

    def run(*overrides: str, status: int = 0) -> str:
        given = [] if any(o.startswith("data.path=") for o in overrides) else ["data.path=a.csv"]
        assert run_command("convert", tmp_path, *given, "output=a.store", *overrides) == status
        said = capsys.readouterr()
        if status == 0:
            return said.out
        (line,) = [line for line in said.err.splitlines() if line.startswith("error: ")]
        return line.removeprefix("error: ")

    return run


def check_same(store: Path, table: Panel) -> None:
    found = open_store(store)
    assert (found.columns, found.freq, found.grid.unit) == (table.columns, table.freq, "us")
    assert found.grid.equals(table.grid)
    values = np.asarray(table.values)
    assert isinstance(found.values, StoredValues)
    np.testing.assert_array_equal(found.values.mapped, values.astype(found.values.mapped.dtype))
    np.testing.assert_array_equal(found.values.minimum, np.nanmin(values, 0))
    np.testing.assert_array_equal(found.values.maximum, np.nanmax(values, 0))


@pytest.mark.parametrize("chunk", [3000, 10_000_000])
def test_a_store_holds_what_the_reader_reads(tmp_path: Path, convert: Convert, chunk: int):
    """Of a table in another dialect, and packed or with a byte order mark."""
    frame = numbers(ROWS)
    text = frame.to_csv(index=False).encode()
    frame["date"] = pd.to_datetime(frame["date"]).dt.strftime("%d.%m.%Y %H:%M")
    frame.to_csv(tmp_path / "german.csv", index=False, sep=";", decimal=",")
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf" + text)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text))
    german = {"separator": ";", "decimal": ",", "date_format": "%d.%m.%Y %H:%M", "columns": ["wind", "load"]}
    for name, reading in (("a.csv", {}), ("a.csv.gz", {}), ("german.csv", german)):
        options = [f"data.{k}={v if k != 'columns' else '[wind,load]'}" for k, v in reading.items()]
        said = convert(f"data.path={name}", f"chunk={chunk}", "overwrite=true", *options)
        assert "400 rows" in said
        assert said.endswith("next       forecast train data=store data.path=a.store suggest=true\n")
        check_same(tmp_path / "a.store", read_table(tmp_path / name, **reading))


FAULTS = {
    "text": lambda row: row.replace(row.split(b",")[2], b"much"),
    "zero byte": lambda row: row.replace(row.split(b",")[2], b"1\x002"),
    "open quote": lambda row: row.replace(row.split(b",")[2], b'"1'),
    "between": lambda row: row.replace(b":00:00,", b":01:00,"),
    "no date": lambda row: row[row.index(b",") :],
    "ragged": lambda row: row.strip() + b",7\n",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_refused_in_the_reader_s_words(tmp_path: Path, convert: Convert, fault: str):
    rows = numbers(ROWS).to_csv(index=False).encode().splitlines(keepends=True)
    rows[58] = FAULTS[fault](rows[58])
    write(tmp_path, b"".join(rows), "a.csv")
    with pytest.raises(ForecastError) as refused:
        read_table(tmp_path / "a.csv")
    expected = str(refused.value).replace(str(tmp_path / "a.csv"), "a.csv")
    for chunk in (1010, 3100):
        refused = convert(f"chunk={chunk}", status=2)
        assert refused == expected
        assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_empty_lines_are_skipped_as_the_reader_does(tmp_path: Path, convert: Convert):
    """One, several, and more than a small chunk holds."""
    added = {1: b"\n" * 500, 3: b"\n", 57: b",,,\n", 58: b"\n\n", 200: b"\n" * 1200, 233: b" \n"}
    rows = numbers(ROWS).to_csv(index=False).encode().splitlines(keepends=True)
    content = b"".join(added.get(number, b"") + row for number, row in enumerate(rows)) + b"\n\n"
    write(tmp_path, content, "a.csv")
    with pytest.warns(UserWarning, match="skipped 1,705 lines without a value: the first is line 2"):
        table = read_table(tmp_path / "a.csv")
    convert("chunk=1000")
    check_same(tmp_path / "a.store", table)
    write(tmp_path, content.replace(rows[201], rows[201].replace(b"2021", b"soon")), "a.csv")
    with warnings.catch_warnings(action="ignore"), pytest.raises(ForecastError) as refused:
        read_table(tmp_path / "a.csv")
    expected = str(refused.value).replace(str(tmp_path / "a.csv"), "a.csv")
    assert convert("chunk=1000", "overwrite=true", status=2) == expected


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
        (DAYS, ["data.columns=load"], "data.columns=load: write a list, as in data.columns=[load]"),
        (
            "date,load,opens\n2020-01-01,1,yes\n2020-01-02,2,no\n2020-01-03,3,maybe\n",
            ["chunk=20", "data.freq=D"],
            "column 'opens': text, where rows above are numbers, or true and false: set data.drop=[opens]",
        ),
        ("date,load\n" + "2020-01-01,1;" * 1_400_000, ["chunk=1000000"], "line 2: longer than 16 MiB"),
    ],
)
def test_what_cannot_be_converted(tmp_path: Path, convert: Convert, content: str, options: list[str], message: str):
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


# ---- many series

KEYS = ("data.id_column=unique_id", "data.date_column=ds")
LENGTHS = {"b": 70, "001": 3, "a c": 150, "é": 2, "z": 41}


def long_table() -> pd.DataFrame:
    """Hourly series of several lengths and first dates, with texts, missing values, missing rows and empty ends."""
    random, parts = np.random.default_rng(1), []
    for number, (name, length) in enumerate(LENGTHS.items()):
        dates = pd.date_range("2024-01-05", periods=length, freq="h") + pd.Timedelta(hours=37 * (-number % 3))
        frame = pd.DataFrame({
            "unique_id": name, "ds": dates, "y": random.normal(size=length), "price": random.uniform(1, 9, length),
            "promo": random.choice(["none", "sale", ""], length),
        })  # fmt: skip
        if length > 40:
            empty = ["y", "price", "promo"]
            frame.loc[[*range(4), *range(20, 29), *range(length - 5, length)], empty] = np.nan
            frame = frame.drop(index=[12, 13, 24])
            frame.loc[33, "y"] = np.nan
        parts.append(frame)
    return pd.concat(parts, ignore_index=True)


ROLES: dict[str, Any] = {"columns": ["y", "price"], "past_covariates": ["promo"]}


def check_same_series(store: Path, table: Panel) -> None:
    whole = StoreSource(path=store, **ROLES).read()
    found = whole.take_rows(np.arange(len(whole)), whole.starts, whole.stops, whole.ends)
    assert (found.ids.tolist(), found.ids.name) == (table.ids.tolist(), table.ids.name)
    assert (found.freq, found.grid.name, found.texts) == (table.freq, table.grid.name, table.texts)
    assert found.grid.equals(table.grid)
    for name in ("grid_starts", "starts", "ends", "stops"):
        np.testing.assert_array_equal(getattr(found, name), getattr(table, name))
    np.testing.assert_array_equal(found.values, np.asarray(table.values).astype(np.float32))
    assert whole.missing.tolist() == table.missing.tolist()


@pytest.mark.parametrize(("kind", "chunk"), [("csv", 700), ("parquet", 700), ("folder", 700), ("csv", 10_000_000)])
def test_a_store_has_the_series_of_the_file(tmp_path: Path, convert: Convert, kind: str, chunk: int) -> None:
    frame = long_table()
    if kind == "csv":
        frame.to_csv(tmp_path / "a.csv", index=False)
    elif kind == "parquet":
        frame.to_parquet(tmp_path / "a.parquet", row_group_size=31)
    else:
        frame.to_parquet(tmp_path / "a.folder", partition_cols=["unique_id"])
    said = convert(f"data.path=a.{kind}", f"chunk={chunk}", "data.freq=h", *KEYS)
    with warnings.catch_warnings(action="ignore"):
        table = LongSource(path=tmp_path / f"a.{kind}", freq="h", **ROLES).read()
        check_same_series(tmp_path / "a.store", table)
    assert f"5 series, {len(table.values) + 27:,} rows" in said


def test_names_of_folders_keep_their_zeros(tmp_path: Path) -> None:
    frame = long_table().assign(
        unique_id=lambda table: table["unique_id"].map(dict(zip(LENGTHS, ["007", "7", "08", "09", "10"], strict=True)))
    )
    frame[["unique_id", "ds", "price"]].to_parquet(tmp_path / "a.folder", partition_cols=["unique_id"])
    with warnings.catch_warnings(action="ignore"):
        panel = LongSource(path=tmp_path / "a.folder", freq="h", columns=["price"]).read()
    assert panel.ids.tolist() == ["007", "08", "09", "10", "7"]


ADVICE = (
    r"sort the file by unique_id and ds first, with one row for each date, or train in memory "
    r"\(data=long data.sort=true data.duplicates=first\)"
)
REFUSED: dict[str, tuple[Callable[[pd.DataFrame], pd.DataFrame], tuple[str, ...], str]] = {
    "by date": (
        lambda frame: frame.dropna(subset="y").drop(columns="promo").sort_values("ds", kind="stable"), (),
        rf"a.csv, line \d+, column .*rows of other series lie between.*: {ADVICE}",
    ),
    "out of order": (
        lambda frame: frame.dropna(subset="y").drop(columns="promo").sort_values(["unique_id", "y"]), (),
        rf"a.csv, line \d+, column .*comes after.*: {ADVICE}",
    ),
    "series without an id column": (
        lambda frame: pd.concat([frame.query("unique_id == 'z'").assign(unique_id=name) for name in "abc"]),
        ("data.id_column=null",),
        r".*if 'unique_id' names series, set data.id_column=unique_id",
    ),
    "no such id column": (lambda frame: frame, ("data.id_column=shop",), ".*no column 'shop'.*"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_long_file_that_cannot_be_converted(tmp_path: Path, convert: Convert, case: str) -> None:
    change, options, message = REFUSED[case]
    change(long_table()).to_csv(tmp_path / "a.csv", index=False)
    given = options or ("data.freq=h",)
    refused = convert("chunk=400", *KEYS, *given, status=2)
    assert re.fullmatch(message, refused), refused
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
