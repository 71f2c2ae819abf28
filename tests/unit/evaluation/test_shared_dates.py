"""Losses of tasks on the same dates."""

import numpy as np
import pytest

from forecast.evaluation.significance import (
    DatedLosses,
    LossDifference,
    average_by_date,
    average_differences,
    diebold_mariano,
)

HALVES = [0.5, 0.5]


def overlapping_losses(n: int, overlap: int, shocks: np.ndarray) -> DatedLosses:
    """Mean shock over the steps of each of n windows."""
    return DatedLosses(np.convolve(shocks, np.ones(overlap) / overlap, "valid")[:n], np.arange(n), overlap)


def compare_with_zero(series: DatedLosses) -> LossDifference:
    return diebold_mariano(series.losses, np.zeros(len(series.losses)), series.overlap)


def test_mean_and_variance_of_sparse_losses_are_kept() -> None:
    """Every fifth date, beside a series of zeros on all dates."""
    random = np.random.default_rng(0)
    sparse = DatedLosses(random.normal(size=400), np.arange(0, 2000, 5), 2)
    zeros = DatedLosses(np.zeros(2000), np.arange(2000), 10)
    averaged = average_by_date([sparse, zeros], HALVES)
    assert averaged.losses.mean() == pytest.approx(sparse.losses.mean() / 2)
    assert averaged.overlap == 10
    assert averaged.losses.var() / 2000 == pytest.approx(sparse.losses.var() / 400 / 4)


def test_equal_losses_on_the_same_dates_are_rarely_called_different() -> None:
    """Two horizons with the same shocks: taken as independent, they are called different twice too often."""
    random, trials, by_date, as_independent = np.random.default_rng(1), 600, 0, 0
    for _ in range(trials):
        shocks = random.normal(size=1100)
        tasks = [overlapping_losses(1000, 24, shocks), overlapping_losses(1000, 48, shocks)]
        by_date += compare_with_zero(average_by_date(tasks, HALVES)).p_value < 0.05
        tests = [compare_with_zero(task) for task in tasks]
        as_independent += average_differences(tests, HALVES).p_value < 0.05
    assert by_date / trials <= 0.05 + 0.018  # two standard errors
    assert as_independent / trials > 0.1
