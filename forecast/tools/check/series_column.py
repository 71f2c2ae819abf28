"""Facts about one column of one series."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from forecast.tools.check.gaps import runs
from forecast.tools.check.gross_errors import Isolated, find_gross_errors
from forecast.tools.check.sentinels import find_sentinel

OUTLIER = 10
"""A number is an outlier if it lies more than this many interquartile ranges beyond the quartiles."""
MIN_COUNTED = 10
"""Fewest numbers of a column that counts rows."""


@dataclass(frozen=True)
class SeriesColumn:
    """Facts about one column of one series; see `Column`."""

    minimum: float
    maximum: float
    total: float
    known: int
    zeros: int
    missing: int
    leading_missing: int
    leading_zeros: int
    longest_run: int
    run_start: int
    outliers: int
    gross_errors: Isolated
    sentinel: float | None
    counter: bool
    constant: bool
    constant_in_training: bool
    drift: float


def measure_series_column(
    values: Float[np.ndarray, " rows"], has_row: Bool[np.ndarray, " rows"], train: slice, test: slice
) -> SeriesColumn:
    """Return the facts about one column of one series."""
    known = values[~np.isnan(values)]
    before, after = (part[~np.isnan(part)] for part in (values[train], values[test]))
    run, start = find_longest_run(values)
    empty, sentinel = not len(known), find_sentinel(known)
    return SeriesColumn(
        minimum=np.inf if empty else float(known.min()),
        maximum=-np.inf if empty else float(known.max()),
        total=float(known.sum()),
        known=len(known),
        zeros=int((known == 0).sum()),
        missing=int(np.isnan(values[has_row]).sum()),
        leading_missing=_count_leading(np.isnan(values)),
        leading_zeros=_count_leading(values == 0),
        longest_run=run,
        run_start=start,
        outliers=_count_outliers(known),
        gross_errors=find_gross_errors(
            values if sentinel is None else np.where(values == sentinel, np.nan, values)
        ),
        sentinel=sentinel,
        counter=is_counter(values),
        constant=not empty and bool(known.min() == known.max()),
        constant_in_training=len(before) > 0 and bool(before.min() == before.max()),
        drift=_measure_drift(before, after),
    )


def find_longest_run(values: Float[np.ndarray, " rows"]) -> tuple[int, int]:
    """Return the length and the first row of the longest run of equal values. A missing value equals no other value."""
    starts, lengths = runs(values[1:] == values[:-1])
    if not len(starts):
        return 1, 0
    longest = int(lengths.argmax())
    return int(lengths[longest]) + 1, int(starts[longest])


def _count_leading(mask: Bool[np.ndarray, " rows"]) -> int:
    """Rows before the first one where `mask` is false."""
    return len(mask) if mask.all() else int(mask.argmin())


def _count_outliers(known: Float[np.ndarray, " known"]) -> int:
    if not len(known):
        return 0
    low, high = np.quantile(known, (0.25, 0.75))
    reach = OUTLIER * (high - low)
    return int(((known < low - reach) | (known > high + reach)).sum()) if reach > 0 else 0


def _measure_drift(before: Float[np.ndarray, " train"], after: Float[np.ndarray, " test"]) -> float:
    if not len(before) or not len(after) or before.min() == before.max():
        return np.nan
    return float((after.mean() - before.mean()) / before.std())


def numbers_rows(values: Float[np.ndarray, " rows"]) -> bool:
    """Whether a column of all series holds consecutive whole numbers, each once, as one that numbers a long file."""
    known = values[~np.isnan(values)]
    if len(known) < MIN_COUNTED or known.max() - known.min() != len(known) - 1:
        return False
    return bool((np.diff(np.sort(known)) == 1).all())


def is_counter(values: Float[np.ndarray, " rows"]) -> bool:
    """Whether each number is the one before plus 1, as in a column of row numbers.

    After a missing row, the number may be larger by up to the number of steps: rows are numbered before or after some
    are left out.
    """
    rows = np.flatnonzero(~np.isnan(values))
    steps, distances = np.diff(values[rows]), np.diff(rows)
    is_next = (steps >= 1) & (steps <= distances) & (steps == np.round(steps))
    return len(rows) >= MIN_COUNTED and bool(is_next.all())
