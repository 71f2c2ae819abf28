"""The verdict of a backtest in one sentence, and the origins that its figure shows."""

import math

import numpy as np
import pytest

from forecast.evaluation.measurement import Origins
from forecast.evaluation.significance import LossDifference
from forecast.reports.backtest import describe_verdict, select_successive

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
def test_the_verdict_says_which_is_better_and_whether_that_is_significant(
    change: float, difference: LossDifference, says: str
) -> None:
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
def test_the_last_origins_without_overlap_are_drawn(
    rows: list[int], pred_len: int, series: list[int] | None, chosen: list[int]
) -> None:
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
def test_the_overlap_counts_the_consecutive_dates_that_share_a_step(
    positions: list[int], horizon: int, expected: int
) -> None:
    rows = np.array(positions)
    origins = Origins(rows, np.zeros_like(rows), rows, 24)
    shared = max(sum(0 <= b - a < horizon for b in set(positions)) for a in positions)
    assert origins.overlap(horizon) == expected == shared
