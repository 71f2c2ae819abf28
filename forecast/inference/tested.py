"""Describe the test of a run for the terminal: skill, and coverage of intervals."""

import math

from forecast.evaluation.levels import Level
from forecast.evaluation.names import LABELS, MODEL
from forecast.evaluation.reported_scores import ReportedScores
from forecast.inference.forecast import Forecast


def describe_test(found: Forecast) -> list[str]:
    """Describe the test scores of the forecaster in lines; no lines without a test."""
    test, name = found.forecaster.test, found.forecaster.name
    if test is None:
        return []
    if name != MODEL:
        unknown = ["the coverage of its intervals was not measured"] if found.low else []
        return [f"test       {line}" for line in (compare(test, name, MODEL), *unknown)]
    best = test.best_baseline
    lines = [compare(test, MODEL, best)]
    if test.mse[best] < test.mse[MODEL] and percent_change(test, best, MODEL) != "0.0%":
        lines = [f"{compare(test, best, MODEL)}: baseline={best} forecasts with it"]
    if found.dates.shape[1] <= found.forecaster.pred_len:
        lines += describe_coverage(test, found.method, list(found.low))
    return [f"test       {line}" for line in lines]


def compare(test: ReportedScores, name: str, other: str) -> str:
    """Compare the MSE of two forecasters."""
    one, two = ({MODEL: "the model", **LABELS}[each] for each in (name, other))
    mse, other_mse = test.mse[name], test.mse[other]
    if other_mse == 0:
        return f"{two} had no error"
    change = percent_change(test, name, other)
    if change == "0.0%":
        return f"{one} and {two} had the same MSE"
    return f"{one} had {change} {'less' if mse < other_mse else 'more'} MSE than {two}"


def percent_change(test: ReportedScores, name: str, other: str) -> str:
    """The relative difference of two MSEs, of which the second is not 0, in percent and without a sign."""
    return f"{abs(test.mse[name] / test.mse[other] - 1):.1%}"


def describe_coverage(test: ReportedScores, method: str, levels: list[Level]) -> list[str]:
    """The coverage of each level, where the test measured intervals of this method."""
    measured = test.coverage.get(method, {})
    return [
        f"the {level:g}% interval covered {measured[f'{level:g}']:.1%} of the values"
        for level in levels
        if math.isfinite(measured.get(f"{level:g}", math.nan))
    ]
