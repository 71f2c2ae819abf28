"""Requests for forecasts as DataFrames."""

import pandas as pd

from forecast.tools.serve.request import read_dates, read_request, read_rows


def test_rows_as_objects_and_as_columns_are_the_same() -> None:
    objects = [{"date": "2026-01-01T00:00", "load": 1}, {"date": "2026-01-01T01:00", "load": None}]
    columns = {"date": [row["date"] for row in objects], "load": [row["load"] for row in objects]}
    one, other = (
        read_rows("rows", given, "date", dates_are_index=True, max_rows=2) for given in (objects, columns)
    )
    pd.testing.assert_frame_equal(one, other)
    assert list(one.index) == [pd.Timestamp("2026-01-01T00:00"), pd.Timestamp("2026-01-01T01:00")]
    assert one["load"].isna().tolist() == [False, True]


def test_dates_across_a_clock_change_are_the_same_instants() -> None:
    found = read_dates("rows", "date", ["2026-03-29T01:00+01:00", "2026-03-29T03:00+02:00"])
    assert list(found) == [pd.Timestamp("2026-03-29T00:00Z"), pd.Timestamp("2026-03-29T01:00Z")]
    assert read_dates("rows", "date", ["2026-01-01", "2026-01-02"]).tz is None
    assert read_dates("rows", "date", ["2026-01-01 06:00Z"]).tz is not None


def test_text_in_a_column_of_text_is_a_category() -> None:
    rows = {"date": ["2026-01-01", "2026-01-02"], "weather": ["sun", None]}
    assert read_rows("rows", rows, "date", dates_are_index=False, max_rows=9)["weather"].tolist()[0] == "sun"


def test_levels_may_be_none() -> None:
    assert read_request(b'{"rows": [], "levels": []}').levels == []
