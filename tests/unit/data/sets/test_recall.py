"""The generated plant: what its columns say, and that only a look thousands of steps back tells the week to come."""

import hashlib

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from forecast.data import Panel
from forecast.data.sets import MEMORY, NOISE, PRODUCTS, SOONEST, WEEK, WEEKS, around, recall_table


@pytest.fixture(scope="module")
def table() -> Panel:
    return recall_table()


@pytest.fixture(scope="module")
def made(table: Panel) -> np.ndarray:
    """The product of each week."""
    return table.values[::WEEK, 1 : 1 + PRODUCTS].argmax(1)


def last_runs(made: np.ndarray) -> np.ndarray:
    """Of each week, the week in which its product was made the last time; −1: never."""
    seen: dict[int, int] = {}
    found = []
    for week, product in enumerate(made.tolist()):
        found.append(seen.get(product, -1))
        seen[product] = week
    return np.array(found)


def test_the_table_has_the_same_bytes_every_time(table: Panel):
    assert (
        hashlib.sha256(table.values.tobytes()).hexdigest()
        == "0312245e03745126408781b80c1cfa930c10ea24ef55bc6f8d55cb3a93fc5800"
    )
    assert np.array_equal(table.values, recall_table().values)


def test_the_level_is_that_of_the_last_run_and_of_nothing_else(table: Panel, made: np.ndarray):
    """From the table alone, as a model reads it: means of weeks, the training rows' before those of the test."""
    level = table.values[:, 0].reshape(WEEKS, WEEK).mean(1)
    level -= level.mean()
    test = np.arange(int(0.8 * WEEKS), WEEKS)

    def error(forecast: np.ndarray) -> float:
        return float(np.mean((level[test] - forecast) ** 2) / np.mean(level[test] ** 2))

    last, train = last_runs(made)[test], test[0]
    by_heart = [level[:train][made[:train] == product].mean() for product in range(PRODUCTS)]
    recent = sliding_window_view(level, SOONEST - 1)[test - SOONEST + 1]  # the weeks just before
    assert error(0.9 * level[last]) < 0.3
    assert error(np.array(by_heart)[made[test]]) > 0.9
    assert error(recent[:, -1]) > 1.5
    assert error(recent.mean(1)) > 0.9


def test_the_lowest_errors_with_and_without_the_last_run_in_the_window(table: Panel, made: np.ndarray):
    """The bounds that docs/memory.md gives: of forecasts over a week, which know all else."""
    day = -0.7 * around(np.arange(24.0), 3.0, 3.0).mean()
    level = table.values[:, 0].reshape(WEEKS, WEEK).mean(1) - day
    origins = np.arange(int(0.8 * WEEKS * WEEK), (WEEKS - 1) * WEEK, 125)
    next_week, in_next_week = (
        origins // WEEK + 1,
        origins % WEEK / WEEK,
    )  # the rest lies in a week whose level shows
    last = level[last_runs(made)[next_week]]
    for known, lowest in ((0, 0.636), (MEMORY, 0.116)):
        error = in_next_week * (level[next_week] - known * last) ** 2
        assert error.mean() + NOISE**2 == pytest.approx(lowest, abs=0.001)
