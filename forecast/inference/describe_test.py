"""Describe the test of a run for the terminal: skill, and coverage of intervals."""

import math

from forecast.evaluation.forecaster_names import LABELS, MODEL, SAME_ERROR, describe_change
from forecast.evaluation.levels import CONFORMAL, Level
from forecast.evaluation.reported_scores import ReportedScores
from forecast.inference.forecast import Forecast

MUCH_NEARER = 0.02
"""Difference in coverage from which other intervals are recommended."""


def describe_test(forecast: Forecast) -> list[str]:
    """Describe the test scores of the forecaster in lines; no lines without a test."""
    test, name = forecast.forecaster.test, forecast.forecaster.name
    if test is None:
        return []
    if name != MODEL:
        unknown = ["the coverage of its intervals was not measured"] if forecast.low else []
        return [f"test       {line}" for line in (compare_forecasters(test, name, MODEL), *unknown)]
    best = test.best_baseline
    lines = [compare_forecasters(test, MODEL, best)]
    if test.mse[best] < test.mse[MODEL] and not has_same_mse(test, best, MODEL):
        lines = [f"{compare_forecasters(test, best, MODEL)}: baseline={best} forecasts with it"]
    if forecast.dates.shape[1] <= forecast.forecaster.pred_len:
        lines += describe_coverage(test, forecast.method, list(forecast.low))
        lines += recommend_conformal(test, forecast.method, list(forecast.low))
    return [f"test       {line}" for line in lines]


def compare_forecasters(test: ReportedScores, name: str, other: str) -> str:
    """Compare the MSE of two forecasters."""
    one, two = ({MODEL: "the model", **LABELS}[each] for each in (name, other))
    mse, other_mse = test.mse[name], test.mse[other]
    if other_mse == 0:
        return f"{two} had no error"
    if has_same_mse(test, name, other):
        return f"{one} and {two} had the same MSE"
    return f"{one} had {describe_change(mse / other_mse - 1)} than {two}"


def has_same_mse(test: ReportedScores, name: str, other: str) -> bool:
    """Whether two MSEs, of which the second is not 0, are equal up to `SAME_ERROR`."""
    return abs(test.mse[name] / test.mse[other] - 1) < SAME_ERROR


def recommend_conformal(test: ReportedScores, method: str, levels: list[Level]) -> list[str]:
    """Recommend conformal intervals where they covered shares much nearer to every level than those of `method`."""
    ours, theirs = (test.coverage.get(name, {}) for name in (method, CONFORMAL))
    measured = [f"{level:g}" for level in levels if f"{level:g}" in ours and f"{level:g}" in theirs]
    nearer = [
        abs(ours[level] - float(level) / 100) - abs(theirs[level] - float(level) / 100) for level in measured
    ]
    if not nearer or not min(nearer) > MUCH_NEARER:
        return []
    covered = " and ".join(f"{theirs[level]:.1%}" for level in measured)
    return [f"conformal intervals covered {covered}: intervals=conformal forecasts with them"]


def describe_coverage(test: ReportedScores, method: str, levels: list[Level]) -> list[str]:
    """The coverage of each level, and why one misses its level, where the test measured intervals of this method."""
    measured = test.coverage.get(method, {})
    lines = [
        f"the {level:g}% interval covered {measured[f'{level:g}']:.1%} of the values"
        for level in levels
        if math.isfinite(measured.get(f"{level:g}", math.nan))
    ]
    return lines + ([test.misses[method]] if lines and method in test.misses else [])
