"""Series that several columns name, such as a store and a department."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.data.files.columns import split_ids
from forecast.data.files.sources import LongSource, read_frame
from forecast.data.panel import Panel
from forecast.data.store import open_store
from forecast.system.errors import DataError
from tests.support.commands import answer

COLUMNS = ["store", "dept"]
OPTIONS = {"id_column": COLUMNS, "date_column": "date", "target": "sold"}


def sales() -> pd.DataFrame:
    """Rows of four series, of which two have one store, and two one department; ids of stores begin with a zero."""
    parts = []
    for number, (store, dept) in enumerate([("01", "a"), ("01", "b"), ("02", "a"), ("10", "b")]):
        dates = pd.date_range("2021-03-01", periods=30 + number, freq="D")
        sold = np.arange(len(dates)) + 100.0 * number
        parts.append(pd.DataFrame({"store": store, "dept": dept, "date": dates, "sold": sold}))
    return pd.concat(parts, ignore_index=True)


def joined(frame: pd.DataFrame) -> Panel:
    """The panel of a frame whose columns pandas joins."""
    frame = frame.assign(**{"store/dept": frame.pop("store") + "/" + frame.pop("dept")})
    return read_frame(frame, id_column="store/dept", date_column="date", target="sold")


def write(folder: Path, frame: pd.DataFrame, suffix: str) -> Path:
    path = folder / f"sales.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    return path


def assert_same(panel: Panel, expected: Panel) -> None:
    assert sorted(panel.ids) == sorted(expected.ids)
    for name in expected.ids:
        (mine, values), (theirs, others) = read_series(panel, name), read_series(expected, name)
        pd.testing.assert_index_equal(mine, theirs)
        np.testing.assert_array_equal(values, others)


def read_series(panel: Panel, name: str) -> tuple[pd.DatetimeIndex, np.ndarray]:
    """The dates and the values of a series."""
    number = panel.ids.get_loc(name)
    rows = np.arange(int(panel.starts[number]), int(panel.ends[number]))
    return panel.dates(rows).as_unit("us"), np.asarray(panel.values[rows], dtype=float)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_ids_of_a_file_are_joined(tmp_path: Path, suffix: str) -> None:
    panel = LongSource(path=write(tmp_path, sales(), suffix), **OPTIONS).read()
    assert panel.ids.name == "store/dept"
    assert panel.ids.tolist() == ["01/a", "01/b", "02/a", "10/b"]
    assert_same(panel, joined(sales()))
    frame = sales().assign(dept=lambda rows: rows["dept"].where(rows["store"] != "10"))
    panel = LongSource(path=write(tmp_path, frame, suffix), **OPTIONS).read()
    assert panel.ids.tolist() == ["01/a", "01/b", "02/a", "10/"]
    frame.loc[3, ["store", "dept"]] = None
    with pytest.raises(DataError):  # a row without any part
        LongSource(path=write(tmp_path, frame, suffix), **OPTIONS).read()


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_ids_of_a_store_are_joined_in_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    path = write(tmp_path, sales(), suffix)
    options = ("data.id_column=[store,dept]", "chunk=300", "output=sales.store")
    assert answer(monkeypatch, "convert", tmp_path, f"data.path={path}", *options) == 0
    store = open_store(tmp_path / "sales.store")
    assert store.ids.name == "store/dept"
    assert_same(store, joined(sales()))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_static_covariates_are_found_by_the_joined_id(tmp_path: Path, suffix: str) -> None:
    sizes = pd.DataFrame(
        {"dept": list("aabb"), "store": ["02", "01", "01", "10"], "size": [3.0, 1.0, 2.0, 4.0]}
    )
    folder = tmp_path / "static"
    folder.mkdir()
    path = write(tmp_path, sales(), "csv")
    options = {"static_covariates": ["size"], "static_path": write(folder, sizes, suffix)}
    panel = LongSource(path=path, **OPTIONS, **options).read()
    assert panel.static.loc[panel.ids, "size"].tolist() == [1.0, 2.0, 3.0, 4.0]


def test_joined_ids_are_split_unless_a_text_has_the_sign_between_them() -> None:
    table = pd.DataFrame({"sold": [1, 2]}, pd.Index(["01/a", "02/b"], name="store/dept"))
    found = split_ids(table, COLUMNS).reset_index().to_dict("list")
    assert found == {"store": ["01", "02"], "dept": ["a", "b"], "sold": [1, 2]}
    unclear = table.set_index(pd.Index(["01/a", "02/b/c"], name="store/dept"))
    assert split_ids(unclear, COLUMNS) is unclear
