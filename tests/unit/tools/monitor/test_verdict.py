"""The advice of `forecast.monitor` on simulated errors of two periods."""

import numpy as np
import pandas as pd
import pytest

from forecast.tools.monitor import Advice, Drift, Period, compare_periods

HORIZON, TEST, NEWER, TRIALS = 24, 4000, 700, 200


def simulate(
    random: np.random.Generator, n: int, *, model: float = 1.0, scale: float = 1.0, inside: float = 0.8
) -> Period:
    """Overlapping windows of days that are easy or hard together, some of them much harder (holidays).

    `model` multiplies the errors of the model, `scale` those of the baselines too; `inside` is the mean coverage.
    """
    days = n // 24 + 3
    hard = np.repeat(np.where(random.random(days) < 0.05, 5.0, 1.0) * np.exp(random.normal(0, 0.3, days)), 24)
    steps = (
        hard[: n + HORIZON - 1]
        * np.convolve(random.normal(size=n + HORIZON + 30), 0.9 ** np.arange(30), "valid")[: n + HORIZON - 1]
    )

    def windows(values: np.ndarray) -> np.ndarray:
        return np.convolve(values, np.full(HORIZON, 1 / HORIZON), "valid")

    own = random.normal(size=len(steps))
    errors = scale * model * windows((0.7 * steps + own) ** 2)
    naive = scale * windows((steps + 0.5 * random.normal(size=len(steps))) ** 2)
    days_inside = np.repeat(np.clip(random.normal(inside, 0.15, days), 0, 1), 24)[: len(steps)]
    dates = pd.date_range("2026-01-01", periods=n, freq="h")
    mse = {"model": errors, "naive": naive, "seasonal_naive": 2 * naive, "linear": errors}
    return Period(dates, mse, HORIZON, windows(random.random(len(steps)) < days_inside))


def simulate_drift(random: np.random.Generator, shift: float) -> dict[str, Drift]:
    """Uniform p-values of three columns; `shift` divides the first."""
    return {
        name: Drift(0.0, 1.0, random.random() / (shift if name == "load" else 1))
        for name in ("load", "wind", "sun")
    }


def frequency(advice: Advice, seed: int = 0, shift: float = 1.0, **newer: float) -> float:
    """How often simulated periods get this advice."""
    random = np.random.default_rng(seed)
    given = [
        compare_periods(
            simulate(random, NEWER, **newer), simulate(random, TEST), simulate_drift(random, shift)
        ).advice
        for _ in range(TRIALS)
    ]
    return given.count(advice) / TRIALS


def test_an_unchanged_model_is_trained_again_in_at_most_5_percent() -> None:
    """Three standard errors of 200 trials are 4.6%; without the adjustment for three tests it would be 14%."""
    assert 0.01 <= frequency(Advice.RETRAIN) <= 0.05 + 0.046


@pytest.mark.parametrize(
    "change",
    [{"model": 2.0}, {"inside": 0.62}, {"shift": 1e4}, {"model": 1.4, "inside": 0.7, "shift": 100}],
    ids=["errors", "coverage", "inputs", "all of them a little"],
)
def test_a_model_that_has_become_worse_is_trained_again(change: dict[str, float]) -> None:
    assert frequency(Advice.RETRAIN, **change) >= 0.9  # type: ignore[arg-type]


def test_rows_that_are_harder_for_the_baseline_too_are_no_reason() -> None:
    assert frequency(Advice.KEEP, scale=2.5) >= 0.9


def test_a_forecast_without_an_error_has_a_finite_logarithm() -> None:
    random = np.random.default_rng(0)
    test, newer = simulate(random, TEST), simulate(random, NEWER)
    exact = {name: np.where(np.arange(NEWER) % 2, losses, 0.0) for name, losses in newer.mse.items()}
    verdict = compare_periods(Period(newer.dates, exact, HORIZON), test, {})
    change = verdict.changes["errors"]
    assert np.isfinite([change.mean, *change.interval()]).all()
    assert verdict.baseline == "naive"
    assert list(verdict.p_values) == ["errors"]
    assert test.dates_of_a_week == 168


def test_few_newer_rows_tell_nothing_unless_the_inputs_have_changed() -> None:
    random = np.random.default_rng(0)
    test = simulate(random, TEST)
    few = simulate(random, HORIZON)
    assert compare_periods(few, test, {}).advice is Advice.UNKNOWN
    assert compare_periods(Period.empty(test), test, {}).advice is Advice.UNKNOWN
    assert compare_periods(few, test, {"load": Drift(0.0, 1.0, 0.5)}).advice is Advice.UNKNOWN
    assert compare_periods(few, test, {"load": Drift(9.0, 1.0, 1e-6)}).advice is Advice.RETRAIN


def test_a_period_sums_the_series_that_begin_on_a_date() -> None:
    starts = pd.to_datetime(["2026-01-01", "2026-01-02", "2026-01-01", "2026-01-02", "2026-01-04"])
    table = pd.DataFrame({"forecast_start": starts, "model_mse": [1.0, 2, 3, 4, 5], "model_mae": 9.0})
    period = Period.of_windows(table, overlap=2)
    assert list(period.mse) == ["model"]
    assert period.mse["model"] == pytest.approx(np.array([4, 6, 5]) * 3 / 5)
    assert period.overlap == 2
    assert period.coverage is None
    covered = table.assign(conformal_coverage_80=0.0, quantile_coverage_80=[0.2, 1, 0.4, np.nan, np.nan])
    coverage = Period.of_windows(covered.assign(quantile_coverage_95=1.0), overlap=2).coverage
    assert coverage == pytest.approx([0.65, 1, 1])
    coverage = Period.of_windows(covered, overlap=2).coverage
    assert coverage == pytest.approx([0.3, 1, np.nan], nan_ok=True)
