import pandas as pd
import pytest

from forecast.data.split import split_rows
from forecast.system.errors import ConfigError, DataError

HOURS = pd.date_range("2016-07-01", periods=17_420, freq="h")


@pytest.mark.parametrize(
    ("rows", "freq", "split", "ends"),
    [
        (17_420, "h", [12, 4, 4], (8640, 11_520, 14_400)),
        (69_680, "15min", [12, 4, 4], (34_560, 46_080, 57_600)),
        (700, "D", [12, 4, 4], (360, 480, 600)),
        (400, "2D", [12, 4, 4], (180, 240, 300)),
        (17_420, "h", [0.7, 0.1, 0.2], (12_194, 13_936, 17_420)),
        (26_304, "h", [0.7, 0.1, 0.2], (18_412, 21_044, 26_304)),
        (100, "MS", [0.6, 0.2, 0.2], (60, 80, 100)),
        (17_420, "h", ["2017-07-01", "2018-01-01 12:00"], (365 * 24, 549 * 24 + 12, 17_420)),
    ],
)
def test_forms_of_split(rows: int, freq: str, split: list, ends: tuple[int, int, int]):
    dates = pd.date_range("2016-07-01", periods=rows, freq=freq)
    train, val, test = ends
    expected = {"train": range(train), "val": range(train, val), "test": range(val, test)}
    assert split_rows(dates, freq, split) == expected


def test_a_table_too_short_for_its_months_is_refused():
    with pytest.raises(DataError, match=r"needs 14,400 rows \(h\), and the table has 14,399"):
        split_rows(HOURS[:14_399], "h", [12, 4, 4])


@pytest.mark.parametrize("freq", ["MS", "W-SUN", "B", "7h", "7D"])
def test_months_of_30_days_need_a_step_that_divides_them(freq: str):
    with pytest.raises(ConfigError, match="does not divide"):
        split_rows(pd.date_range("2000-01-01", periods=1000, freq=freq), freq, [12, 4, 4])


@pytest.mark.parametrize(
    "split",
    [
        [], [1.0], [0.7, 0.3], [0.7, 0.2, 0.2], [0.8, 0.3, -0.1], [0, 4, 4], ["a", "b", "c"], ["soon", "later"],
        ["2017-07-01", "2017-06-01"],
        ["2017-07-01T00:00Z", "2017-08-01T00:00Z"], ["2016-07-01", "2017-07-01"], ["2017-07-01", "2030-01-01"],
    ],
)  # fmt: skip
def test_invalid_splits_are_refused(split: list):
    with pytest.raises(ConfigError, match=r"data\.split=") as refused:
        split_rows(HOURS, "h", split)
    assert "\n" not in str(refused.value)
