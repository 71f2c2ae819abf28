"""The advice of `forecast.monitor` on simulated errors of two periods."""

import numpy as np
import pandas as pd
import pytest

from forecast.tools.monitor.verdict import Advice, judge
from forecast.tools.monitor.windows import Period

HORIZON, TEST, NEWER, TRIALS = 24, 2000, 700, 400


def simulate(random: np.random.Generator, n: int, *, model: float = 1.0, scale: float = 1.0) -> Period:
    """Errors of overlapping windows; `model` multiplies those of the model, `scale` those of the baselines too."""
    noise = random.normal(size=n + HORIZON + 30)
    steps = np.convolve(noise, 0.9 ** np.arange(30), "valid")[: n + HORIZON - 1]

    def windows(squares: np.ndarray) -> np.ndarray:
        return np.convolve(squares, np.full(HORIZON, 1 / HORIZON), "valid")

    own = random.normal(size=len(steps))
    errors = scale * model * windows((0.7 * steps + own) ** 2)
    naive = scale * windows((steps + 0.5 * random.normal(size=len(steps))) ** 2)
    dates = pd.date_range("2026-01-01", periods=n, freq="h")
    return Period(
        dates, {"model": errors, "naive": naive, "seasonal_naive": 2 * naive, "linear": errors}, HORIZON
    )


def frequency(advice: Advice, seed: int = 0, **newer: float) -> float:
    """How often simulated periods get this advice."""
    random = np.random.default_rng(seed)
    given = [judge(simulate(random, NEWER, **newer), simulate(random, TEST)).advice for _ in range(TRIALS)]
    return given.count(advice) / TRIALS


@pytest.mark.slow
def test_an_unchanged_model_is_rarely_trained_again() -> None:
    assert frequency(Advice.RETRAIN) <= 0.03
    assert frequency(Advice.KEEP) >= 0.94


def test_a_model_that_has_become_worse_is_trained_again() -> None:
    assert frequency(Advice.RETRAIN, model=2.0) >= 0.9


@pytest.mark.slow
def test_rows_that_are_harder_for_the_baseline_too_are_no_reason() -> None:
    assert frequency(Advice.HARDER, scale=2.5) >= 0.9
    assert frequency(Advice.RETRAIN, scale=2.5) <= 0.1


def test_the_excess_is_zero_where_both_have_grown_by_the_same_factor() -> None:
    random = np.random.default_rng(0)
    test = simulate(random, TEST)
    grown = Period(test.dates, {name: 3 * mse for name, mse in test.mse.items()}, HORIZON)
    verdict = judge(grown, test)
    assert verdict.excess.mean == pytest.approx(0, abs=1e-12)
    assert verdict.error.mean == pytest.approx(2 * test.mse["model"].mean())
    assert verdict.baseline == "naive"


def test_few_newer_rows_tell_nothing() -> None:
    random = np.random.default_rng(0)
    assert judge(simulate(random, HORIZON), simulate(random, TEST)).advice is Advice.UNKNOWN


def test_a_period_sums_the_series_that_begin_on_a_date() -> None:
    starts = pd.to_datetime(["2026-01-01", "2026-01-02", "2026-01-01", "2026-01-02", "2026-01-04"])
    table = pd.DataFrame({"forecast_start": starts, "model_mse": [1.0, 2, 3, 4, 5], "model_mae": 9.0})
    period = Period.of_windows(table, overlap=2)
    assert list(period.mse) == ["model"]
    assert period.mse["model"] == pytest.approx(np.array([4, 6, 5]) * 3 / 5)
    assert period.overlap == 2
