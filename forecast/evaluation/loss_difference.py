"""The difference of the losses of two forecasters, its variance, the t test that it is zero, and its intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

SIGNIFICANCE_LEVEL = 0.05
"""Tests with a smaller p-value are significant."""


@dataclass(frozen=True)
class LossDifference:
    """Loss of one forecaster minus the loss of another, and the test that its mean is zero.

    mean: mean difference over the test windows.
    variance: of the mean; NaN where there are too few windows.
    degrees_of_freedom: of the variance; 0 where there are too few windows.
    comparisons: number of tests made together, for the Bonferroni correction.
    base: mean loss of the other forecaster; 1 if the difference is relative to it already.
    base_variance, base_covariance: variance of `base`, and its covariance with `mean`.
    independent: number of windows that share no step; NaN where windows are not what is lacking.
    """

    mean: float
    variance: float
    degrees_of_freedom: float
    comparisons: int = 1
    base: float = 1.0
    base_variance: float = 0.0
    base_covariance: float = 0.0
    independent: float = math.nan

    @property
    def statistic(self) -> float:
        """The mean in standard errors; NaN where there are too few windows."""
        if self.variance == 0:
            return math.copysign(math.inf, self.mean) if self.mean else 0.0
        return self.mean / math.sqrt(self.variance)

    @property
    def p_value(self) -> float:
        """Two-sided p-value of Student's t; NaN where there are too few windows."""
        from scipy.special import stdtr  # imported where a test is asked for

        return float(2 * stdtr(self.degrees_of_freedom, -abs(self.statistic)))

    @property
    def adjusted_p_value(self) -> float:
        """p-value times the number of comparisons (Bonferroni), at most 1."""
        return min(1.0, self.comparisons * self.p_value) if self.degrees_of_freedom else math.nan

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval of the mean. All intervals made together hold their means with probability `level`.

        The interval excludes 0 where `adjusted_p_value` is below 1 − `level`.
        """
        half = self._quantile(level) * math.sqrt(self.variance)
        return self.mean - half, self.mean + half

    def relative_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval of mean / base, the relative difference ρ of the losses (Fieller 1954).

        It holds each ρ for which the test does not reject that the mean of first − (1 + ρ) · other is zero. At ρ = 0
        this is the test of `p_value`, so the interval excludes 0 where `adjusted_p_value` is below 1 − `level`. It has
        the size of the test, because it counts the variance of `base`: in simulations, 94% to 96% of the intervals hold
        ρ, and of `interval` / `base`, 88% to 100% (tests/unit/evaluation/test_significance.py).

        NaN where there are too few independent windows: where it is unbounded, or holds −1. A loss is not negative, so
        ρ > −1; an interval that reaches −1 only says that the variances are too large for the test.
        """
        quantile = self._quantile(level)
        square = self.base**2 - quantile**2 * self.base_variance
        if not square > 0:
            return math.nan, math.nan
        middle = self.mean * self.base - quantile**2 * self.base_covariance
        last = self.mean**2 - quantile**2 * self.variance
        half = math.sqrt(max(0.0, middle**2 - square * last))
        low, high = (middle - half) / square, (middle + half) / square
        return (low, high) if low > -1 else (math.nan, math.nan)

    def _quantile(self, level: float) -> float:
        """The quantile of Student's t for two-sided intervals of this level; NaN where there are too few windows."""
        if not self.degrees_of_freedom:
            return math.nan
        from scipy.special import stdtrit

        return float(stdtrit(self.degrees_of_freedom, 1 - (1 - level) / (2 * self.comparisons)))


def add_variances(parts: Sequence[LossDifference]) -> tuple[float, float]:
    """The sum of independent variances, and its degrees of freedom (Welch and Satterthwaite), (Σ v)² / Σ (v² / ν)."""
    variances, degrees = np.array([(one.variance, one.degrees_of_freedom) for one in parts]).T
    total = float(variances.sum())
    if not total:
        return total, float(degrees.sum())
    return total, total**2 / float((variances**2 / degrees).sum())


def average_differences(
    differences: Sequence[LossDifference], weights: Sequence[float], comparisons: int = 1
) -> LossDifference:
    """The weighted mean of relative differences on independent windows, such as those of several data sets.

    Args:
        differences: one per data set; where one has too few windows to test, so has the mean.
        weights: one per difference; they sum to 1.
        comparisons: number of tests made together, for the Bonferroni correction.
    """
    mean = sum(weight * one.mean for weight, one in zip(weights, differences, strict=True))
    independent = sum(one.independent for one in differences)
    if not all(one.degrees_of_freedom for one in differences):
        return LossDifference(mean, math.nan, 0.0, comparisons, independent=independent)
    weighted = [
        replace(one, variance=weight**2 * one.variance)
        for weight, one in zip(weights, differences, strict=True)
    ]
    return LossDifference(mean, *add_variances(weighted), comparisons, independent=independent)
