"""Files with one series a row, whose header has the dates."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.data.files.file_source import LongSource
from forecast.data.files.frame_source import read_frame

HEADER = "country,lat,1/28/21,1/29/21,2/1/21,2/2/21,2/3/21,2/4/21\n"
WIDE = HEADER + "Mali,17.5,1,2,5,6,7,\nChad,15.4,2,3,,7,8,9\n"
TWINS = WIDE.replace("Mali", "Chad")
DATED = {"day_first": False, "freq": "B"}


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
    panel = LongSource(path=write(tmp_path, text), melt=True, id_column=ids, **DATED).read()
    assert_equal(values_by_id(panel), by_pandas(text, ids))
    assert len(panel) == 2


def test_text_is_read_with_the_options_of_the_file(tmp_path: Path) -> None:
    text = WIDE.replace(".", ",").replace(",17,5,", ",17.5,").replace(",15,4,", ",15.4,").replace(",", ";")
    text = text.replace("Chad", "Côte").replace("17.5", "17,5").replace(";2;3;;", ";2,5;1.003,25;?;")
    options = {"separator": ";", "decimal": ",", "thousands": ".", "encoding": "latin-1", "na_values": ["?"]}
    panel = LongSource(path=write(tmp_path, text), melt=True, id_column="country", **options, **DATED).read()
    assert_equal(
        values_by_id(panel),
        {"Mali": [1.0, 2.0, 5.0, 6.0, 7.0], "Côte": [2.5, 1003.25, np.nan, 7.0, 8.0, 9.0]},
    )


def test_steps_without_dates_are_numbered(tmp_path: Path) -> None:
    header = ",".join(f"V{number}" for number in range(1, 14))
    path = write(tmp_path, f"{header}\nH1{',5' * 11},\nH2{',6' * 12}\n")
    panel = LongSource(path=path, melt=True, id_column="V1", start="2010-01-01", freq="h").read()
    assert_equal(values_by_id(panel), {"H1": [5.0] * 11, "H2": [6.0] * 12})
    assert str(panel.grid[0]) == "2010-01-01 00:00:00"


def test_a_sheet_of_a_workbook(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    frame = pd.DataFrame(
        {"country": ["Mali", "Chad"], **{f"2021-01-0{n}": [n, 2.5 * n] for n in range(1, 7)}}
    )
    frame.to_excel(tmp_path / "wide.xlsx", index=False)
    panel = LongSource(path=tmp_path / "wide.xlsx", melt=True, id_column="country").read()
    assert_equal(values_by_id(panel), {"Mali": [1.0, 2, 3, 4, 5, 6], "Chad": [2.5 * n for n in range(1, 7)]})


def test_static_covariates_are_kept(tmp_path: Path) -> None:
    source = LongSource(
        path=write(tmp_path, WIDE), melt=True, id_column="country", static_covariates=["lat"], **DATED
    )
    assert source.read().static["lat"].to_dict() == {"Mali": 17.5, "Chad": 15.4}
