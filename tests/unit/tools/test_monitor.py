"""Drift of columns, the newer windows, and the advice of `forecast.monitor`, on planted and simulated changes."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.data import DataModule, csv_data, frame_data, read_frame
from forecast.data.row_ranges import RowRanges
from forecast.reports.inputs import tabulate_inputs, tabulate_run_inputs
from forecast.tools.monitor import (
    Advice,
    Drift,
    Period,
    compare_periods,
    compare_with_blocks,
    find_last_step,
    keep_windows_after,
    measure_drift,
    merge_blocks,
)
from tests.support.windows import set_up

ROWS = 2000
OPTIONS = {"name": "mine", "seq_len": 24, "pred_len": 6, "target": "load", "future_covariates": ["wind", "sun"]}


def write(path: Path, shifts: dict[str, float], rows: int = ROWS) -> Path:
    random = np.random.default_rng(rows)
    columns = {name: random.normal(5, 2, rows) + shifts.get(name, 0.0) for name in ("load", "wind", "sun")}
    dates = pd.date_range("2024-01-01", periods=rows, freq="h", name="date")
    pd.DataFrame(columns, dates).to_csv(path)
    return path


@pytest.fixture
def trained(tmp_path: Path) -> DataModule:
    return set_up(csv_data(path=write(tmp_path / "old.csv", {}), split=[0.7, 0.1, 0.2], **OPTIONS))


def test_a_covariate_that_has_shifted_comes_first(tmp_path: Path, trained: DataModule) -> None:
    path = write(tmp_path / "new.csv", {"sun": 3.0, "load": 1.0}, rows=200)
    newer = set_up(csv_data(path=path, split="test", **OPTIONS).with_state(trained.state_dict()))
    rows = RowRanges(newer.panel.starts, newer.panel.ends)
    found = measure_drift(tabulate_inputs(newer, rows, blocks=1), tabulate_run_inputs(trained))
    assert list(found) == ["sun", "load", "wind"]
    means = [found[name].mean for name in found]
    assert means == pytest.approx([3 / 2, 1 / 2, 0], abs=0.2)
    assert [found[name].standard_deviation for name in found] == pytest.approx([1, 1, 1], abs=0.15)
    assert [found[name].p < 0.05 for name in found] == [True, True, False]


def test_the_blocks_of_a_run_hold_the_moments_of_their_rows(trained: DataModule) -> None:
    table = tabulate_run_inputs(trained)
    assert table.groupby("variable")["dates"].sum().to_dict() == dict.fromkeys(("load", "wind", "sun"), ROWS)
    merged = merge_blocks(table[table["variable"] == "load"], dates=400)  # type: ignore[arg-type]
    assert len(merged) == 4  # of 58 blocks of 7 or 8 rows each
    values = trained.scaled.values[:][:, 0].double().numpy()
    last = table["dates"].iloc[256 - 58 : 256].sum()
    assert merged[-1] == pytest.approx([values[-last:].mean(), values[-last:].std()], rel=1e-5)


@pytest.mark.parametrize(
    ("newer", "blocks", "significant"),
    [
        ([3.0, 1.0], [[m, 1.0] for m in (-3, 3, -3, 3, -3, 3)], False),  # a season that the run has seen
        ([3.0, 1.0], [[m, 1.0] for m in (-0.3, 0.3, -0.3, 0.3, -0.3, 0.3)], True),
        ([0.0, 0.0], [[0.0, s] for s in (1.0, 1.1, 0.9, 1.0, 1.1, 0.9)], True),  # a sensor that stands still
        ([0.0, 0.0], [[0.0, 0.0]] * 6, False),  # a constant column
        ([1.0, 0.0], [[0.0, 0.0]] * 6, True),
        ([9.0, 0.0], [[0.0, 1.0]] * 3, False),  # too few blocks
    ],
)
def test_newer_rows_beside_blocks_of_the_run(newer: list[float], blocks: list[list[float]], significant: bool) -> None:
    assert (compare_with_blocks(np.array(newer), np.array(blocks)) < 0.05) == significant


BUSINESS = pd.DatetimeIndex(pd.bdate_range("2024-01-01", "2024-04-26").drop(["2024-03-29", "2024-04-01"]))
TIMES = pd.timedelta_range("09:00:00", periods=4, freq="h")
SESSIONS = pd.DatetimeIndex((BUSINESS.to_numpy()[:, None] + TIMES.to_numpy()).ravel())
HOURS = pd.date_range("2024-01-01", periods=200, freq="h")


def frame_of(dates: pd.DatetimeIndex) -> pd.DataFrame:
    values = np.random.default_rng(0).normal(size=len(dates))
    return pd.DataFrame({"load": values}, index=dates.rename("date"))


@pytest.mark.parametrize(
    ("dates", "steps", "start", "expected"),
    [
        (HOURS, "dates", "2024-01-03 22:00", "2024-01-04 02:00"),
        (BUSINESS, "rows", "2024-03-27", "2024-04-04"),  # after Good Friday, the weekend and Easter Monday
        (SESSIONS, "rows", "2024-03-28 11:00", "2024-04-02 11:00"),
        (BUSINESS, "rows", "2024-04-25", "2024-05-01"),  # beyond the last row
        (HOURS, "dates", "2023-12-31 22:00", "2024-01-01 02:00"),  # before the first row
    ],
)
def test_the_last_step_is_counted_in_rows(dates: pd.DatetimeIndex, steps: str, start: str, expected: str) -> None:
    panel = read_frame(frame_of(dates), steps=steps)
    assert find_last_step(pd.DatetimeIndex([start]), 5, panel) == np.datetime64(expected)


def test_forecasts_that_share_a_row_with_the_test_are_left_out() -> None:
    sizes = {"seq_len": 6, "pred_len": 3, "split": [0.7, 0.1, 0.2]}
    data = set_up(frame_data(frame_of(BUSINESS), steps="rows", name="made", **sizes))
    last = pd.DatetimeIndex(["2024-04-11"])  # of the test
    (tested,) = BUSINESS.get_indexer(last)
    end = find_last_step(last, 3, data.panel)
    keep_windows_after(data, end)
    (starts,) = data.windows["test"].starts
    assert [*BUSINESS[[starts[0] + 6, starts[-1] + 6]]] == [*BUSINESS[[tested + 3, -3]]]
    assert data.n_windows["test"] == len(starts) == len(data.windows["test"])


HORIZON, TEST, NEWER = 24, 4000, 700


def simulate(random: np.random.Generator, n: int, *, model=1.0, scale=1.0, inside=0.8) -> Period:
    """Windows of easy and hard days; `model` multiplies its errors, `scale` all; `inside` is the mean coverage."""
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
    factors = {"load": shift, "wind": 1, "sun": 1}
    return {name: Drift(0.0, 1.0, random.random() / factor) for name, factor in factors.items()}


def frequency(advice: Advice, trials: int = 60, shift: float = 1.0, **newer: float) -> float:
    random = np.random.default_rng(0)
    given = [
        compare_periods(simulate(random, NEWER, **newer), simulate(random, TEST), simulate_drift(random, shift)).advice
        for _ in range(trials)
    ]
    return given.count(advice) / trials


def test_an_unchanged_model_is_trained_again_in_at_most_5_percent() -> None:
    """Three standard errors of 200 trials are 4.6%; without the adjustment for three tests it would be 14%."""
    assert 0.01 <= frequency(Advice.RETRAIN, trials=200) <= 0.05 + 0.046


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
