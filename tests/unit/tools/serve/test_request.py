"""Requests for forecasts as rows of a table."""

import numpy as np
import pandas as pd
import pytest

from forecast.data.files.columns import ColumnRoles
from forecast.data.files.read_options import ReadOptions
from forecast.system.errors import DataError
from forecast.tools.serve.request import ForecastRequest, read_request, to_columns
from forecast.tools.serve.source import RequestReader, RequestSource, read_columns, read_dates


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


@pytest.mark.parametrize("offset", ["+02:00", "+0200", "+02", "-03:30"])
@pytest.mark.parametrize("time", ["T00:00", "T00:00:00", "T00:00:00.000000001"])
def test_dates_at_one_offset_keep_their_hours(offset: str, time: str) -> None:
    texts = [f"2026-05-01{time}{offset}", f"2026-05-02{time}{offset}"]
    found = read_dates("rows", "date", texts)
    assert list(found) == list(map(pd.Timestamp, texts))
    assert found.hour.tolist() == [0, 0]


def test_midnights_at_several_offsets_are_days() -> None:
    texts = ["2026-03-28T00:00:00+01:00", "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"]
    assert read_dates("rows", "date", texts).equals(pd.date_range("2026-03-28", periods=3))


def test_rows_at_one_offset_are_on_the_grid_of_a_file_without_offsets() -> None:
    for n_rows, step in ((30, "h"), (30, "D")):
        dates = pd.date_range("2026-05-01", periods=n_rows, freq=step, tz="UTC+02:00")
        rows = {"date": [date.isoformat() for date in dates], "load": [1.0] * n_rows}
        given = read_columns("rows", rows, ColumnRoles((), "date", ("load",)), ReadOptions())
        assert pd.DatetimeIndex(given.dates).equals(dates.tz_localize(None))
        assert str(given.utc_offset.zoned(pd.DatetimeIndex(given.dates))[0]) == "2026-05-01 00:00:00+02:00"


def test_joined_ids_in_objects_and_in_columns_are_the_same() -> None:
    source = RequestSource(id_column=["store", "dept"], date_column="date", target="sold", freq="D")
    reader = RequestReader(source, {"categories": {}})
    columns = {
        "store/dept": ["1/a", "1/a", "1/b", "1/b"],
        "date": ["2026-01-01", "2026-01-02"] * 2,
        "sold": [1, 2, 3, 4],
    }
    objects = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for rows in (columns, objects):
        panel = reader.read(ForecastRequest.model_validate({"rows": rows}), max_rows=10)
        assert panel.ids.tolist() == ["1/a", "1/b"]
        assert panel.values[:, 0].tolist() == [1, 2, 3, 4]


def test_few_rows_far_apart_do_not_fill_the_memory() -> None:
    """100 series of two rows each, 10,000 hours apart: a panel would have a million rows."""
    dates = [date.isoformat() for date in pd.date_range("2024-01-01", periods=2, freq="10000h")]
    rows = {"id": [str(n) for n in range(100)] * 2, "date": [date for date in dates for _ in range(100)]}
    reader = RequestReader(
        RequestSource(id_column="id", date_column="date", target="y", freq="h"), {"categories": {}}
    )
    request = ForecastRequest.model_validate({"rows": {**rows, "y": [1.0] * 200}})
    with pytest.raises(DataError, match="rows: 100 series have 200 rows for 1,000,000 steps of h"):
        reader.read(request, max_rows=1_000)


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
