"""The verdict of a backtest in one sentence."""

import math

import pytest

from forecast.evaluation.loss_difference import LossDifference
from forecast.reports.backtest import Verdict

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
