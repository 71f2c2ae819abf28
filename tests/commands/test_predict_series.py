"""Forecasts of many series from an earlier date, beyond pred_len, and by models trained on data of another layout."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast import Model, load
from forecast.inference.forecasters import choose_forecaster
from forecast.inference.predict import predict
from forecast.system.errors import DataError
from tests.support.long_files import LENGTHS, long_frame, long_frame_data

SEQ_LEN, PRED_LEN = 12, 5
START = pd.to_datetime("2024-02-10")


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Four daily series with different first and last dates; their prices are known for ten more days."""
    return long_frame(future=10)


@pytest.fixture
def model(series_run: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    monkeypatch.chdir(series_run.parents[1])
    return load(series_run)


def until(frame: pd.DataFrame, start: pd.Timestamp, steps: int = PRED_LEN) -> pd.DataFrame:
    """What is known on a date: values before it, and prices of the steps from it on."""
    seen = frame.loc[frame["ds"] < start + pd.Timedelta(days=steps)]
    return seen.assign(y=seen["y"].where(seen["ds"] < start))


def test_from_an_earlier_date_the_truth_is_beside_each_series(model: Model, frame: pd.DataFrame) -> None:
    start = pd.to_datetime("2024-02-08")  # two days before the end of the shortest series, "a"
    found = model.predict(frame, start=start)
    assert list(found.columns) == ["ds", "y", "y-true", "y-error"]
    assert list(found.index) == np.repeat(list(LENGTHS), PRED_LEN).tolist()
    expected = model.predict(until(frame, start))
    assert list(expected.columns) == ["ds", "y"]
    np.testing.assert_array_equal(found["ds"], expected["ds"])
    np.testing.assert_allclose(found["y"], expected["y"], rtol=1e-6)
    truth = found.reset_index().merge(frame, how="left", on=["unique_id", "ds"], suffixes=("", "-file"))
    np.testing.assert_array_equal(truth["y-true"], truth["y-file"])
    np.testing.assert_allclose(found["y-error"], found["y"] - found["y-true"])
    assert found["y-true"].isna().groupby(level=0, sort=False).sum().tolist() == [3, 0, 0, 0]
    pd.testing.assert_frame_equal(
        found, model.predict(start=str(start))
    )  # of the file that it was trained on


@pytest.mark.parametrize("is_new", [False, True])
def test_a_series_with_few_rows_is_forecast_beside_the_others(
    model: Model, frame: pd.DataFrame, is_new: bool
) -> None:
    few = frame.loc[(frame["unique_id"] != "é") | (frame["ds"] >= START - pd.Timedelta(days=4))]
    few = few.replace({"unique_id": {"é": "new"}}) if is_new else few
    name, others = "new" if is_new else "é", ["a", "002", "c d"]
    found = model.predict(few, start=START, levels=[80])
    rows = found["rows_before"].groupby(level=0).first()
    assert rows.to_dict() == {name: 4, **dict.fromkeys(others, SEQ_LEN)}
    assert np.isfinite(found[["y", "y-lo-80", "y-hi-80"]]).all(axis=None)
    whole = model.predict(frame, start=START)
    assert "rows_before" not in whole
    np.testing.assert_allclose(found.loc[others, "y"], whole.loc[others, "y"], rtol=1e-5)
    naive = model.predict(few, start=START, baseline="naive").loc[name, "y"]
    last = few.loc[(few["unique_id"] == name) & (few["ds"] < START), "y"].iloc[-1]
    np.testing.assert_allclose(naive, last, rtol=1e-5)


def test_beyond_pred_len_future_covariates_must_be_known_for_whole_passes(
    model: Model, frame: pd.DataFrame
) -> None:
    found = model.predict(frame, horizon=8)  # ten days of prices: two passes of five steps
    assert found.groupby(level=0, sort=False).size().tolist() == [8] * len(LENGTHS)
    ends = frame.loc[frame["y"].notna()].groupby("unique_id")["ds"].max()
    shorter = frame.loc[frame["ds"] <= frame["unique_id"].map(ends) + pd.Timedelta(days=9)]
    with pytest.raises(DataError):
        model.predict(shorter, horizon=8)
    earlier = model.predict(shorter, horizon=8, start="2024-02-09")
    assert len(earlier) == 8 * len(LENGTHS)


def test_a_series_without_a_scale_in_the_checkpoint_is_a_new_one(model: Model, frame: pd.DataFrame) -> None:
    own = frame.loc[frame["unique_id"] == "é"]
    expected = model.predict(own.assign(unique_id="new"))
    assert not np.allclose(model.predict(own)["y"], expected["y"])  # on the scale of its training rows
    model.data_state["has_scale"][list(LENGTHS).index("é")] = False  # had no training rows
    np.testing.assert_allclose(model.predict(own)["y"], expected["y"], rtol=1e-6)


def test_a_baseline_forecasts_each_series(model: Model, frame: pd.DataFrame) -> None:
    assert model.baselines is not None
    season = model.baselines.seasonal_naive_season
    found = model.predict(baseline="seasonal_naive", levels=[80], intervals="adaptive")
    for name, own in frame.dropna(subset="y").groupby("unique_id", sort=False):
        rows = own["y"].to_numpy()
        expected = rows[len(rows) - season + np.arange(PRED_LEN) % season]
        np.testing.assert_allclose(found.loc[name, "y"], expected, rtol=1e-5)
    widths = (found["y-hi-80"] - found["y-lo-80"]).groupby(level=0).first()
    assert (widths > 0).all()  # type: ignore
    assert widths.nunique() == len(LENGTHS)  # each series has its own scale and its own errors  # type: ignore


def test_beyond_pred_len_each_series_reads_its_own_forecasts(model: Model, frame: pd.DataFrame) -> None:
    horizon = PRED_LEN + 3
    found = model.predict(frame, start=START, horizon=horizon)
    assert len(found) == len(LENGTHS) * horizon
    first = model.predict(frame, start=START)
    filled = frame.merge(first.reset_index()[["unique_id", "ds", "y"]], how="left", on=["unique_id", "ds"])
    known = frame.assign(y=filled["y_y"].fillna(filled["y_x"]))
    second = model.predict(known, start="2024-02-15")  # PRED_LEN days later
    for name in LENGTHS:
        steps = np.concatenate([first.loc[name, "y"], second.loc[name, "y"]])[:horizon]
        np.testing.assert_allclose(found.loc[name, "y"], steps, rtol=1e-4)
    np.testing.assert_array_equal(found.loc["002", "ds"], pd.date_range(START, periods=horizon))


def test_a_model_of_a_table_forecasts_many_series(run: Path) -> None:
    """A table as the series "one", and ten times its values as "two"."""
    model, table = load(run), pd.read_csv(run.parents[1] / "load.csv").rename(columns={"date": "ds"})[:100]
    tenfold = table.assign(load=10 * table["load"], temperature=10 * table["temperature"], unique_id="two")
    long = pd.concat([table.assign(unique_id="one"), tenfold])
    columns = model.feature_columns
    source = long_frame_data(long, name="long", columns=columns, seq_len=12, pred_len=5, split="test").source
    found = predict(choose_forecaster(model, None), source.read())
    assert found.new == 2
    frame = found.frame()
    assert frame.index.unique().tolist() == ["one", "two"]
    for name in model.target_columns:
        np.testing.assert_allclose(frame.loc["two", name], 10 * frame.loc["one", name], rtol=1e-4)
