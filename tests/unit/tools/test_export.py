"""The program that `forecast.export` prints, run on files against the package's own reader."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.data import read_table
from forecast.data.panel import Panel
from forecast.data.time_features import time_feature_names, time_features
from forecast.tools.export.metadata import calendar_expression, write_example

DATES = pd.date_range("2024-03-30 00:00", periods=60, freq="h")
LOCAL = pd.date_range("2024-10-26 00:00", periods=60, freq="h", tz="Europe/Berlin")
SEQ_LEN, PRED_LEN = 24, 6
PARTS = ["year", "month", "day", "hour", "minute"]


def describe(panel: Panel, *, freq: str | None = None) -> dict[str, Any]:
    freq = freq or panel.freq
    names = time_feature_names(freq, None)
    return {
        "feature_columns": list(panel.columns), "target_columns": ["load"], "unread_columns": ["wind"],
        "freq": freq, "calendar": panel.calendar and panel.calendar.state_dict(),
        "utc_offset": panel.utc_offset.minutes, "timezone": panel.utc_offset.timezone,
        "seq_len": SEQ_LEN, "pred_len": PRED_LEN, "categories": {}, "inputs": {}, "id_column": None,
        "future_covariates": [], "as_of": {}, "known_steps": {},
        "time_features": [{"name": name, "pandas": calendar_expression(name, None)} for name in names],
        "series": {"": {"center": [0.0, 0.0], "scale": [1.0, 1.0]}},
    }  # fmt: skip


def run(about: dict[str, Any], data: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The inputs and dates that the program makes of my.csv in this folder, without running the exported file."""
    lines = write_example(folder / "m.onnx", about, data)
    start, end = lines.index("series = "), lines.index("forecast = onnxruntime")
    names: dict[str, Any] = {"np": np, "pd": pd, "about": about}
    exec(lines[start:end].replace('"my.', f'"{folder}/my.'), names)
    return names


def write_file(path: Path, columns: dict[str, Any], **options: Any) -> None:
    """A file with these columns of dates, and columns of numbers of which two are -9999."""
    values = np.random.default_rng(0).normal(2_000, 300, len(DATES)).round(3)
    values[[3, 10]] = -9999
    pd.DataFrame({**columns, "load": values, "wind": 1.5}).to_csv(path, index=False, **options)


@pytest.mark.parametrize(
    ("dates", "written", "options"),
    [
        ({"date": DATES}, {}, {}),
        ({"tag": DATES.strftime("%d.%m.%Y %H:%M")}, {"sep": ";", "decimal": ","},
         {"date_column": "tag", "date_format": "%d.%m.%Y %H:%M", "separator": ";", "decimal": ","}),
        ({"date": DATES + pd.Timedelta("1h")}, {}, {"stamp": "end"}),
        ({"date": DATES}, {}, {"na_values": [-9999.0]}),
        ({"date": [date.isoformat() for date in LOCAL]}, {}, {"timezone": "Europe/Berlin"}),
        ({"date": DATES.strftime("%Y-%m-%d %H:%M+05:30")}, {}, {}),
        ({"date": DATES.strftime("%d/%m/%Y %H:%M")}, {}, {"day_first": True}),
        ({"day": DATES.strftime("%d/%m/%Y"), "h": DATES.hour}, {}, {"date_column": ["day", "h"], "day_first": True}),
        ({"d": DATES.date, "time": DATES.strftime("%H:%M")}, {}, {"date_column": ["d", "time"]}),
        ({part: getattr(DATES, part) for part in PARTS[:4]}, {}, {"date_column": PARTS[:4]}),
        ({part: getattr(DATES, part) for part in PARTS}, {}, {"date_column": PARTS}),
        ({**{part: getattr(DATES, part) for part in PARTS[:3]}, "hour": DATES.hour + 1}, {},
         {"date_column": PARTS[:4], "stamp": "end"}),
        ({"day": DATES.date, "hour": DATES.hour + 1}, {}, {"date_column": ["day", "hour"]}),
        ({"date": [f"{one:%Y-%m-%d} {one.hour + 1:02}:00" for one in DATES]}, {}, {}),
    ],
)  # fmt: skip
def test_the_program_reads_a_file_as_training_did(
    dates: dict[str, Any], written: dict[str, Any], options: dict[str, Any], tmp_path: Path
) -> None:
    write_file(tmp_path / "my.csv", dates, **written)
    panel = read_table(tmp_path / "my.csv", **options)
    about = describe(panel)
    found = run(about, {"path": "load.csv", **options}, tmp_path)
    expected = panel.with_dates_after_ends(PRED_LEN).grid[-SEQ_LEN - PRED_LEN :]
    starts = replace(panel.utc_offset, stamp=np.timedelta64(0, "ns")).zoned(expected)
    assert [*found["past"].index, *found["future"]] == [*starts]
    np.testing.assert_array_equal(found["inputs"]["past"][0, :, 0], panel.values[-SEQ_LEN:, 0])
    time = np.concatenate([found["inputs"][name][0] for name in ("past_time", "future_time")])
    np.testing.assert_array_equal(time, time_features(panel.utc_offset.local(expected), panel.freq))


def test_the_program_reads_booleans_as_numbers_and_categories_as_texts(tmp_path: Path) -> None:
    texts = np.where(np.arange(len(DATES)) % 3, "Yes", "No")
    table = pd.DataFrame({"date": DATES, "load": 1.0, "open": texts, "sale": texts})
    table.to_csv(tmp_path / "my.csv", index=False)
    panel = read_table(tmp_path / "my.csv", drop=["open", "sale"])
    about = describe(panel) | {
        "feature_columns": ["load", "open", "sale=No"], "unread_columns": [], "categories": {"sale": ["No", "Yes"]}
    }  # fmt: skip
    found = run(about, {}, tmp_path)["inputs"]["past"][0]
    assert found[:, 1].tolist() == (1 - found[:, 2]).tolist() == (texts[-SEQ_LEN:] == "Yes").tolist()


def test_the_dates_of_a_calendar_are_those_of_rows_without_targets(tmp_path: Path) -> None:
    days = pd.bdate_range("2024-01-01", periods=40)
    table = pd.DataFrame({"date": days, "load": 1.0, "wind": np.nan})
    table.to_csv(tmp_path / "my.csv", index=False)
    about = describe(read_table(tmp_path / "my.csv", steps="rows"))
    assert about["calendar"] is not None
    with pytest.raises(SystemExit, match="add a row with empty targets for each date"):
        run(about, {}, tmp_path)
    table.loc[34:, "load"] = np.nan
    table.to_csv(tmp_path / "my.csv", index=False)
    found = run(about, {}, tmp_path)
    assert [*found["future"]] == [*days[34:]]
    assert found["inputs"]["past"][0].tolist() == [[1.0, 0.0]] * SEQ_LEN  # wind is not read
    with pytest.raises(SystemExit, match="a value is missing"):
        run(about | {"unread_columns": []}, {}, tmp_path)


@pytest.mark.parametrize(
    ("index", "says"),
    [
        (LOCAL.tz_localize(None), "write the dates with a UTC offset"),
        (LOCAL.delete(50).append(LOCAL[-1:] + pd.Timedelta("1h")), "a date of the last rows is missing"),
    ],
)
def test_the_program_refuses_other_dates(index: pd.DatetimeIndex, says: str, tmp_path: Path) -> None:
    write_file(tmp_path / "my.csv", {"date": [date.isoformat() for date in LOCAL]})
    about = describe(read_table(tmp_path / "my.csv", timezone="Europe/Berlin"))
    write_file(tmp_path / "my.csv", {"date": [date.isoformat() for date in index]})
    with pytest.raises(SystemExit, match=says):
        run(about, {}, tmp_path)
