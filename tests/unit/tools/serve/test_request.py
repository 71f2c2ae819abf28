"""Requests for forecasts as rows of a table."""

import numpy as np
import pandas as pd

from forecast.data.files.column_roles import ColumnRoles
from forecast.data.files.read_options import ReadOptions
from forecast.tools.serve.request import read_request, to_columns
from forecast.tools.serve.source import read_columns, read_dates


def test_rows_as_objects_and_as_columns_are_the_same() -> None:
    objects = [{"date": "2026-01-01T00:00", "load": 1}, {"date": "2026-01-01T01:00", "other": 2}]
    found = to_columns("rows", objects, {"date", "load"}, max_rows=2)
    assert found == {"date": ["2026-01-01T00:00", "2026-01-01T01:00"], "load": [1, None], "other": []}
    columns = {"date": found["date"], "load": [1, None]}
    assert to_columns("rows", columns, {"date", "load"}, max_rows=2) == columns
    rows = read_columns("rows", columns, ColumnRoles((), "date", ("load",)), ReadOptions())
    assert rows.dates.tolist() == pd.DatetimeIndex(columns["date"]).as_unit("ns").to_numpy().tolist()
    assert np.isnan(rows.values[:, 0]).tolist() == [False, True]


def test_dates_across_a_clock_change_are_the_same_instants() -> None:
    found = read_dates("rows", "date", ["2026-03-29T01:00+01:00", "2026-03-29T03:00+02:00"])
    assert list(found) == [pd.Timestamp("2026-03-29T00:00Z"), pd.Timestamp("2026-03-29T01:00Z")]
    assert read_dates("rows", "date", ["2026-01-01", "2026-01-02"]).tz is None
    assert read_dates("rows", "date", ["2026-01-01 06:00Z"]).tz is not None


def test_text_in_a_column_of_text_is_a_category() -> None:
    rows = {"date": ["2026-01-01", "2026-01-02"], "load": [1, 2], "weather": ["sun", None]}
    read = read_columns("rows", rows, ColumnRoles((), "date", ("load",), past=("weather",)), ReadOptions())
    assert read.values[:, 1].tolist() == [0, -1]
    assert read.texts == {"weather": ["sun"]}


def test_ids_of_several_columns_are_given_apart_or_joined() -> None:
    roles = ColumnRoles(("store", "dept"), "date", ("sold",))
    values = {"date": ["2026-01-01", "2026-01-01"], "sold": [1, 2]}
    apart = read_columns("rows", {**values, "store": [1, 1], "dept": ["a", "b"]}, roles, ReadOptions())
    joined = read_columns("rows", {**values, "store/dept": ["1/a", "1/b"]}, roles, ReadOptions())
    for rows in (apart, joined):
        assert rows.ids[rows.codes].tolist() == ["1/a", "1/b"]


def test_levels_may_be_none() -> None:
    assert read_request(b'{"rows": [], "levels": []}').levels == []
