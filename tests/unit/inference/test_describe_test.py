"""The words in which a forecast repeats how two forecasters compared in the test."""

import pytest

from forecast.evaluation.scores import ReportedScores
from forecast.inference.forecast import compare_forecasters, recommend_conformal


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


@pytest.mark.parametrize(
    ("quantile", "conformal", "is_recommended"),
    [
        ({"80": 0.666, "95": 0.85}, {"80": 0.784, "95": 0.94}, True),
        ({"80": 0.666, "95": 0.95}, {"80": 0.784, "95": 0.94}, False),  # not nearer to each level
        ({"80": 0.79, "95": 0.94}, {"80": 0.80, "95": 0.95}, False),  # hardly nearer
        ({"80": 0.9}, {"95": 0.95}, False),
    ],
)
def test_conformal_intervals_are_recommended_where_their_coverage_was_much_nearer(
    quantile: dict[str, float], conformal: dict[str, float], is_recommended: bool
) -> None:
    test = ReportedScores({"model": 1.0}, {"quantile": quantile, "conformal": conformal})
    lines = recommend_conformal(test, "quantile", [80, 95])
    covered = "conformal intervals covered 78.4% and 94.0%: intervals=conformal forecasts with them"
    assert lines == [covered] * is_recommended
    assert recommend_conformal(test, "conformal", [80, 95]) == []
