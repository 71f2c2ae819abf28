import numpy as np
import pandas as pd
import pytest

from forecast.data.time_features import (
    describe_frequency,
    infer_frequency,
    season_candidates,
    season_length,
    time_features,
)
from tests.support.golden_answers import golden

GOLDEN = golden("time_features")
FREQUENCIES = ["h", "15min", "D", "B", "W", "ME"]


@pytest.mark.parametrize("freq", FREQUENCIES)
def test_time_features_equal_the_reference(freq: str):
    dates = pd.DatetimeIndex(GOLDEN[f"{freq}_dates"].astype("datetime64[ns]"))
    np.testing.assert_allclose(time_features(dates, freq), GOLDEN[freq], rtol=0, atol=1e-6)
    np.testing.assert_allclose(time_features(dates, infer_frequency(dates)), GOLDEN[freq], rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("freq", "count"),
    [
        ("s", 6), ("10s", 6), ("500ms", 6), ("min", 5), ("30min", 5), ("4h", 4), ("2D", 3), ("W-WED", 2), ("4W-MON", 2),
        ("MS", 1), ("QS-OCT", 1), ("2QE-DEC", 1), ("YS-JAN", 1), ("BME", 1), ("WOM-3FRI", 1), ("SMS-15", 3),
    ],
)  # fmt: skip
def test_every_step_has_its_features(freq: str, count: int):
    features = time_features(pd.date_range("2020-01-01", periods=900, freq=freq), freq)
    assert features.shape == (900, count)
    assert features.min() >= -0.5
    assert features.max() <= 0.5


@pytest.mark.parametrize(
    ("freq", "season"),
    [
        ("h", 24), ("30min", 48), ("15min", 96), ("10min", 144), ("4h", 6), ("min", 1440), ("7min", 1), ("5h", 1),
        ("36h", 1), ("D", 7), ("2D", 1), ("W-SUN", 52), ("MS", 12), ("ME", 12), ("B", 5), ("QS-OCT", 4), ("QE-DEC", 4),
        ("BME", 12), ("YS-JAN", 1),
        ("s", 1),
    ],
)  # fmt: skip
def test_season_follows_the_step(freq: str, season: int):
    assert season_length(freq) == season


@pytest.mark.parametrize(
    ("freq", "seasons"),
    [
        ("h", (24, 168)), ("30min", (48, 336)), ("15min", (96, 672)), ("D", (7, 365)), ("MS", (12,)), ("W-SUN", (52,)),
        ("7min", (1,)), ("QS-OCT", (4,)), ("2D", (1,)),
    ],
)  # fmt: skip
def test_a_day_also_has_a_week_and_a_week_a_year(freq: str, seasons: tuple[int, ...]):
    assert season_candidates(freq) == seasons


@pytest.mark.parametrize(
    ("freq", "words"),
    [
        ("h", "hour"),
        ("15min", "15 minutes"),
        ("W-SUN", "week"),
        ("ME", "month"),
        ("2QS-OCT", "2 quarters"),
        ("SMS", "half month"),
        ("28D", "28 days"),
        ("3M-15", "3 months on day 15"),
        ("M-1-11-21", "month on days 1, 11 and 21"),
        ("C", "C"),
    ],
)
def test_a_step_is_described_in_words(freq: str, words: str) -> None:
    assert describe_frequency(freq) == words
