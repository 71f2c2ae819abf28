import numpy as np
import pandas as pd
import pytest

from forecast.data.time_features import (
    describe_frequency,
    holiday_features,
    infer_frequency,
    season_candidates,
    season_length,
    time_feature_names,
    time_features,
)
from forecast.tools.export.metadata import calendar_expression
from tests.support.golden_answers import golden

GOLDEN = golden("time_features")
FREQUENCIES = ["h", "15min", "D", "B", "W", "ME"]


@pytest.mark.parametrize("freq", FREQUENCIES)
def test_time_features_equal_the_reference(freq: str):
    dates = pd.DatetimeIndex(GOLDEN[f"{freq}_dates"].astype("datetime64[ns]"))
    np.testing.assert_allclose(time_features(dates, freq), GOLDEN[freq], rtol=0, atol=1e-6)
    np.testing.assert_allclose(time_features(dates, infer_frequency(dates)), GOLDEN[freq], rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("freq", "count", "seasons", "words"),
    [
        ("s", 6, (1,), "second"), ("10s", 6, (1,), "10 seconds"), ("500ms", 6, (1,), "500 milliseconds"),
        ("min", 5, (1440, 10_080), "minute"), ("15min", 5, (96, 672), "15 minutes"), ("7min", 5, (1,), "7 minutes"),
        ("30min", 5, (48, 336), "30 minutes"), ("h", 4, (24, 168), "hour"), ("4h", 4, (6, 42), "4 hours"),
        ("5h", 4, (1,), "5 hours"), ("36h", 4, (1,), "36 hours"), ("D", 3, (7, 365), "day"),
        ("2D", 3, (1,), "2 days"), ("28D", 3, (13,), "28 days"), ("B", 3, (5,), "business day"), ("C", 3, (1,), "C"),
        ("SMS", 3, (24,), "half month"), ("W-SUN", 2, (52,), "week"), ("4W-MON", 2, (13,), "4 weeks"),
        ("MS", 1, (12,), "month"), ("ME", 1, (12,), "month"), ("BME", 1, (12,), "month"),
        ("WOM-3FRI", 1, (12,), "month"), ("QS-OCT", 1, (4,), "quarter"), ("2QE-DEC", 1, (2,), "2 quarters"),
        ("YS-JAN", 1, (1,), "year"),
    ],
)  # fmt: skip
def test_a_step_has_features_seasons_and_words(
    freq: str, count: int, seasons: tuple[int, ...], words: str
) -> None:
    """A day also has a week, and a week a year."""
    features = time_features(pd.date_range(pd.Timestamp("2020-01-01"), periods=900, freq=freq), freq)
    assert features.shape == (900, count)
    assert features.min() >= -0.5
    assert features.max() <= 0.5
    assert season_length(freq) == seasons[0]
    assert season_candidates(freq) == seasons
    assert describe_frequency(freq) == words


def test_a_feast_its_eve_and_the_day_after() -> None:
    dates = pd.date_range("2021-05-11 18:00", "2021-05-17", freq="h")
    told = holiday_features(dates, "TR") > 0
    days = {
        name: sorted({*dates.strftime("%m-%d")[column]}) for name, column in zip("hba", told.T, strict=True)
    }
    assert days == {
        "h": ["05-13", "05-14", "05-15"],
        "b": ["05-12", "05-13", "05-14"],
        "a": ["05-14", "05-15", "05-16"],
    }


@pytest.mark.parametrize("country", ["TR", "DE-BY"])
def test_an_exported_file_says_them_in_pandas(country: str) -> None:
    import holidays

    dates = pd.date_range("2021-05-01", "2021-06-10", freq="h")
    names = time_feature_names("h", country)
    said = [
        eval(calendar_expression(name, country), {"dates": dates, "np": np, "pd": pd, "holidays": holidays})
        for name in names
    ]
    np.testing.assert_allclose(np.stack(said, axis=1), time_features(dates, "h", country))
