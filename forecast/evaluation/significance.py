"""Tests of equal forecast accuracy over test windows, seeds and data sets."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

SIGNIFICANCE_LEVEL = 0.05
"""Tests with a smaller p-value are significant."""

ROUND_OFF = 1e-6
"""Relative difference of losses that comes from float32 arithmetic."""


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


@dataclass(frozen=True)
class SeedVariance:
    """Variance of the mean loss of a run over seeds, and its degrees of freedom (0: no variant has two seeds)."""

    variance: float
    degrees_of_freedom: int

    @classmethod
    def pool(cls, losses: Iterable[Sequence[float]]) -> "SeedVariance":
        """Pool the variances over the seeds of each variant, given the mean loss of each of its runs.

        Variants whose runs all have the same loss do not depend on the seed, and do not count.
        """
        samples = [np.asarray(one, dtype=np.float64) for one in losses if not is_deterministic(one)]
        degrees = sum(len(one) - 1 for one in samples)
        if not degrees:
            return cls(math.nan, 0)
        squares = sum(float(((one - one.mean()) ** 2).sum()) for one in samples)
        return cls(squares / degrees, degrees)

    def is_known(self, *losses: Sequence[float]) -> bool:
        """Whether the variance over seeds of these variants is known: it is pooled, or none depends on the seed."""
        return self.degrees_of_freedom > 0 or all(map(is_deterministic, losses))


def is_deterministic(losses: Sequence[float]) -> bool:
    """Whether several runs all have the same mean loss, up to the round-off of float32 arithmetic."""
    return len(losses) > 1 and max(losses) - min(losses) <= ROUND_OFF * max(map(abs, losses))


def diebold_mariano(
    first: np.ndarray, second: np.ndarray, overlap: int, comparisons: int = 1
) -> LossDifference:
    """Test whether two series of losses on the same windows have the same mean.

    With d(t) = first(t) − second(t) over windows t = 1 … n,

        Λ(j) = √(2/n) Σ d(t) cos(π j (t − ½) / n),  j = 1 … ν
        statistic = √n · mean(d) / √(mean of Λ(j)²),  Student's t with ν degrees of freedom under the null hypothesis
        ν = min(⌊0.4 n^⅔⌋, ⌊n / (4·overlap)⌋), at least 1; no test with fewer than 2·overlap windows, or fewer than 5

    Neighbouring windows share all but one of their `overlap` steps, so their losses are correlated and n windows
    carry less information than n independent ones. The variance of the mean is the spectral density of d(t) at
    frequency zero. It is estimated from the first ν cosines, whose periods are longer than the overlap. The estimate
    is never negative. A Bartlett kernel with a lag of one horizon underestimates the variance of such a series by a
    third and rejects twice too often.

    Sources: Diebold and Mariano (1995), Comparing Predictive Accuracy, for the test. Lazarus, Lewis, Stock and Watson
    (2018), HAR Inference: Recommendations for Practice, for the variance and 0.4 n^⅔. Coroneo and Iacone (2020),
    Comparing Predictive Accuracy in Small Samples Using Fixed-Smoothing Asymptotics, for its use with forecasts. The
    bound n / (4·overlap) is specific to this project.

    Args:
        first, second: losses in chronological order (n,).
        overlap: number of neighbouring windows that share steps; with stride 1, the horizon.
        comparisons: number of tests made together, for the Bonferroni correction.
    """
    from scipy.fft import dct  # imported where a test is asked for

    second = np.asarray(second, dtype=np.float64)
    difference = np.asarray(first, dtype=np.float64) - second
    n, mean, base = len(difference), float(difference.mean()), float(second.mean())
    degrees = count_cosines(n, overlap)
    if not degrees:
        return LossDifference(mean, math.nan, 0.0, comparisons, base, independent=n / overlap)
    cosines, of_base = (
        np.asarray(dct(series, norm="ortho"))[1 : degrees + 1] for series in (difference, second)
    )
    variances = [float(np.mean(product)) / n for product in (cosines**2, of_base**2, cosines * of_base)]
    return LossDifference(
        mean, variances[0], float(degrees), comparisons, base, *variances[1:], independent=n / overlap
    )


def count_cosines(n: int, overlap: int) -> int:
    """ν of `diebold_mariano` for n windows: the cosines that the variance is estimated from; 0: too few windows."""
    if n < 2 * overlap or n < 5:
        return 0
    return max(1, min(int(0.4 * n ** (2 / 3)), n // (4 * overlap)))


def add_seed_variance(
    difference: LossDifference, seeds: SeedVariance, share: float, share_of_base: float = 0.0
) -> LossDifference:
    """Add the variance over seeds to the variance over windows of a loss difference.

    The variance over seeds is the variance of the difference if the models are trained again with other seeds. The
    degrees of freedom of the sum are those of Welch and Satterthwaite, (a + b)² / (a² / ν_a + b² / ν_b).

    Args:
        difference: of losses that are averaged over the seeds of each forecaster.
        seeds: the variance of one run.
        share: 1 / (number of seeds), summed over the forecasters that depend on the seed.
        share_of_base: that of the other forecaster alone; 0 if the difference is relative to its loss already.
    """
    if not difference.degrees_of_freedom or not share:
        return difference
    of_seeds = LossDifference(0.0, share * seeds.variance, float(seeds.degrees_of_freedom))
    variance, degrees = add_variances([difference, of_seeds])
    added = seeds.variance * share_of_base if share_of_base else 0.0
    return replace(
        difference,
        variance=variance,
        degrees_of_freedom=degrees,
        base_variance=difference.base_variance + added,
        base_covariance=difference.base_covariance - added,
    )


def sum_losses_by_date(losses: np.ndarray, dates: np.ndarray) -> np.ndarray:
    """Sum the losses of the windows that share a forecast start, in chronological order.

    Windows of many series that start on the same date share its shocks, so they count as one observation. The sums
    are scaled so that their mean equals the mean loss of all windows.

    Args:
        losses: loss of each window (n_windows,).
        dates: forecast start of each window (n_windows,).

    Returns:
        Scaled sum of each date (n_dates,).
    """
    _, date = np.unique(dates, return_inverse=True)
    sums = np.bincount(date, weights=losses)
    return sums * (len(sums) / len(losses))


def compare_to_reference(
    reference: str,
    losses: Mapping[str, np.ndarray],
    overlap: int,
    seed_losses: Mapping[str, Sequence[float]] | None = None,
    *,
    comparisons: int,
) -> dict[str, LossDifference]:
    """Test the losses of every other forecaster against those of `reference`, with a Bonferroni correction.

    If the reference is the forecaster with the lowest loss on these windows, the tests shown are chosen among all pairs
    of forecasters, and the correction must count all pairs (`count_pairs`). Then none of several equal forecasters is
    called worse, with a probability of at least 95 %.

    Args:
        reference: name of the forecaster that the others are compared with.
        losses: loss of each window by forecaster, averaged over its seeds, in chronological order, each (n,).
        overlap: see `diebold_mariano`.
        seed_losses: mean loss of each run, by forecaster; forecasters that are not trained are left out. Where one of
            them has two seeds, the variances of all differences hold both windows and seeds.
        comparisons: number of tests that the correction counts.
    """
    seed_losses = seed_losses or {}
    seeds = SeedVariance.pool(seed_losses.values())

    def share(name: str) -> float:
        runs = seed_losses.get(name, ())
        return 0.0 if not seeds.degrees_of_freedom or not runs or is_deterministic(runs) else 1 / len(runs)

    return {
        name: add_seed_variance(
            diebold_mariano(losses[name], losses[reference], overlap, comparisons),
            seeds,
            share(name) + share(reference),
            share(reference),
        )
        for name in losses
        if name != reference
    }


def count_pairs(forecasters: int) -> int:
    """The number of pairs of several forecasters, at least 1."""
    return max(1, forecasters * (forecasters - 1) // 2)


@dataclass(frozen=True, eq=False)
class DatedLosses:
    """Losses of one task.

    losses: loss at each date (n,).
    dates: forecast starts, in ascending order without duplicates (n,).
    overlap: number of neighbouring losses that share steps.
    """

    losses: np.ndarray
    dates: np.ndarray
    overlap: int


def share_period(one: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two periods share at least half of the shorter one, given their dates in ascending order."""
    shared = min(one[-1], other[-1]) - max(one[0], other[0])
    return bool(shared >= min(one[-1] - one[0], other[-1] - other[0]) / 2)


def average_by_date(series: Sequence[DatedLosses], weights: Sequence[float]) -> DatedLosses:
    """Return the weighted mean of series of losses, date by date, for a test of its mean.

    Losses on the same dates have the same shocks, so their covariance has to count. On the N dates of all series, a
    series of n losses d(t) is its mean plus N/n · (d(t) − mean) on its own dates, and its mean on the others: the mean
    and its variance remain those of the n losses.

    Args:
        series: the losses, at least one series.
        weights: one per series; they sum to 1.
    """
    dates = np.unique(np.concatenate([one.dates for one in series]))
    total = np.zeros(len(dates))
    for one, weight in zip(series, weights, strict=True):
        mean, scale = one.losses.mean(), len(dates) / len(one.losses)
        total += weight * mean
        total[np.searchsorted(dates, one.dates)] += weight * scale * (one.losses - mean)
    overlap = max(math.ceil(one.overlap * len(dates) / len(one.losses)) for one in series)
    return DatedLosses(total, dates, overlap)


def rank_errors(
    errors: Float[np.ndarray, "sets n_forecasters"], tolerance: float
) -> Float[np.ndarray, "sets n_forecasters"]:
    """Return the rank of each error in its row, 1 for the lowest; equal errors share the mean of their ranks.

    Args:
        errors: of each forecaster on each data set.
        tolerance: relative difference up to which errors count as equal.
    """
    one, other = errors[:, :, None], errors[:, None, :]
    equal = np.isclose(one, other, rtol=tolerance, atol=0)
    lower = (other < one) & ~equal
    return lower.sum(2) + (equal.sum(2) + 1) / 2
