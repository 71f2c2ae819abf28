import pandas as pd
import pytest

from forecast.data.split import split_rows


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
