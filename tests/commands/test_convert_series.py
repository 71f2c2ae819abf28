"""python -m forecast.convert of long files: the store has the series of the file, whatever the chunks."""

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.data import Panel
from forecast.data.files.sources import LongSource
from forecast.data.store import StoreSource
from tests.support.conversions import Convert, converter

KEYS = ("data.id_column=unique_id", "data.date_column=ds")
LENGTHS = {"b": 70, "001": 3, "a c": 150, "é": 2, "z": 41}


@pytest.fixture
def convert(tmp_path: Path, capsys: pytest.CaptureFixture) -> Convert:
    """Convert a.csv in `tmp_path` to a.store, unless told otherwise; give the output, or the one line of the error."""

    return converter(tmp_path, capsys, *KEYS)


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


def check_same(store: Path, table: Panel) -> None:
    whole = StoreSource(path=store, **ROLES).read()
    found = whole.take_rows(np.arange(len(whole)), whole.starts, whole.stops, whole.ends)
    assert (found.ids.tolist(), found.ids.name) == (table.ids.tolist(), table.ids.name)
    assert (found.freq, found.grid.name, found.texts) == (table.freq, table.grid.name, table.texts)
    assert found.grid.equals(table.grid)
    for name in ("grid_starts", "starts", "ends", "stops"):
        np.testing.assert_array_equal(getattr(found, name), getattr(table, name))
    np.testing.assert_array_equal(found.values, np.asarray(table.values).astype(np.float32))
    assert whole.missing.tolist() == table.missing.tolist()


@pytest.mark.parametrize(("kind", "chunk"), [("csv", 700), ("parquet", 700), ("csv", 10_000_000)])
def test_a_store_has_the_series_of_the_file(tmp_path: Path, convert: Convert, kind: str, chunk: int) -> None:
    frame = long_table()
    if kind == "csv":
        frame.to_csv(tmp_path / "a.csv", index=False)
    else:
        frame.to_parquet(tmp_path / "a.parquet", row_group_size=31)
    said = convert(f"data.path=a.{kind}", f"chunk={chunk}", "data.freq=h")
    with warnings.catch_warnings(action="ignore"):
        table = LongSource(path=tmp_path / f"a.{kind}", freq="h", **ROLES).read()
        check_same(tmp_path / "a.store", table)
    assert f"5 series, {len(table.values) + 27:,} rows" in said


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
def test_what_is_refused(tmp_path: Path, convert: Convert, case: str) -> None:
    change, options, message = REFUSED[case]
    change(long_table()).to_csv(tmp_path / "a.csv", index=False)
    given = options or ("data.freq=h",)
    refused = convert("chunk=400", *given, status=2)
    assert re.fullmatch(message, refused), refused
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
