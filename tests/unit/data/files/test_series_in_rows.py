"""Files with one series per row, whose header has the steps."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.data.files.sources import LongSource, read_frame, read_table
from forecast.system.errors import DataError

HEADER = "country,lat,1/28/21,1/29/21,2/1/21,2/2/21,2/3/21,2/4/21\n"
WIDE = HEADER + "Mali,17.5,1,2,5,6,7,\nChad,15.4,2,3,,7,8,9\n"
TWINS = WIDE.replace("Mali", "Chad")
DATED: dict[str, Any] = {"day_first": False, "freq": "B"}


def write(folder: Path, text: str, name: str = "wide.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="latin-1")
    return path


def by_pandas(text: str, ids: list[str]) -> dict[str, list[float]]:
    """The values of each series as pandas turns them, by id."""
    table = pd.read_csv(pd.io.common.StringIO(text)).assign(row=lambda rows: range(1, len(rows) + 1))  # type: ignore[attr-defined]
    long = table.melt([*ids, *({"country", "lat", "row"} - {*ids})], var_name="ds", value_name="y").assign(
        ds=lambda rows: pd.to_datetime(rows["ds"], format="%m/%d/%y")
    )
    panel = read_frame(
        long.astype(dict.fromkeys(ids, str)), id_column=ids, date_column="ds", target="y", freq="B"
    )
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


@pytest.mark.parametrize(
    ("text", "ids"), [(WIDE, ["country"]), (TWINS, ["country", "lat"]), (TWINS, ["row"])]
)
def test_values_are_those_that_pandas_melts(text: str, ids: list[str], tmp_path: Path) -> None:
    drop = [name for name in ("country", "lat") if name not in ids]
    panel = LongSource(path=write(tmp_path, text), melt=True, id_column=ids, drop=drop, **DATED).read()
    assert_equal(values_by_id(panel), by_pandas(text, ids))
    assert len(panel) == 2


def test_text_is_read_with_the_options_of_the_file(tmp_path: Path) -> None:
    text = WIDE.replace(".", ",").replace(",17,5,", ",17.5,").replace(",15,4,", ",15.4,").replace(",", ";")
    text = text.replace("Chad", "Côte").replace("17.5", "17,5").replace(";2;3;;", ";2,5;1.003,25;?;")
    options = {"separator": ";", "decimal": ",", "thousands": ".", "encoding": "latin-1", "na_values": ["?"]}
    options |= {"drop": ["lat"]}
    panel = LongSource(path=write(tmp_path, text), melt=True, id_column="country", **options, **DATED).read()
    assert_equal(
        values_by_id(panel),
        {"Mali": [1.0, 2.0, 5.0, 6.0, 7.0], "Côte": [2.5, 1003.25, np.nan, 7.0, 8.0, 9.0]},
    )


@pytest.mark.parametrize("name", ["d_{}", "{}"])
def test_numbered_steps_after_other_columns(name: str, tmp_path: Path) -> None:
    header = ",".join(["item", "size", *(name.format(number) for number in range(1, 13))])
    path = write(tmp_path, f"{header}\nA,7{',5' * 12}\nB,8{',6' * 12}\n")
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
    path = write(tmp_path, f"land,code,{','.join(names)}\nAruba,x,1,2,3,4\nChad,y,5,6,,8\n")
    panel = LongSource(path=path, melt=True, id_column="land", drop=["code"]).read()
    assert_equal(values_by_id(panel), {"Aruba": [1.0, 2, 3, 4], "Chad": [5.0, 6, np.nan, 8]})
    assert panel.freq == freq


@pytest.mark.filterwarnings("ignore:.*looks like dates and is used")
def test_a_column_of_dates_names_no_series(tmp_path: Path) -> None:
    columns = [f"s_{number}" for number in range(1, 25)]
    rows = [f"2024-03-01T{hour:02}:00:00Z{',5' * 24}" for hour in range(12)]
    path = write(tmp_path, "\n".join([",".join(["timestamp", *columns]), *rows]) + "\n")
    panel = read_table(path)
    assert panel.values.shape == (12, 24)
    assert list(panel.columns) == columns


def test_steps_without_names_of_steps_are_numbered_by_their_places(tmp_path: Path) -> None:
    """A file without a header may have its ids between the steps."""
    path = write(tmp_path, f"5,5,H1{',5' * 9}\n6,6,H2{',6' * 9}\n")
    options: dict[str, Any] = {"header": "none", "id_column": "column_3", "start": "2010-01-01", "freq": "h"}
    panel = LongSource(path=path, melt=True, **options).read()
    assert_equal(values_by_id(panel), {"H1": [5.0] * 11, "H2": [6.0] * 11})
