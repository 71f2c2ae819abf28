"""The words in which a forecast repeats how two forecasters compared in the test."""

import pytest

from forecast.evaluation.reported_scores import ReportedScores
from forecast.inference.describe_test import compare_forecasters


@pytest.mark.parametrize(
    ("mse", "said"),
    [
        (1.0, "the model and naive had the same MSE"),
        (1.0003, "the model and naive had the same MSE"),
        (1.002, "the model had 0.2% more MSE than naive"),
        (0.9, "the model had 10.0% less MSE than naive"),
    ],
)
def test_a_change_that_is_shown_as_zero_is_none(mse: float, said: str) -> None:
    assert compare_forecasters(ReportedScores({"model": mse, "naive": 1.0}, {}), "model", "naive") == said
