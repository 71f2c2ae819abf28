"""The lines of the example program that read a file, run on files, against the package's own reader."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.data import read_table
from forecast.data.files.sources import LongSource
from forecast.data.utc_offset import UtcOffset
from forecast.tools.export.example import write_reading

DATES = pd.date_range("2024-03-30 00:00", periods=60, freq="h")


def write_file(path: Path, dates: dict[str, Any], **options: Any) -> None:
    """A file with these date columns, and a column of numbers of which two are -9999."""
    values = np.random.default_rng(0).normal(2_000, 300, len(DATES)).round(3)
    values[[3, 40]] = -9999
    pd.DataFrame({**dates, "größe": values}).to_csv(path, index=False, **options)


def run(lines: str, folder: Path, **names: Any) -> pd.DataFrame:
    """The table that the lines make of the files in this folder."""
    names = {"pd": pd, **names}
    exec(lines.replace('"my.', f'"{folder}/my.'), names)
    return names["table"]


MELTED = pd.DataFrame(
    [["x", "Mali", 17.5, 1, 2, 5, 6], ["x", "Chad", 15.4, 2, 3, 7, 8]],
    columns=["area", "country", "lat", "2024-01-29", "2024-01-30", "2024-01-31", "2024-02-01"],
)


@pytest.mark.parametrize("ids", ["country", ["area", "country"], "row"])
@pytest.mark.parametrize("dated", [True, False])
def test_the_lines_melt_a_file_as_training_did(ids: str | list[str], dated: bool, tmp_path: Path) -> None:
    table = MELTED if dated else MELTED.drop(columns="lat").set_axis(["area", "country", *"abcd"], axis=1)
    table.to_csv(tmp_path / "my.csv", index=False)
    options: dict[str, Any] = {"id_column": ids, "date_column": "ds", "target": "y", "melt": True}
    named = {ids} if isinstance(ids, str) else {*ids}
    options["drop"] = sorted({"area", "country", "lat"} & {*table} - named)
    if not dated:
        options |= {"start": "2024-01-29", "freq": "D"}
    panel = LongSource(path=tmp_path / "my.csv", **options).read()
    for number, name in enumerate(panel.ids):
        lines = write_reading(options, "D", panel.utc_offset)
        found = run(lines, tmp_path, series=name)
        rows = np.arange(int(panel.starts[number]), int(panel.ends[number]))
        np.testing.assert_array_equal(found["y"].to_numpy(float), panel.values[rows][:, 0])
        assert list(found.index) == list(panel.dates(rows))


@pytest.mark.parametrize("step", ["d_{}", "{}", "week {}"])
def test_the_lines_choose_the_steps_of_training(step: str, tmp_path: Path) -> None:
    """Columns that are dropped, and one without a name, are no steps."""
    steps = [step.format(number) for number in range(1, 13)]
    header = ",".join(["", "id", "lat1", *steps, "total"])
    (tmp_path / "my.csv").write_text(f"{header}\n,A,9,{','.join(map(str, range(1, 13)))},78\n")
    options: dict[str, Any] = {"id_column": "id", "date_column": "ds", "target": "y", "melt": True}
    options |= {"start": "2024-01-29", "freq": "D", "drop": ["lat1", "total"]}
    panel = LongSource(path=tmp_path / "my.csv", **options).read()
    assert panel.values[:, 0].tolist() == [*range(1, 13)]
    found = run(write_reading(options, "D", panel.utc_offset), tmp_path, series="A")
    assert found["y"].tolist() == [*range(1, 13)]


DAYS = pd.date_range("2024-03-10", periods=len(DATES), freq="D")
LOCAL = pd.date_range("2024-10-26 00:00", periods=60, freq="h", tz="Europe/Berlin")


@pytest.mark.parametrize(
    ("dates", "written", "options"),
    [
        ({"date": DATES}, {}, {}),
        (
            {"tag": DATES.strftime("%d.%m.%Y"), "zeit": DATES.strftime("%H:%M")},
            {"sep": ";", "decimal": ",", "encoding": "latin-1"},
            {
                "date_column": ["tag", "zeit"],
                "date_format": "%d.%m.%Y %H:%M",
                "separator": ";",
                "decimal": ",",
                "encoding": "latin-1",
            },
        ),
        ({"day": DATES.date, "time": DATES.time}, {}, {"date_column": ["day", "time"]}),
        ({"day": DATES.date, "hour": DATES.hour}, {}, {"date_column": ["day", "hour"]}),
        (
            {"day": (DATES - pd.Timedelta("1h")).date, "hour": (DATES.hour - 1) % 24 + 1},
            {},
            {"date_column": ["day", "hour"], "stamp": "end"},
        ),
        ({"t": DATES.as_unit("s").astype("int64")}, {}, {"date_column": "t", "date_format": "unix"}),
        ({"date": DATES.strftime("%Y-%m-%dT%H:%M:%S%z")}, {}, {"na_values": [-9999.0]}),
        ({"date": LOCAL.tz_localize(None)}, {}, {"timezone": "Europe/Berlin"}),
        ({"date": [date.isoformat() for date in LOCAL]}, {}, {}),
        ({"date": [date.isoformat() for date in LOCAL]}, {}, {"timezone": "Europe/Berlin"}),
        ({"date": DATES.strftime("%Y-%m-%d %H:%M+05:30")}, {}, {}),
        ({"date": [f"{date:%Y-%m-%dT%H:%M}+01:00" for date in DAYS]}, {}, {}),
        ({"date": DAYS.date}, {}, {"timezone": "Europe/Berlin"}),
        (
            {"t": DATES.as_unit("s").astype("int64")},
            {},
            {"date_column": "t", "date_format": "unix", "timezone": "Asia/Tokyo"},
        ),
        ({"date": DATES.strftime("%d/%m/%Y %H:%M")}, {}, {"day_first": True}),
        ({"date": DATES}, {"header": False}, {"header": "none", "date_column": "column_1"}),
        ({"date": DATES}, {"header": False}, {"header": "none", "names": ["date", "größe"]}),
        ({}, {}, {"start": "2024-01-01", "freq": "h"}),
    ],
)
@pytest.mark.filterwarnings("ignore:.*offset from UTC changes:UserWarning")
def test_the_lines_read_a_file_as_training_did(
    dates: dict[str, Any], written: dict[str, Any], options: dict[str, Any], tmp_path: Path
) -> None:
    write_file(tmp_path / "my.csv", dates, **written)
    expected = read_table(tmp_path / "my.csv", **options)
    table = run(write_reading({"path": "load.csv", **options}, expected.freq, expected.utc_offset), tmp_path)
    assert list(table.index) == list(expected.grid)
    np.testing.assert_array_equal(table[list(expected.columns)].to_numpy(), expected.values)


@pytest.mark.parametrize("duplicates", ["first", "last", "mean", "sum"])
def test_rows_are_sorted_and_made_one_per_date(duplicates: str, tmp_path: Path) -> None:
    write_file(tmp_path / "my.csv", {"date": DATES})
    frame = pd.read_csv(tmp_path / "my.csv")
    twice = pd.concat([frame.assign(größe=2 * frame["größe"])[::-1], frame]).assign(cold=4.5, closed=True)
    twice.to_csv(tmp_path / "my.csv", index=False)
    covariates = {"past_covariates": ["cold"], "future_covariates": ["closed"]}
    options = {"sort": True, "duplicates": duplicates, **covariates}
    expected = read_table(tmp_path / "my.csv", **options)
    table = run(write_reading({"path": "load.csv", **options}, "h", UtcOffset()), tmp_path)
    assert list(table.index) == list(expected.grid)
    np.testing.assert_allclose(table[["größe", "cold"]].to_numpy(), expected.values)
    assert expected.future is not None
    np.testing.assert_array_equal(table[["closed"]].to_numpy(), expected.future)


def test_one_series_of_a_long_file_is_read(tmp_path: Path) -> None:
    frame = pd.DataFrame({"unique_id": "007", "ds": DATES, "y": np.arange(60.0)})
    both = pd.concat([frame, frame.assign(unique_id="8", y=-1.0)]).sample(frac=1, random_state=0)
    both.to_csv(tmp_path / "my.csv", index=False)
    options = {"_target_": "forecast.data.long_data", "id_column": "unique_id", "date_column": "ds"}
    table = run(write_reading(options, "h", UtcOffset()), tmp_path, series="007")
    assert list(table.index) == list(DATES)
    assert table["y"].tolist() == list(range(60))


def test_a_parquet_file_is_read(tmp_path: Path) -> None:
    pd.DataFrame({"date": DATES, "y": np.arange(60.0)}).to_parquet(tmp_path / "my.parquet")
    table = run(write_reading({"path": "load.parquet"}, "h", UtcOffset()), tmp_path)
    assert list(table.index) == list(DATES)


@pytest.mark.parametrize("name", ["rows.parquet", "rows.pq", "folder"])
def test_parquet_files_are_read_as_such(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    lines = write_reading({"path": str(tmp_path / name)}, "h", UtcOffset())
    assert 'pd.read_parquet("my.parquet")' in lines


def test_lines_above_the_header_are_skipped(tmp_path: Path) -> None:
    write_file(tmp_path / "my.csv", {"date": DATES})
    (tmp_path / "my.csv").write_text("A title\n\n" + (tmp_path / "my.csv").read_text())
    panel = read_table(tmp_path / "my.csv", skip_rows=2)
    table = run(write_reading({"skip_rows": 2}, "h", panel.utc_offset), tmp_path)
    np.testing.assert_array_equal(table["größe"], panel.values[:, 0])
