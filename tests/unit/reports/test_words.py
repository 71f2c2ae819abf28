"""What scores, backtests and forecasts are said to be, and the origins that a figure shows."""

import math

import numpy as np
import pandas as pd
import pytest

from forecast.evaluation.measurement import Origins
from forecast.evaluation.scores import ReportedScores, round_values
from forecast.evaluation.significance import LossDifference
from forecast.inference.forecast import describe_coverage
from forecast.reports.backtest import describe_verdict, select_successive
from forecast.reports.scores import describe_series, describe_skill


@pytest.mark.parametrize(
    ("skill", "said"),
    [
        (0.1244, "skill 0.124: 12.4% less squared error than drift, the best baseline"),
        (-0.051, "skill -0.051: WORSE than drift by 5.1% in squared error; use drift"),
        (-0.0004, "skill 0.000: equal to drift, the best baseline"),
        (0.0004, "skill 0.000: equal to drift, the best baseline"),
        (math.nan, "no skill can be given: drift, the best baseline, makes no error here; use drift"),
    ],
)  # fmt: skip
def test_a_skill_is_put_in_words(skill: float, said: str) -> None:
    assert describe_skill(skill, "drift") == said


def test_a_coverage_that_was_not_measured_is_not_told() -> None:
    content = {"test": {"mse": 1.0}, "baselines": {}}
    intervals = {"80": {"coverage": 0.65}, "95": {"coverage": math.nan}, "crps": 0.3}
    test = ReportedScores.read({**content, "intervals": {"conformal": intervals}})
    assert describe_coverage(test, "conformal", [80, 95]) == [
        "the 80% interval covered 65.0% of the values",
        "the 80% interval (conformal) covers 15 points less than its level",
    ]
    assert describe_coverage(test, "conformal", [95]) == []


def test_equal_errors_count_for_neither() -> None:
    table = pd.DataFrame(
        {
            "unique_id": ["a", "b", "c", "d"], "model_mase": [1.0, 2.0, 3.0, 4.0],
            "model_mse": [1.0, 1.0, 1.0, 2.0], "linear_mse": [1.0 + 1e-7, 1.0 - 1e-7, 1.1, 1.0],
        }
    )  # fmt: skip
    line, _ = describe_series(table, "linear")
    assert line.endswith("the model has less squared error than linear baseline in 1 (25%), more in 1")


CLEAR, UNCLEAR = LossDifference(-1.0, 0.01, 20.0, 3), LossDifference(-1.0, 1.0, 20.0, 3)
TEST = "Diebold-Mariano test, p = 9.5e-09, corrected for 3 tests"
UNTESTED = LossDifference(-1.0, math.nan, 0.0, 3)


@pytest.mark.parametrize(
    ("change", "difference", "says"),
    [
        (-0.2, CLEAR, f"had 20.0% less MSE than drift; the difference is significant ({TEST})"),
        (0.2, UNCLEAR, "had 20.0% more MSE than drift; the difference is not significant"),
        (-0.2, UNTESTED, "less MSE than drift; there are too few origins to test"),
        (5e-5, CLEAR, "the model and drift had the same MSE"),
        (math.nan, UNTESTED, "drift had no error"),
    ],
)  # fmt: skip
def test_the_verdict_says_which_is_better(change: float, difference: LossDifference, says: str) -> None:
    assert says in describe_verdict("the model", "drift", change, difference)


@pytest.mark.parametrize(
    ("rows", "pred_len", "series", "chosen"),
    [
        ([5], 24, None, [0]),
        ([0, 24, 48], 24, None, [0, 1, 2]),
        ([0, 10, 20, 30, 40, 50], 24, None, [2, 5]),  # those between overlap
        ([0, 300, 600, 900], 300, None, [1, 2, 3]),  # more steps than are drawn of shorter horizons
        ([*range(0, 2400, 24)], 24, None, [*range(84, 100)]),
        ([0, 24, 0, 24], 24, [7, 7, 8, 8], [0, 1]),
    ],
)
def test_which_origins_are_drawn(rows: list[int], pred_len: int, series: list[int] | None, chosen: list[int]) -> None:
    numbers = np.array(rows)
    origins = Origins(numbers, np.array(series or [0] * len(rows)), numbers, stride=1)
    assert select_successive(origins, int(origins.series[0]), pred_len).tolist() == chosen


@pytest.mark.parametrize(
    ("positions", "horizon", "expected"),
    [
        ([0, 24, 48, 72], 24, 1),
        ([0, 24, 48, 72], 25, 2),
        ([0, 24, 48, 72, 96, 120], 100, 5),
        ([0, 24, 48, 0, 24, 48], 48, 2),  # two series with the same dates
        ([0, 24, 48, 7, 31, 55], 24, 2),  # two series with other dates
        ([5], 24, 1),
    ],
)
def test_the_overlap_counts_dates_that_share_a_step(positions: list[int], horizon: int, expected: int) -> None:
    rows = np.array(positions)
    origins = Origins(rows, np.zeros_like(rows), rows, 24)
    shared = max(sum(0 <= b - a < horizon for b in set(positions)) for a in positions)
    assert origins.overlap(horizon) == expected == shared


@pytest.mark.parametrize(
    ("spread", "given", "expected"),
    [
        (2.0, [12.300000190734863, -0.0199999995529652], [12.3, -0.02]),
        (20.0, [1.7e9 + 1.2500001, 1.7e9 + 20.5], [1.7e9 + 1.25, 1.7e9 + 20.5]),
        (1.0, [1e7 + 0.3000001, 1e7 + 0.9], [1e7 + 0.3, 1e7 + 0.9]),
        (1e37, [1e39, 2e39], [1e39, 2e39]),
        (np.nan, [12.300000190734863, 1e39], [12.3, 1e39]),
        (0.0, [12.300000190734863, 1e7], [12.3, 1e7]),
        (1.8e-15, [12.300000190734863, 12.42300033569336], [12.3, 12.423]),  # of 48 equal numbers
    ],
)
def test_values_have_the_digits_that_models_compute(spread: float, given: list[float], expected: list[float]) -> None:
    found = round_values(np.array(given)[None, :, None], np.full((1, 1, 1), spread))
    np.testing.assert_array_equal(found[0, :, 0], expected)


def test_values_have_the_shortest_digits_of_float32() -> None:
    values = np.random.default_rng(0).normal(size=(2, 50, 3)) * 10.0 ** np.arange(-3, 3).reshape(2, 1, 3)
    values[0, 0] = np.nan, np.inf, -0.0
    found = round_values(values, np.full((2, 1, 3), 1e9))
    expected = [str(float(str(value))) for value in values.astype(np.float32).ravel()]
    assert list(map(str, found.ravel().tolist())) == expected
