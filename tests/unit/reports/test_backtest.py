"""The verdict of a backtest in one sentence, and what its figures show."""

import math

import numpy as np
import pandas as pd
import pytest

from forecast.evaluation.measurement import Origins
from forecast.evaluation.significance import LossDifference
from forecast.reports.backtest import Verdict, limit_errors, select_successive
from forecast.reports.figures import subplots

CLEAR, UNCLEAR = LossDifference(-1.0, 0.01, 20.0, 3), LossDifference(-1.0, 1.0, 20.0, 3)
BEST = "linear baseline, the best baseline by scaled MSE"
TEST = "Diebold-Mariano test, p = 9.5e-09, corrected for the choice among 3 baselines"
UNTESTED = LossDifference(-1.0, math.nan, 0.0, 3)


@pytest.mark.parametrize(
    ("change", "difference", "says"),
    [
        (-0.2, CLEAR, f"had 20.0% less MSE than {BEST}; the difference is significant ({TEST})"),
        (0.2, UNCLEAR, f"had 20.0% more MSE than {BEST}; the difference is not significant"),
        (-0.2, UNTESTED, f"less MSE than {BEST}; there are too few origins to test"),
        (5e-5, CLEAR, "the model and linear baseline, the best baseline, had the same MSE"),
        (math.nan, UNTESTED, "linear baseline had no error"),
    ],
)  # fmt: skip
def test_the_verdict_says_which_is_better_and_whether_that_is_significant(
    change: float, difference: LossDifference, says: str
) -> None:
    assert says in Verdict("linear", change, difference).sentence


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


@pytest.mark.parametrize(("naive", "top"), [(100.0, 4.0), (3.0, 3.15)])
def test_a_baseline_with_large_errors_leaves_the_axis(naive: float, top: float) -> None:
    _, axis = subplots(figsize=(4, 3))
    table = pd.DataFrame({"model_mse": [1.0, np.nan, 2.0], "naive_mse": [0.0, 1.0, naive]})
    for column in table:
        axis.plot(table[column], label=column)
    limit_errors(axis, table, ["model"])
    assert axis.get_ylim() == pytest.approx((0, top))
    assert [text.get_text() for text in axis.texts] == ["beyond the axis: naive_mse"] * (naive > 4)
