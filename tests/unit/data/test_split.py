"""The forms of `data.split`, and the windows of validation and test that a stride chooses."""

from math import gcd

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecast.data import Panel
from forecast.data.split import split_panel, spread_stride


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
    panel = Panel.of_table(
        pd.date_range("2016-07-01", periods=rows, freq=freq), np.zeros((rows, 1)), ["x"], freq
    )
    found = {
        name: tuple(rows.item() for rows in part)
        for name, part in split_panel(panel, split, seq_len=5, season=1).items()
    }
    train, val, test = ends
    assert found == {"train": (0, train), "val": (train, val), "test": (val, test)}


@given(st.integers(1, 10**9), st.integers(1, 10**5), st.integers(1, 9000))
def test_a_stride_leaves_few_windows_and_meets_every_hour(windows: int, most: int, season: int):
    stride = spread_stride(windows, most, season)
    assert -(-windows // stride) <= most
    if windows <= most:
        assert stride == 1
    else:
        assert gcd(stride, season) == gcd(stride, 24 * 7) == 1
        assert stride <= 2 * (-(-windows // most)) + 60
