"""Seasons and their strength."""

import numpy as np
import pandas as pd
import pytest

from forecast.data.calendars import Calendar
from forecast.tools.check.diagnosis import suggest_overrides
from forecast.tools.check.seasons import (
    calendar_periods,
    find_seasons,
    seasonal_strength,
)


def season_of_pulses(rows: int, part: int, cycles: float) -> np.ndarray:
    """A third of each season has a higher level, and a peak in every `part` rows."""
    t = np.arange(int(cycles * rows))
    high = t % rows < rows * 126 // 364
    noise = np.random.default_rng(0).normal(scale=0.2, size=len(t))
    return 8 + 2 * high * (t % part == 0) + 0.3 * (t % part == 1) + 0.5 * high + noise


def smooth_season(rows: float, cycles: float, part: int | None = None) -> np.ndarray:
    t = np.arange(int(cycles * rows))
    noise = np.random.default_rng(1).normal(scale=0.3, size=len(t))
    of_part = 0.0 if part is None else np.sin(2 * np.pi * t / part)
    return np.sin(2 * np.pi * t / rows) + 0.4 * np.sin(4 * np.pi * t / rows + 1) + of_part + noise


T = np.arange(3_640)
THIRD = np.cos(2 * np.pi * T / 364) + 1.2 * np.cos(6 * np.pi * T / 364)
"""The third harmonic is stronger, with 121.3 rows."""
WEEKDAYS = Calendar(slots=tuple(day * 86_400 for day in range(5)))


@pytest.mark.parametrize(
    ("values", "freq", "expected"),
    [
        (season_of_pulses(364, 7, 8.14), "D", {7: "a week", 364: "52 weeks"}),
        (season_of_pulses(350, 7, 10), "D", {7: "a week", 350: ""}),
        (smooth_season(365.25, 8, 7), "D", {7: "a week", 365: "a year"}),
        (smooth_season(13, 5), "4W-SUN", {13: "a year"}),
        (smooth_season(13, 12), "MS", {13: ""}),
        (season_of_pulses(8_736, 168, 4.1), "h", {8_736: "52 weeks"}),
        (season_of_pulses(8_736, 24, 9), "h", {24: "a day", 8_736: "52 weeks"}),
        (smooth_season(8_766, 5, 24), "h", {24: "a day", 8_760: "a year"}),
        (season_of_pulses(336, 48, 30), "30min", {48: "a day", 336: "a week"}),
        (season_of_pulses(260, 5, 9), "B", {5: "a week", 260: "52 weeks"}),
        (smooth_season(5, 300), WEEKDAYS, {5: "a week"}),
        (THIRD, "D", {364: "52 weeks"}),
        (np.random.default_rng(0).normal(size=2_964), "D", {}),
        (np.random.default_rng(0).normal(size=2_964).cumsum(), "D", {}),
    ],
)
def test_the_season_that_explains_most_is_named(
    values: np.ndarray, freq: str | Calendar, expected: dict[int, str]
) -> None:
    """Neither a side peak, such as a season without a week, nor a harmonic, nor the calendar beside it."""
    step, calendar = (freq, None) if isinstance(freq, str) else (freq.freq, freq)
    assert {season.rows: season.name for season in find_seasons(values[:, None], step, calendar)} == expected


def test_the_settings_follow_the_season() -> None:
    """A seasonal naive of 364 days has less than half the error of one of 7."""
    values = season_of_pulses(364, 7, 8.14)
    dates = pd.date_range("2015-01-01", periods=len(values), freq="D", name="ds")
    found = suggest_overrides(pd.DataFrame({"y": values}, index=dates), {"target": "y"}, {}, ())
    assert {"seq_len=364", "data.season=364"} <= set(found)


@pytest.mark.parametrize("amplitude", [0.5, 1.0, 3.0])
def test_the_strength_of_a_sine_in_noise(amplitude: float) -> None:
    t, noise = np.arange(24 * 400), np.random.default_rng(0).normal(size=24 * 400)
    values = (5 + amplitude * np.sin(2 * np.pi * t / 24) + noise + 0.001 * t)[:, None]
    expected = (amplitude**2 / 2) / (amplitude**2 / 2 + 1)
    assert seasonal_strength(values, 24)[0] == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize(
    ("freq", "periods"),
    [
        ("h", [24, 168, 8_736, 8_760]), ("D", [7, 364, 365]), ("B", [5, 260, 261]), ("W-SUN", [52]), ("MS", [12]),
        ("QS-JAN", [4]), ("7h", [24, 1_248]), ("YS-JAN", []), ("28D", [13]),
    ],
)  # fmt: skip
def test_the_calendar(freq: str, periods: list[int]) -> None:
    assert sorted(calendar_periods(freq)) == periods


def rows_of(values: np.ndarray, freq: str) -> list[int]:
    return [season.rows for season in find_seasons(values[:, None], freq)]


def test_seasons_are_found_and_noise_and_walks_have_none() -> None:
    t, noise = np.arange(4_000), np.random.default_rng(2).normal(size=4_000)
    day, workday = np.sin(2 * np.pi * t / 24), (t // 24 % 7 < 5).astype(float)
    assert rows_of(3 * day + noise, "h") == [24]
    assert rows_of(3 * day + 3 * workday + noise, "h") == [24, 168]
    assert rows_of(3 * np.sin(2 * np.pi * t / 37) + noise, "min") == [37]
    assert rows_of(3 * (t % 10 == 0) + 0.3 * noise, "D") == [10]
    assert rows_of(3 * np.sin(2 * np.pi * t / 37)[:3_600] + noise[:3_600], "20min") == [37]  # not 72, a day
    random, found = np.random.default_rng(3), []
    for freq, length in (("h", 600), ("h", 4_000), ("D", 1_500), ("MS", 120)):
        for _ in range(25):
            values = random.normal(size=length), random.normal(size=length).cumsum()
            found += [rows for each in values for rows in rows_of(each, freq)]
    assert len(found) <= 10  # of 200


def test_few_quarters_of_noise_rarely_have_a_season() -> None:
    random = np.random.default_rng(5)
    found = [rows_of(random.normal(size=40), "QS-JAN") for _ in range(100)]
    assert sum(map(bool, found)) <= 8
