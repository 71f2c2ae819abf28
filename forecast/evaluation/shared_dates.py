"""Losses of several tasks whose test periods overlap, as one series by date."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


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
