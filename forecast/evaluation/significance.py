"""Test of equal forecast accuracy over overlapping test windows (Diebold and Mariano) and over seeds."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from forecast.evaluation.loss_difference import LossDifference, add_variances

ROUND_OFF = 1e-6
"""Relative difference of losses that comes from float32 arithmetic."""


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
    third and rejects twice too often (tests/unit/evaluation/test_significance.py measures this).

    Sources: Diebold and Mariano (1995), Comparing Predictive Accuracy, for the test. Lazarus, Lewis, Stock and Watson
    (2018), HAR Inference: Recommendations for Practice, for the variance and 0.4 n^⅔. Coroneo and Iacone (2020),
    Comparing Predictive Accuracy in Small Samples Using Fixed-Smoothing Asymptotics, for its use with forecasts. The
    bound n / (4·overlap) is specific to this project.

    Args:
        first, second: losses in chronological order (n,).
        overlap: number of neighbouring windows that share steps; with stride 1, the horizon.
        comparisons: number of tests made together, for the Bonferroni correction.
    """
    second = np.asarray(second, dtype=np.float64)
    difference = np.asarray(first, dtype=np.float64) - second
    n, mean, base = len(difference), float(difference.mean()), float(second.mean())
    degrees = count_cosines(n, overlap)
    if not degrees:
        return LossDifference(mean, math.nan, 0.0, comparisons, base, independent=n / overlap)
    cosines, of_base = (find_cosines(series, degrees) for series in (difference, second))
    variances = [float(np.mean(product)) / n for product in (cosines**2, of_base**2, cosines * of_base)]
    return LossDifference(
        mean, variances[0], float(degrees), comparisons, base, *variances[1:], independent=n / overlap
    )


def find_cosines(series: np.ndarray, count: int) -> np.ndarray:
    """Λ(1) … Λ(count) of `diebold_mariano` for a series d(t) (n,)."""
    n, j = len(series), np.arange(1, count + 1)
    coefficients = np.fft.rfft(series, 2 * n)[j]  # Σ d(t) exp(−iπ j (t − 1) / n)
    return math.sqrt(2 / n) * np.real(coefficients * np.exp(-0.5j * math.pi * j / n))


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
