import numpy as np
import pandas as pd
import pytest

from forecast.data.time_features import holiday_features, time_feature_names, time_features
from forecast.tools.export.metadata import calendar_expression


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


def test_they_come_after_the_features_of_the_step() -> None:
    dates = pd.date_range("2023-01-01", periods=48, freq="h")
    names = time_feature_names("h", "TR")
    assert names[:4] == time_feature_names("h")
    assert names[4:] == ["holiday", "day before a holiday", "day after a holiday"]
    told = time_features(dates, "h", "TR")
    np.testing.assert_array_equal(told[:, :4], time_features(dates, "h"))
    np.testing.assert_array_equal(told[:, 4:], holiday_features(dates, "TR"))


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
