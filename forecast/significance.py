"""Do two forecasters differ on the same test windows? The Diebold-Mariano test, made for windows that overlap."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr


@dataclass(frozen=True)
class Difference:
    """One forecaster's loss less another's: its mean, and the test that it is zero.

    p_value: two-sided; NaN where there are too few windows to say anything.
    adjusted: the p-value times the number of comparisons (Bonferroni), at most 1.
    """

    mean: float
    statistic: float
    freedom: int
    p_value: float
    adjusted: float


def diebold_mariano(first: np.ndarray, second: np.ndarray, overlap: int, comparisons: int = 1) -> Difference:
    """Test that two series of losses on the same windows, in order, have the same mean.

    With d(t) = first(t) − second(t) over windows t = 1 … n,

        Λ(j) = √(2/n) Σ d(t) cos(π j (t − ½) / n),  j = 1 … ν
        statistic = √n · mean(d) / √(mean of Λ(j)²),  against Student's t with ν degrees of freedom
        ν = min(⌊0.4 n^⅔⌋, ⌊n / (4·overlap)⌋), at least 1; no answer from fewer than 2·overlap windows, or 5

    Neighbouring windows share all but one of their `overlap` steps, so their losses are alike and n windows say less
    than n independent ones would. The cosines measure the variance of slow swings alone, those that take longer than
    the overlap, which is the variance that the mean has; it is never negative. A Bartlett kernel with a lag of the
    horizon takes a third off the variance of such a series and rejects twice too often
    (tests/test_significance.py shows it).

    Diebold and Mariano (1995); the variance and 0.4 n^⅔: Lazarus, Lewis, Stock and Watson (2018), HAR Inference:
    Recommendations for Practice; with forecasts: Coroneo and Iacone (2020), Comparing Predictive Accuracy in Small
    Samples Using Fixed-Smoothing Asymptotics. The bound by the overlap is ours.

    Args:
        first, second: losses (n,).
        overlap: steps of a window, its horizon.
        comparisons: how many such tests are made together.
    """
    difference = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    n, mean = len(difference), float(difference.mean())
    if n < 2 * overlap or n < 5:
        return Difference(mean, math.nan, 0, math.nan, math.nan)
    freedom = max(1, min(int(0.4 * n ** (2 / 3)), n // (4 * overlap)))
    j = np.arange(1, freedom + 1)
    waves = np.fft.rfft(difference, 2 * n)[j]  # Σ d(t) exp(−iπ j (t − 1) / n)
    swings = math.sqrt(2 / n) * np.real(waves * np.exp(-0.5j * math.pi * j / n))  # Λ
    variance = float(np.mean(swings**2))
    if variance == 0:
        statistic = math.copysign(math.inf, mean) if mean else 0.0
    else:
        statistic = math.sqrt(n) * mean / math.sqrt(variance)
    p_value = float(2 * stdtr(freedom, -abs(statistic)))
    return Difference(mean, statistic, freedom, p_value, min(1.0, comparisons * p_value))


def by_date(losses: np.ndarray, dates: np.ndarray) -> np.ndarray:
    """Losses of windows (n_windows,) in the order of time, one a date that is forecast first (n_dates,).

    Windows of many series that begin on one date share its shocks, so they count as one: the sum of their losses,
    scaled so that the mean over the dates is the mean over all windows.
    """
    _, date = np.unique(dates, return_inverse=True)
    sums = np.bincount(date, weights=losses)
    return sums * (len(sums) / len(losses))


def against(best: str, losses: Mapping[str, np.ndarray], overlap: int) -> dict[str, Difference]:
    """Each other series of losses less that of `best`, adjusted for their number.

    The adjustment also pays for `best` having been picked on the same windows: a p-value below 0.05 is wrongly given
    to the forecaster that is truly best with a probability of at most 5 %, for it takes one of these comparisons.
    """
    others = [name for name in losses if name != best]
    return {name: diebold_mariano(losses[name], losses[best], overlap, len(others)) for name in others}
