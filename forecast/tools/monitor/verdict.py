"""Whether a model should be trained again: tests of its errors, of its intervals and of its inputs on newer rows.

Three tests are combined:

errors     The mean of log(MSE of the model / MSE of the baseline) has grown since the test. Both forecast the same
           dates, so what makes some weeks harder than others, such as holidays, is in both. The logarithm keeps single
           weeks from dominating the mean.
coverage   The mean share of the true values within the intervals has fallen since the test.
inputs     The mean or the standard deviation of a column differs from those in blocks of the run that are as long as
           the newer rows (`forecast.tools.monitor.drift`), with a Bonferroni correction over the columns.

The first two are one-sided t tests. The variance of the difference of two means over n newer and m tested dates is
V (1/n + 1/m). The long-run variance V is estimated on the test (`forecast.evaluation.significance.diebold_mariano`),
because the null hypothesis is that nothing has changed, and few newer dates, or dates with drift, estimate it badly.
Dates within a week of each other count as dependent, even if their forecasts share no step: days of the week differ,
and a holiday changes the errors of the days after it.

The p-values are adjusted by the method of Holm (1979), A Simple Sequentially Rejective Multiple Test Procedure. If
nothing has changed, the probability of any significant test is at most `SIGNIFICANCE_LEVEL`, however the tests depend
on each other. `scripts/monitor_power` measures this, and the power, on loads with holidays.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from jaxtyping import Float64

from forecast.evaluation.scores import BASELINES, MODEL
from forecast.evaluation.significance import SIGNIFICANCE_LEVEL, LossDifference, diebold_mariano
from forecast.tools.monitor.drift import Drift
from forecast.tools.monitor.windows import Period

SMALLEST = 1e-3
"""Smaller errors, relative to the mean of the forecaster in the test, count as this one: an error may be 0."""


class Advice(StrEnum):
    """Advice on a trained model."""

    KEEP = "keep"
    """Neither errors, coverage nor inputs have changed beyond chance."""
    RETRAIN = "retrain"
    """At least one of them has."""
    UNKNOWN = "unknown"
    """There are too few forecasts to tell."""


@dataclass(frozen=True)
class Verdict:
    """The changes from the test to the newer rows.

    Attributes:
        baseline: see `choose_baseline`.
        changes: change of the log of the error relative to the baseline (`errors`) and of the mean coverage
            (`coverage`, absent if the run has no intervals).
        p_values: by test, adjusted for the number of tests; tests that were not possible are absent.
    """

    baseline: str
    changes: dict[str, LossDifference]
    p_values: dict[str, float]

    @property
    def significant(self) -> list[str]:
        """The tests that found a change."""
        return [name for name, p in self.p_values.items() if p < SIGNIFICANCE_LEVEL]

    @property
    def advice(self) -> Advice:
        """The advice. If nothing has changed, the probability of `RETRAIN` is at most `SIGNIFICANCE_LEVEL`."""
        if self.significant:
            return Advice.RETRAIN
        return Advice.KEEP if "errors" in self.p_values else Advice.UNKNOWN


def choose_baseline(test: Period) -> str:
    """The baseline with the lowest MSE in the test, of those without parameters that could become out of date."""
    lasting = [name for name, facts in BASELINES.items() if name in test.mse and not facts.has_parameters]
    return min(lasting, key=lambda name: test.mse[name].mean())


def judge(newer: Period, test: Period, drift: Mapping[str, Drift]) -> Verdict:
    """Test whether errors have grown, coverage has fallen, or inputs have changed; see the module."""
    baseline = choose_baseline(test)
    errors = [
        log_errors(period, MODEL, test) - log_errors(period, baseline, test) for period in (newer, test)
    ]
    changes = {"errors": compare_with_test(*errors, newer.overlap, test)}
    if newer.coverage is not None and test.coverage is not None:
        changes["coverage"] = compare_with_test(newer.coverage, test.coverage, newer.overlap, test)
    p_values = {
        name: one_sided(change, growth=name == "errors")
        for name, change in changes.items()
        if change.degrees_of_freedom
    }
    tested = [one.p for one in drift.values() if not math.isnan(one.p)]
    if tested:
        p_values["inputs"] = min(1.0, len(tested) * min(tested))
    return Verdict(baseline, changes, adjust(p_values))


def log_errors(period: Period, forecaster: str, test: Period) -> Float64[np.ndarray, " n"]:
    """The logarithm of each error; see `SMALLEST`."""
    smallest = SMALLEST * test.mse[forecaster].mean()
    return np.log(np.maximum(period.mse[forecaster], smallest or np.finfo(float).tiny))


def compare_with_test(
    newer: Float64[np.ndarray, " n"], tested: Float64[np.ndarray, " m"], overlap: int, test: Period
) -> LossDifference:
    """The change of a mean, with the long-run variance of the test.

    There is no test with fewer newer dates than two forecasts need that share no step (2 · `overlap`), or fewer than 5.
    """
    newer, tested = newer[~np.isnan(newer)], tested[~np.isnan(tested)]
    if len(newer) < max(2 * overlap, 5) or not len(tested):
        return LossDifference(float(newer.mean() - tested.mean()) if len(newer) else math.nan, math.nan, 0.0)
    span = max(test.overlap, min(test.dates_of_a_week, len(tested) // 2))
    found = diebold_mariano(tested, np.zeros(len(tested)), span)
    variance = found.variance * (1 + len(tested) / len(newer))
    return LossDifference(float(newer.mean() - found.mean), variance, found.degrees_of_freedom)


def one_sided(change: LossDifference, *, growth: bool) -> float:
    """The p-value of the test that a mean has grown, or that it has fallen."""
    return change.p_value / 2 if (change.mean > 0) == growth else 1 - change.p_value / 2


def adjust(p_values: Mapping[str, float]) -> dict[str, float]:
    """Adjust p-values by the method of Holm; in the given order."""
    adjusted, largest = {}, 0.0
    for rank, name in enumerate(sorted(p_values, key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[name]))
        adjusted[name] = largest
    return {name: adjusted[name] for name in p_values}
