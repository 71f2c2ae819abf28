"""What a test's scores are said to mean."""

import math

import pandas as pd
import pytest

from forecast.evaluation.scores import ReportedScores
from forecast.inference.forecast import describe_coverage
from forecast.reports.scores import (
    describe_series,
    describe_skill,
)


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
