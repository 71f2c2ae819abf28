"""The generated sets have the same bytes at every call."""

import hashlib
from collections.abc import Callable

import pytest

from forecast.data import Panel
from forecast.data.sets import SAMPLE_COLUMNS, recall_table, sample_table


@pytest.mark.parametrize(
    ("make", "digest"),
    [
        (sample_table, "2fa4e5ae2a5c276023588c6ad19f1211fbeb34642b8f1153f9b5b9d10e314590"),
        (recall_table, "0312245e03745126408781b80c1cfa930c10ea24ef55bc6f8d55cb3a93fc5800"),
    ],
)
def test_the_table_is_the_same_bytes_every_time(make: Callable[[], Panel], digest: str) -> None:
    assert [hashlib.sha256(make().values.tobytes()).hexdigest() for _ in range(2)] == [digest] * 2


def test_the_sample_is_hourly_and_in_etts_columns() -> None:
    table = sample_table()
    assert (table.columns, table.freq) == (SAMPLE_COLUMNS, "h")
    assert str(table.grid[0]) == "2016-07-01 00:00:00"
