"""Whether a model should be trained again: tests of its errors in two periods."""

from dataclasses import dataclass
from enum import StrEnum

from forecast.evaluation.forecaster_names import BASELINES, MODEL
from forecast.evaluation.loss_difference import SIGNIFICANCE_LEVEL, LossDifference
from forecast.evaluation.significance import compare_periods
from forecast.tools.monitor.windows import Period


class Advice(StrEnum):
    """Advice on a trained model."""

    KEEP = "keep"
    """Its errors have not grown beyond chance."""
    RETRAIN = "retrain"
    """Its errors have grown, and more than those of the baseline."""
    HARDER = "harder"
    """Its errors have grown, but no more than those of the baseline."""
    UNKNOWN = "unknown"
    """There are too few forecasts to tell."""


@dataclass(frozen=True)
class Verdict:
    """The change from the test to the newer rows.

    Attributes:
        baseline: see `choose_baseline`.
        error: change of the MSE of the model.
        excess: MSE of the model on the newer rows, minus the MSE that it would have if the MSE of the model and of the
            baseline had changed by the same factor.
    """

    baseline: str
    error: LossDifference
    excess: LossDifference

    @property
    def advice(self) -> Advice:
        """The advice. If the errors have not changed, the probability of `RETRAIN` is at most `SIGNIFICANCE_LEVEL`."""
        if not self.error.degrees_of_freedom:
            return Advice.UNKNOWN
        if not is_larger(self.error):
            return Advice.KEEP
        return Advice.RETRAIN if is_larger(self.excess) else Advice.HARDER


def is_larger(change: LossDifference) -> bool:
    """Whether the loss has grown beyond chance."""
    return change.mean > 0 and change.p_value < SIGNIFICANCE_LEVEL


def choose_baseline(test: Period) -> str:
    """The baseline with the lowest MSE in the test, of those without parameters that could become out of date."""
    lasting = [name for name, facts in BASELINES.items() if name in test.mse and not facts.has_parameters]
    return min(lasting, key=lambda name: test.mse[name].mean())


def judge(newer: Period, test: Period) -> Verdict:
    """Compare two periods.

    With r = MSE of the model / MSE of the baseline in the test, the excess is the mean of model − r · baseline over the
    newer windows; over those of the test it is 0. The variance of both periods counts, because r is estimated.
    """
    baseline = choose_baseline(test)
    naive = test.mse[baseline].mean()
    ratio = float(test.mse[MODEL].mean() / naive) if naive else 0.0
    excess = [period.mse[MODEL] - ratio * period.mse[baseline] for period in (newer, test)]
    overlaps = newer.overlap, test.overlap
    return Verdict(
        baseline,
        compare_periods(newer.mse[MODEL], test.mse[MODEL], *overlaps),
        compare_periods(excess[0], excess[1], *overlaps),
    )
