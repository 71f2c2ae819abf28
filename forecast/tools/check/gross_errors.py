"""Numbers so far from all others that they are probably errors: a rain of 9,831 mm, a load of 0 among 32,000."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from forecast.data import Panel

MIN_DISTANCE = 10
"""Least distance of a gross error from the range of the other numbers, in lengths of this range.

The highest spike of the electricity prices that are published as EPF lies 2.6 such lengths away, and it is true.
"""
MAX_GROSS_ERRORS = 3
"""Largest number of gross errors of a series: more of them are no isolated errors."""
ZERO_DISTANCE, ZERO_GAPS = 0.25, 5
"""Least distance of isolated zeros from the other numbers: in lengths of the range of these, and in their largest gap.

Zeros stand for missing values more often than other numbers. The counts 1, 2, 3 and 4 are one gap away from zero.
"""
MIN_NUMBERS = 50
"""Fewest numbers of a series in which gross errors are sought."""


@dataclass(frozen=True)
class GrossError:
    """A number that is probably an error; all numbers of its series that are not lie from `low` to `high`."""

    series: str  # empty if the source has no ids
    date: pd.Timestamp
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Isolated:
    """Rows of a series that hold gross errors; its other numbers lie from `low` to `high`."""

    rows: tuple[int, ...] = ()
    low: float = np.nan
    high: float = np.nan


def find_gross_errors(values: Float[np.ndarray, " rows"]) -> Isolated:
    """The rows of at most `MAX_GROSS_ERRORS` numbers that lie far from all others; NaN does not count.

    They lie `MIN_DISTANCE` from all others, or are zero and lie `ZERO_DISTANCE` from them.
    """
    rows = np.flatnonzero(~np.isnan(values))
    if len(rows) < MIN_NUMBERS:
        return Isolated()
    known = values[rows]
    far = np.argpartition(-np.abs(known - np.median(known)), MAX_GROSS_ERRORS)[: MAX_GROSS_ERRORS + 1]
    far = far[np.argsort(-np.abs(known[far] - np.median(known)), kind="stable")]
    for count in range(MAX_GROSS_ERRORS, 0, -1):
        rest = np.delete(known, far[:count])
        low, high = rest.min(), rest.max()
        distance = np.maximum(low - known[far[:count]], known[far[:count]] - high).min()
        if high > low and distance > MIN_DISTANCE * (high - low):
            return Isolated(tuple(sorted(rows[far[:count]].tolist())), float(low), float(high))
    zeros = known == 0
    rest = np.sort(known[~zeros])
    if 0 < zeros.sum() <= MAX_GROSS_ERRORS and rest[0] * rest[-1] > 0:
        distance, extent = np.abs(rest).min(), rest[-1] - rest[0]
        if distance > max(ZERO_DISTANCE * extent, ZERO_GAPS * np.diff(rest).max()):
            return Isolated(tuple(rows[zeros].tolist()), float(rest[0]), float(rest[-1]))
    return Isolated()


def name_gross_errors(
    panel: Panel, column: Float[np.ndarray, " rows"], by_series: Sequence[Isolated]
) -> tuple[GrossError, ...]:
    """The first `MAX_GROSS_ERRORS` gross errors of a column of all series."""
    found: list[GrossError] = []
    for series, isolated in enumerate(by_series):
        if isolated.rows and len(found) < MAX_GROSS_ERRORS:
            rows = int(panel.starts[series]) + np.array(isolated.rows)
            found += [
                GrossError(str(panel.ids[series]), date, value, isolated.low, isolated.high)
                for date, value in zip(panel.local_dates(rows), column[rows].tolist(), strict=True)
            ]
    return tuple(found[:MAX_GROSS_ERRORS])
