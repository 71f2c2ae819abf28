"""Diebold-Mariano test of equal forecast accuracy for overlapping test windows."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr


@dataclass(frozen=True)
class LossDifference:
    """Loss of one forecaster minus the loss of another, and the test that its mean is zero.

    mean: mean difference over the test windows.
    statistic, degrees_of_freedom: of the test; NaN and 0 where there are too few windows.
    p_value: two-sided p-value; NaN where there are too few windows.
    adjusted_p_value: p-value times the number of comparisons (Bonferroni), at most 1.
    """

    mean: float
    statistic: float
    degrees_of_freedom: int
    p_value: float
    adjusted_p_value: float


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
    difference = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    n, mean = len(difference), float(difference.mean())
    if n < 2 * overlap or n < 5:
        return LossDifference(mean, math.nan, 0, math.nan, math.nan)
    degrees = max(1, min(int(0.4 * n ** (2 / 3)), n // (4 * overlap)))
    j = np.arange(1, degrees + 1)
    coefficients = np.fft.rfft(difference, 2 * n)[j]  # Σ d(t) exp(−iπ j (t − 1) / n)
    cosines = math.sqrt(2 / n) * np.real(coefficients * np.exp(-0.5j * math.pi * j / n))  # Λ
    variance = float(np.mean(cosines**2))
    if variance == 0:
        statistic = math.copysign(math.inf, mean) if mean else 0.0
    else:
        statistic = math.sqrt(n) * mean / math.sqrt(variance)
    p_value = float(2 * stdtr(degrees, -abs(statistic)))
    return LossDifference(mean, statistic, degrees, p_value, min(1.0, comparisons * p_value))


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


def compare_to_best(best: str, losses: Mapping[str, np.ndarray], overlap: int) -> dict[str, LossDifference]:
    """Test the losses of every other forecaster against those of `best`, with a Bonferroni correction.

    The correction also covers the choice of `best` on the same windows. If `best` is not the truly best forecaster,
    the truly best one is among the others, and only its comparison can wrongly call it worse. An adjusted p-value
    below 0.05 calls the truly best forecaster worse with probability 5 % at most.

    Args:
        best: name of the forecaster with the lowest mean loss.
        losses: loss of each window by forecaster, in chronological order, each (n,).
        overlap: see `diebold_mariano`.
    """
    others = [name for name in losses if name != best]
    return {name: diebold_mariano(losses[name], losses[best], overlap, len(others)) for name in others}
