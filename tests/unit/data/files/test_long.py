"""Files of many series: ids in several columns, and one series per row, with the steps in the header."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from forecast.cli.compose import imply_data
from forecast.cli.overrides import quote
from forecast.data.files.columns import split_ids
from forecast.data.files.sources import LongSource, find_roles, read_frame, read_table
from forecast.data.panel import Panel
from forecast.data.store import open_store
from forecast.system.errors import DataError, ForecastError
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


def test_ids_of_a_store_are_joined_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, sales(), "csv")
    options = ("data.id_column=[store,dept]", "chunk=300", "output=sales.store")
    assert answer(monkeypatch, "convert", tmp_path, f"data.path={path}", *options) == 0
    store = open_store(tmp_path / "sales.store")
    assert store.ids.name == "store/dept"
    assert_same(store, joined(sales()))


def test_static_covariates_are_found_by_the_joined_id(tmp_path: Path) -> None:
    sizes = pd.DataFrame({"dept": list("aabb"), "store": ["02", "01", "01", "10"], "size": [3.0, 1.0, 2.0, 4.0]})
    folder = tmp_path / "static"
    folder.mkdir()
    path = write(tmp_path, sales(), "csv")
    options = {"static_covariates": ["size"], "static_path": write(folder, sizes, "parquet")}
    panel = LongSource(path=path, **OPTIONS, **options).read()
    assert panel.static.loc[panel.ids, "size"].tolist() == [1.0, 2.0, 3.0, 4.0]


def test_joined_ids_are_split_unless_a_text_has_the_sign_between_them() -> None:
    table = pd.DataFrame({"sold": [1, 2]}, pd.Index(["01/a", "02/b"], name="store/dept"))
    found = split_ids(table, COLUMNS).reset_index().to_dict("list")
    assert found == {"store": ["01", "02"], "dept": ["a", "b"], "sold": [1, 2]}
    unclear = table.set_index(pd.Index(["01/a", "02/b/c"], name="store/dept"))
    assert split_ids(unclear, COLUMNS) is unclear


# ---- one series per row

HEADER = "country,lat,1/28/21,1/29/21,2/1/21,2/2/21,2/3/21,2/4/21\n"
WIDE = HEADER + "Mali,17.5,1,2,5,6,7,\nChad,15.4,2,3,,7,8,9\n"
TWINS = WIDE.replace("Mali", "Chad")
DATED: dict[str, Any] = {"day_first": False, "freq": "B"}


def write_wide(folder: Path, text: str, name: str = "wide.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="latin-1")
    return path


def by_pandas(text: str, ids: list[str]) -> dict[str, list[float]]:
    table = pd.read_csv(pd.io.common.StringIO(text)).assign(row=lambda rows: range(1, len(rows) + 1))  # type: ignore[attr-defined]
    long = table.melt([*ids, *({"country", "lat", "row"} - {*ids})], var_name="ds", value_name="y").assign(
        ds=lambda rows: pd.to_datetime(rows["ds"], format="%m/%d/%y")
    )
    panel = read_frame(long.astype(dict.fromkeys(ids, str)), id_column=ids, date_column="ds", target="y", freq="B")
    return values_by_id(panel)


def values_by_id(panel) -> dict[str, list[float]]:
    return {
        name: panel.values[int(panel.starts[number]) : int(panel.ends[number]), 0].tolist()
        for number, name in enumerate(panel.ids)
    }


def assert_equal(found: dict[str, list[float]], expected: dict[str, list[float]]) -> None:
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)


@pytest.mark.parametrize(("text", "ids"), [(WIDE, ["country"]), (TWINS, ["country", "lat"]), (TWINS, ["row"])])
def test_values_are_those_that_pandas_melts(text: str, ids: list[str], tmp_path: Path) -> None:
    drop = [name for name in ("country", "lat") if name not in ids]
    panel = LongSource(path=write_wide(tmp_path, text), melt=True, id_column=ids, drop=drop, **DATED).read()
    assert_equal(values_by_id(panel), by_pandas(text, ids))
    assert len(panel) == 2


def test_text_is_read_with_the_options_of_the_file(tmp_path: Path) -> None:
    text = WIDE.replace(".", ",").replace(",17,5,", ",17.5,").replace(",15,4,", ",15.4,").replace(",", ";")
    text = text.replace("Chad", "Côte").replace("17.5", "17,5").replace(";2;3;;", ";2,5;1.003,25;?;")
    options = {"separator": ";", "decimal": ",", "thousands": ".", "encoding": "latin-1", "na_values": ["?"]}
    options |= {"drop": ["lat"]}
    panel = LongSource(path=write_wide(tmp_path, text), melt=True, id_column="country", **options, **DATED).read()
    assert_equal(
        values_by_id(panel), {"Mali": [1.0, 2.0, 5.0, 6.0, 7.0], "Côte": [2.5, 1003.25, np.nan, 7.0, 8.0, 9.0]}
    )


@pytest.mark.parametrize("name", ["d_{}", "{}"])
def test_numbered_steps_after_other_columns(name: str, tmp_path: Path) -> None:
    header = ",".join(["item", "size", *(name.format(number) for number in range(1, 13))])
    path = write_wide(tmp_path, f"{header}\nA,7{',5' * 12}\nB,8{',6' * 12}\n")
    with pytest.raises(DataError, match="a file with one series per row needs data=long"):
        LongSource(path=path).read()
    options: dict[str, Any] = {"id_column": "item", "start": "2010-01-01", "freq": "D"}
    panel = LongSource(path=path, melt=True, drop=["size"], **options).read()
    assert_equal(values_by_id(panel), {"A": [5.0] * 12, "B": [6.0] * 12})


@pytest.mark.parametrize(
    ("names", "freq"),
    [
        (["1960", "1961", "1962", "1963"], "YS-JAN"),
        (["Nov 2004", "Dec 2004", "Jan 2005", "Feb 2005"], "MS"),
        (["1980Q3", "1980Q4", "1981Q1", "1981Q2"], "QS-JAN"),
    ],
)
def test_names_of_years_quarters_and_months(names: list[str], freq: str, tmp_path: Path) -> None:
    path = write_wide(tmp_path, f"land,code,{','.join(names)}\nAruba,x,1,2,3,4\nChad,y,5,6,,8\n")
    panel = LongSource(path=path, melt=True, id_column="land", drop=["code"]).read()
    assert_equal(values_by_id(panel), {"Aruba": [1.0, 2, 3, 4], "Chad": [5.0, 6, np.nan, 8]})
    assert panel.freq == freq


@pytest.mark.filterwarnings("ignore:.*looks like dates and is used")
def test_a_column_of_dates_names_no_series(tmp_path: Path) -> None:
    columns = [f"s_{number}" for number in range(1, 25)]
    rows = [f"2024-03-01T{hour:02}:00:00Z{',5' * 24}" for hour in range(12)]
    path = write_wide(tmp_path, "\n".join([",".join(["timestamp", *columns]), *rows]) + "\n")
    panel = read_table(path)
    assert panel.values.shape == (12, 24)
    assert list(panel.columns) == columns


def write_layout(folder: Path, columns: str, of_row: Callable[[int], str]) -> str:
    """A file of 2 × 60 hours by series: in row n, the hour n % 60 and what `of_row` says of the row."""
    hours = pd.date_range("2024-03-01", periods=60, freq="h").strftime("%Y-%m-%d %H:%M")
    lines = [f"{hours[n % 60]},{of_row(n)}" for n in range(120)]
    path = folder / "own.csv"
    path.write_text("\n".join([columns, *lines]))
    return f"data.path={path}"


STORES = ("date,store,sold", lambda n: f"{'north' if n < 60 else 'south'},{n / 7:.2f}")
OF_STORES = ["data=long", "data.id_column='store'", "data.date_column='date'", "data.target='sold'"]


@pytest.mark.parametrize(
    ("written", "typed", "implied"),
    [
        (("ds,unique_id,y", STORES[1]), [], ["data=long"]),
        (STORES, [], OF_STORES),
        (("date,store,sold", lambda n: f"{n // 60}.0,{n / 7:.2f}"), [], OF_STORES),
        (("date,store,sold", lambda n: f"{'north' if n < 61 else 'south'},{n / 7:.2f}"), [], OF_STORES),  # a row twice
        (STORES, ["data.target='sold'", "data.id_column='store'"], [OF_STORES[0], OF_STORES[2]]),
        (("date,store,sold,cost", lambda n: f"{n // 60},{n / 7:.2f},2.5"), [], OF_STORES[:3]),
        (("date,hour,load", lambda n: f"{n // 60},{n / 7:.2f}"), [], ["data=csv", "data.date_column=[date,hour]"]),
        (("date,clock,load", lambda n: f"{n // 60}:30,{n / 7:.2f}"), [], ["data=csv", "data.date_column=[date,clock]"]),
        (("date,at,load", lambda n: f"{n // 60}.30.00,{n / 7:.2f}"), [], ["data=csv", "data.date_column=[date,at]"]),
        (("date,flag,load", lambda n: f"{n % 2},{n / 7:.2f}"), [], ["data=csv"]),  # 30 rows of a flag and a date
        (STORES, ["data=csv"], []),
        (STORES, ["experiment=compare_attention"], []),
    ],
)  # fmt: skip
def test_a_path_implies_the_layout_of_its_file(
    written: tuple[str, Callable], typed: list[str], implied: list[str], tmp_path: Path
) -> None:
    path = write_layout(tmp_path, *written)
    assert imply_data("train", [path, *typed])[0] == implied
    assert imply_data("train", [quote(f"{path},other.csv", sweep=True), *typed])[0] == implied  # in a sweep


def shops(dates: str = "date") -> pd.DataFrame:
    """Two shops with three items, numbered, of 30 days each: no column alone tells the rows of a date apart."""
    days, keys = (pd.date_range("2024-03-01", periods=30, freq="D"), [(a, b) for a in (1, 2) for b in (1, 2, 3)])
    rows = [(day, *key, n % 2, (7 * n + key[0]) % 31) for key in keys for n, day in enumerate(days)]
    return pd.DataFrame(rows, columns=[dates, "shop", "item", "promo", "sold"])


def nixtla(n_series: int) -> pd.DataFrame:
    """The columns of Nixtla's libraries, whose numbered series may be one alone."""
    days = pd.date_range("2024-03-01", periods=30, freq="D")
    return pd.concat([pd.DataFrame({"unique_id": float(n), "ds": days, "y": 1.5}) for n in range(n_series)])


NO_IDS = {"id_column": None, "date_column": None}
SHOP_ITEM = {"id_column": ["shop", "item"], "date_column": "date"}


@pytest.mark.parametrize(
    ("frame", "given", "found"),
    [
        (shops(), {}, {**SHOP_ITEM, "target": None}),  # two columns of numbers may be the target
        (shops().drop(columns="promo"), {}, {**SHOP_ITEM, "target": "sold"}),
        (shops(), {"others": ["promo"]}, {**SHOP_ITEM, "target": "sold"}),
        (shops().astype({"shop": float, "item": float}), {"others": ["promo"]}, {**SHOP_ITEM, "target": "sold"}),
        (pd.concat([shops(), shops()[:1]]), {"others": ["promo"]}, {**SHOP_ITEM, "target": "sold"}),
        (shops(), {"target": "promo"}, {**SHOP_ITEM, "target": "promo"}),
        (shops("d").set_index("d"), {"target": "sold"}, {**SHOP_ITEM, "date_column": "d", "target": "sold"}),
        (shops().assign(item=shops()["item"].astype(str)), {"others": ["promo"]}, {**SHOP_ITEM, "target": "sold"}),
        (shops().astype({"shop": str, "item": str, "promo": str}), {}, {**SHOP_ITEM, "target": "sold"}),
        (shops().astype({"shop": str, "item": str}).assign(promo="no"), {}, {**SHOP_ITEM, "target": "sold"}),
        (shops(), {"ids": ["shop", "item"], "others": ["promo"]}, {**SHOP_ITEM, "target": "sold"}),
        (shops(), {"others": ["item"]}, {**NO_IDS, "target": None}),
        (shops()[:30], {}, {**NO_IDS, "target": None}),
        (shops().rename(columns={"item": "a"}), {"target": "a"}, {**NO_IDS, "target": "a"}),  # a target names no series
        (nixtla(2), {}, {"id_column": ["unique_id"], "date_column": "ds", "target": "y"}),
        (nixtla(1), {}, {"id_column": ["unique_id"], "date_column": "ds", "target": "y"}),
        (shops()[:30].set_index("date"), {"target": "sold"}, {**NO_IDS, "target": "sold"}),
    ],
)  # fmt: skip
def test_a_frame_is_recognised_as_a_file_is(frame: pd.DataFrame, given: dict[str, Any], found: dict[str, Any]) -> None:
    assert find_roles(frame, **{"ids": [], "date_column": None, "target": None, "others": [], **given})[0] == found


@pytest.mark.parametrize("ids", [[], ["shop", "item"]])
@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.set_index("date").rename_axis(None),
        lambda frame: frame.set_index("date", drop=False),
        lambda frame: frame.set_index(["shop", "item", "date"], drop=False),
        lambda frame: frame.assign(date=frame["date"].dt.to_period("D")).set_index("date").rename_axis(None),
    ],
)  # fmt: skip
def test_the_index_of_a_frame_may_repeat_dates_without_a_name_of_its_own(change: Callable, ids: list[str]) -> None:
    roles, _ = find_roles(change(shops()), ids, None, "sold", ["promo"])
    assert_same(read_frame(change(shops()), **roles), read_frame(shops(), **SHOP_ITEM, target="sold"))


@pytest.mark.parametrize("given", [{}, {"date_column": ["date", "hour"]}])
def test_dates_in_two_columns_of_a_frame_are_refused(given: dict[str, Any]) -> None:
    frame = pd.DataFrame({"date": ["2024-01-01"] * 24 + ["2024-01-02"] * 24, "hour": [*range(24)] * 2, "y": 1.0})
    with pytest.raises(ForecastError, match="join"):
        find_roles(frame, **{"ids": [], "date_column": None, "target": None, "others": [], **given})


def test_a_column_without_a_name_is_not_proposed_as_target(tmp_path: Path) -> None:
    shops().rename(columns={"sold": "sales"})[["sales", "promo", "shop", "item", "date"]].to_csv(tmp_path / "shops.csv")
    source = LongSource(path=tmp_path / "shops.csv", id_column=["shop", "item"], date_column="date")
    with pytest.raises(DataError, match=r"no column 'y'.*name the column to forecast, as in data\.target=sales"):
        source.read()


def test_several_columns_of_numbers_name_the_series_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "shops.csv"
    shops().drop(columns="promo").to_csv(path, index=False)
    columns = ["data.id_column=[shop,item]", "data.date_column='date'", "data.target='sold'"]
    assert imply_data("train", [f"data.path={path}"])[0] == ["data=long", *columns]


def test_names_of_folders_are_columns_where_they_have_a_role(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also of Polars, whose files have the column too; of folders of years and months, no column is forecast."""
    frame = sales()
    pl.from_pandas(frame).write_parquet(tmp_path / "stores", partition_by="store")
    assert_same(read_table(tmp_path / "stores", **OPTIONS), read_frame(frame, **OPTIONS))
    months = tmp_path / "months/year=2021/month=03"
    months.mkdir(parents=True)
    frame.loc[:29, ["date", "sold"]].to_parquet(months / "a.pq")
    assert read_table(tmp_path / "months").columns == ("sold",)
    assert read_table(tmp_path / "months", columns=["sold"], past_covariates=["month"]).columns == ("sold", "month")
    assert answer(monkeypatch, "convert", tmp_path, f"data.path={tmp_path / 'months'}") == 0
    assert open_store(tmp_path / "months.store").columns == ("sold",)


def test_a_column_has_the_widest_type_of_the_files_of_a_folder(tmp_path: Path) -> None:
    """Whole numbers in the first file, decimals in the second; empty in the first, dates of another unit."""
    dates = pd.date_range("2024-01-01", periods=8, freq="h")
    first = pd.DataFrame({"date": dates[:4].as_unit("s"), "load": [1, 2, 3, 4], "wind": None})
    second = pd.DataFrame({"date": dates[4:].as_unit("us"), "load": [4.5, 5.5, 6.5, 7.5], "wind": 0.5})
    for name, frame in (("1.parquet", first), ("2.parquet", second)):
        frame.to_parquet(tmp_path / name)
    panel = read_table(tmp_path)
    assert panel.columns == ("load", "wind")
    assert panel.grid.equals(dates)
    np.testing.assert_array_equal(panel.values[:, 0], [1, 2, 3, 4, 4.5, 5.5, 6.5, 7.5])
    np.testing.assert_array_equal(panel.values[:, 1], [np.nan] * 4 + [0.5] * 4)


def test_a_layout_is_recognised_by_the_first_lines(tmp_path: Path) -> None:
    """A file of one series is not read to its end: the command that follows reads it."""
    dates = pd.date_range("2000-01-01", periods=70_000, freq="h").strftime("%Y-%m-%d %H:%M")
    rows = "".join(f"{date},0.5\n" for date in dates)
    path = tmp_path / "own.csv"
    path.write_bytes(f"date,load\n{rows}".encode() + b"2020-01-01,\xff")
    assert imply_data("check", [f"data.path={path}"]) == (["data=csv"], "")


def test_a_file_that_cannot_be_read_yet_is_left_to_its_reading(tmp_path: Path) -> None:
    """Of semicolons and decimal commas: the reading names both settings, see `refuse_names`."""
    path = tmp_path / "plant.csv"
    rows = "".join(f"{hour:02}.01.2023 00:00;{hour},5;{hour},25\n" for hour in range(1, 29))
    path.write_text(f"Zeit;a;b\n{rows}")
    implied, _ = imply_data("check", [f"data.path={path}"])
    assert implied == ["data=csv"]
