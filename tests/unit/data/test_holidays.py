import numpy as np
import pandas as pd
import pytest

from forecast.data import load_data
from forecast.data.sets import LOAD_COLUMNS as COLUMNS
from forecast.data.sets import load_table
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


def test_a_subdivision_has_holidays_of_its_own() -> None:
    dates = pd.date_range("2023-01-05", periods=2, freq="D")
    assert holiday_features(dates, "DE")[:, 0].tolist() == [-0.5, -0.5]
    assert holiday_features(dates, "DE-BY")[:, 0].tolist() == [-0.5, 0.5]


def test_they_come_after_the_features_of_the_step() -> None:
    dates = pd.date_range("2023-01-01", periods=48, freq="h")
    names = time_feature_names("h", "TR")
    assert names[:4] == time_feature_names("h")
    assert names[4:] == ["holiday", "day before a holiday", "day after a holiday"]
    told = time_features(dates, "h", "TR")
    np.testing.assert_array_equal(told[:, :4], time_features(dates, "h"))
    np.testing.assert_array_equal(told[:, 4:], holiday_features(dates, "TR"))


def test_the_generated_load_keeps_the_holidays_that_a_model_is_told_of() -> None:
    table = load_table()
    assert table.columns == COLUMNS
    assert np.isfinite(table.values).all()
    assert np.array_equal(table.values, load_table().values)
    holiday = holiday_features(table.grid, "TR")[:, 0] > 0
    noon, workday = table.grid.hour == 12, table.grid.day_of_week < 5
    load = table.values[:, 0]
    assert load[noon & workday & holiday].mean() < 0.8 * load[noon & workday & ~holiday].mean()
    per_day = pd.Series(load, table.grid)["2019-05-13":"2019-06-10"].resample("D").mean()
    assert set(per_day.nsmallest(3).index.strftime("%m-%d")) == {"06-04", "06-05", "06-06"}


def test_load_data_needs_no_file() -> None:
    data = load_data(
        name="load",
        seq_len=96,
        pred_len=24,
        split=[0.7, 0.1, 0.2],
        target="load",
        holidays="TR",
        features="S",
    )
    data.setup()
    assert (data.n_features, data.n_targets, data.n_time_features) == (1, 1, 7)


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
