"""Labels name the series of a panel, and leave a table, whose series has no id, without such a name."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from forecast.data import Panel
from forecast.data.panel import (
    describe_longest,
    describe_panel,
    describe_size,
    id_columns,
    label_rows,
    name_longest,
    name_series,
    of_series,
    series_entry,
)

DATES = pd.date_range("2024-01-01", periods=6, freq="h", name="ds")


@pytest.fixture
def table() -> Panel:
    return Panel.of_table(DATES, np.zeros((6, 2)), ["a", "b"], "h")


@pytest.fixture
def panel(table: Panel) -> Panel:
    """Series x with four rows and series y with two."""
    ids = pd.Index(["x", "y"], name="shop")
    starts, ends = np.array([0, 4]), np.array([4, 6])
    return replace(
        table, ids=ids, static=pd.DataFrame(index=ids), grid_starts=np.array([0, 0]),
        starts=starts, ends=ends, stops=ends,
    )  # fmt: skip


def test_labels_of_many_series(panel: Panel) -> None:
    assert describe_panel(panel).startswith("2 series, 6 rows (2 to 4 each), every hour, 2024-01-01")
    assert describe_size(panel, "24 steps", of_each=" of each") == "2 series, 24 steps of each"
    assert of_series(panel, 1_234) == " of 1,234 series"
    assert name_series(panel, 1) == "series 'y': "
    assert describe_longest(panel) == "the longest of 2 series has 4"
    assert name_longest(panel, "my.csv") == "the longest series of my.csv"
    assert series_entry(panel, 7) == {"series": 7}


def test_labels_of_a_table(table: Panel) -> None:
    assert describe_panel(table).startswith("6 rows × 2 columns, every hour, 2024-01-01")
    assert describe_size(table, "24 steps", of_each=" of each") == "24 steps"
    assert of_series(table, 1) == name_series(table, 0) == ""
    assert describe_longest(table) == "there are 6"
    assert name_longest(table, "my.csv") == "my.csv"
    assert series_entry(table, 7) == id_columns(table, np.array([0, 0])) == {}


def test_rows_of_a_result_are_labelled_by_id_and_date(panel: Panel, table: Panel) -> None:
    series = np.array([1, 0])
    assert list(id_columns(panel, series)["unique_id"]) == ["y", "x"]
    index, columns = label_rows(panel, series, DATES[:2])
    assert (index.name, list(index), list(columns)) == ("shop", ["y", "x"], ["ds"])
    index, columns = label_rows(table, np.array([0, 0]), DATES[:2])
    assert (index.name, list(index), columns) == ("ds", list(DATES[:2]), {})
