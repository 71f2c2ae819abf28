"""Files as `DataFrame.to_csv` writes them: the index is a first column without a name."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.data import read_table

DATES = pd.date_range("2024-01-01", periods=40, freq="h")
FRAME = pd.DataFrame({"date": DATES, "load": np.arange(40.0)})


def test_row_numbers_are_not_forecast(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "table.csv")
    panel = read_table(tmp_path / "table.csv")
    assert panel.columns == ("load",)
    assert panel.grid.tolist() == DATES.tolist()
    both = read_table(tmp_path / "table.csv", columns=["Unnamed: 0", "load"])
    assert both.columns == ("Unnamed: 0", "load")


def test_a_file_that_pandas_wrote_twice_has_two_columns_of_row_numbers(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "once.csv")
    pd.read_csv(tmp_path / "once.csv").to_csv(tmp_path / "table.csv")
    assert read_table(tmp_path / "table.csv").columns == ("load",)


def test_dates_without_a_name_are_found(tmp_path: Path) -> None:
    FRAME.set_axis(DATES)[["load"]].to_csv(tmp_path / "table.csv")
    with pytest.warns(UserWarning, match="'Unnamed: 0' looks like dates and is used"):
        panel = read_table(tmp_path / "table.csv")
    assert (panel.columns, panel.grid.tolist()) == (("load",), DATES.tolist())
