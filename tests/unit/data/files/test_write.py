"""Tables in the format of a text file: their rows, appended to the file, continue it."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.data.files.sources import FileSource, read_table
from forecast.data.files.write import read_format

GERMAN = {"separator": ";", "decimal": ","}
FILES: dict[str, tuple[str, str, dict[str, Any], str]] = {
    # what the dates are: (the file, its step, how it is read, the first line that follows it)
    "days first": ("Zeit;Last\n30.01.2024;1,5\n31.01.2024;2,5\n01.02.2024;3,5\n", "D", GERMAN, "02.02.2024;0,25"),
    "quarters": ("q,load\nQ3 2023,1\nQ4 2023,2\nQ1 2024,3\n", "QS", {}, "Q2 2024,0.25"),
    "weeks": ("week,load\n2015-W52,1\n2015-W53,2\n2016-W01,3\n", "W-MON", {}, "2016-W02,0.25"),
    "months": ("month,load\nNov 2023,1\nDec 2023,2\nJan 2024,3\n", "MS", {}, "Feb 2024,0.25"),
    "two columns": (
        "day;time;load\n31/12/2023;22:00;1\n31/12/2023;23:00;2\n01/01/2024;00:00;3\n", "h",
        {**GERMAN, "date_column": ["day", "time"]}, "01/01/2024;01:00;0,25",
    ),
    "parts": (
        "load,year,month,hour,day\n1,2023,12,22,31\n2,2023,12,23,31\n3,2024,1,0,1\n", "h",
        {"date_column": ["year", "month", "day", "hour"]}, "0.25,2024,1,1,1",
    ),
    "seconds since 1970": (
        "t,load\n1704067200,1\n1704070800,2\n1704074400,3\n", "h", {"date_format": "unix"}, "1704078000,0.25",
    ),
    "other columns, no header": (
        "1,2024-01-01,\n2,2024-01-02,9\n3,2024-01-03,9\n", "D",
        {"header": "none", "names": ["load", "date", "wind"], "past_covariates": ["wind"]}, "0.25,2024-01-04,",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", FILES)
def test_rows_appended_to_a_file_continue_it(tmp_path: Path, kind: str) -> None:
    text, freq, options, expected = FILES[kind]
    path = tmp_path / "data.csv"
    path.write_text(text)
    names = text.split("\n", 1)[0].replace(";", ",").split(",")
    options = {"date_column": next(name for name in names if name not in ("load", "Last")), **options}
    if kind.startswith("other"):
        options["date_column"] = "date"
    source = FileSource(path=path, freq=freq, **options)
    panel, form = source.read(), read_format(source)
    assert form is not None
    dates = pd.date_range(panel.grid[-1], periods=41, freq=freq, name=panel.grid.name)[1:]
    frame = pd.DataFrame({panel.targets[0]: np.full(40, 0.25)}, index=panel.utc_offset.zoned(dates))
    table = form.tabulate(frame, panel.utc_offset, None, options["date_column"])
    form.write(form.with_all_columns(table), tmp_path / "next.csv")
    lines = (tmp_path / "next.csv").read_text().splitlines(keepends=True)
    added = lines if options.get("header") == "none" else lines[1:]
    assert added[0].strip("\n") == expected
    path.write_text(text + "".join(added))
    after = read_table(path, freq=freq, **options)
    assert after.grid.tolist() == [*panel.grid, *dates]
    assert after.values[:, 0].tolist() == [*panel.values[:, 0], *frame.iloc[:, 0]]
