"""The forecaster in the interface of sktime."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import forecast

pytest.importorskip(
    "sktime", reason="the extra sktime is not installed, whose packages exclude pinned versions"
)

from sktime.utils.estimator_checks import check_estimator  # pyright: ignore[reportMissingImports]

from forecast.adapters.sktime_forecaster import InformerForecaster

DAYS = pd.date_range("2024-01-01", periods=90, freq="D")


def make_forecaster(pred_len: int | None = 7) -> InformerForecaster:
    parameters, _ = InformerForecaster.get_test_params()
    return InformerForecaster(pred_len=pred_len, seq_len=14, overrides=parameters["overrides"])


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """A target that follows a covariate, which is known for all days."""
    monkeypatch.chdir(tmp_path)
    price = np.random.default_rng(0).uniform(1, 2, len(DAYS))
    return pd.DataFrame({"sold": 10 - 3 * price, "price": price}, index=DAYS)


def test_forecasts_are_those_of_the_trained_model(rows: pd.DataFrame) -> None:
    past, ahead = rows.iloc[:-10], rows.iloc[-10:]
    found = make_forecaster().fit(past[["sold"]], X=past[["price"]]).predict(fh=[2, 5, 7], X=ahead[["price"]])
    model = forecast.load(next(Path("runs").iterdir()))
    names = {"price": "X_price"}
    expected = model.predict(
        past.rename(columns=names), future=ahead[["price"]].rename(columns=names), horizon=7
    )
    assert list(found.index) == [DAYS[-9], DAYS[-6], DAYS[-4]]
    assert found["sold"].to_numpy() == pytest.approx(expected["sold"].to_numpy()[[1, 4, 6]], rel=1e-6)


def test_an_update_adds_rows_and_trains_only_if_asked(rows: pd.DataFrame) -> None:
    sold = rows["sold"]
    forecaster = make_forecaster(pred_len=None).fit(sold.iloc[:-20], fh=[1, 2])
    before = forecaster.predict()
    forecaster.update(sold.iloc[-20:-10], update_params=False)
    assert len(list(Path("runs").iterdir())) == 1
    later = forecaster.predict()
    assert list(later.index) == [DAYS[-10], DAYS[-9]]
    assert not np.allclose(later, before)
    forecaster.update(sold.iloc[-10:], update_params=True)
    assert len(list(Path("runs").iterdir())) == 2
    assert pd.Timestamp(forecaster.model_.trained_until) == DAYS[-1]


def test_missing_values_at_the_end_are_forecast_too(rows: pd.DataFrame) -> None:
    sold = rows["sold"].copy()
    forecaster = make_forecaster().fit(sold.iloc[:-3])
    steps = forecaster.predict(fh=[4])
    sold.iloc[-3:] = np.nan
    forecaster.update(sold.iloc[-3:], update_params=False)
    assert forecaster.predict(fh=[1]).to_numpy() == pytest.approx(steps.to_numpy(), rel=1e-6)


def test_the_steps_to_forecast_must_be_known(rows: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match=r"^give fit the steps to forecast \(fh\), or InformerForecaster"):
        make_forecaster(pred_len=None).fit(rows["sold"])


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_the_checks_of_sktime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    results = check_estimator(InformerForecaster, raise_exceptions=False, verbose=False)
    assert len(results) > 300
    assert {name: result for name, result in results.items() if result != "PASSED"} == {}
