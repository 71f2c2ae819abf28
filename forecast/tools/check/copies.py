"""Columns that repeat another one, or are sums of others."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from forecast.system.formatting import plural
from forecast.tools.check.columns import find_gross_errors

MAX_SHIFT = 48
"""Largest number of rows by which a copy is sought to be shifted."""
MAX_ROWS, MAX_COLUMNS = 5_000, 100
"""Newest rows, and first columns, that are compared."""
MIN_ROWS = 50
"""Fewest rows in which copies are sought."""
EXCEPTIONS = 0.01
"""Largest share of rows that do not follow a sum: values of gaps are interpolated."""
ROUND_OFF = 1e-4
"""Largest 1 − correlation of a copy, of the changes from row to row: rounded numbers are copies too."""
MIN_MOVES, TYPICAL_ERROR = 10, 0.05
"""Fewest changes of a copy from row to row, and its largest error beside its deviation, medians over rows.

One event of two columns, or shared codes of missing values, can decide their correlation, but not these.
"""
MAX_DECIMALS = 6
"""Most decimals to which numbers that sums are sought among may be rounded."""
WHOLE = 0.05
"""Largest distance of the coefficients of a sum from 0 and 1, by least squares on rounded numbers."""


@dataclass(frozen=True)
class Copy:
    """A column with `column[t] = source[t − shift]`, up to a factor. With a negative shift it holds later rows.

    If `is_sum`, it is the sum of several columns, and `source` names them all: `a + b`.
    """

    name: str
    source: str
    shift: int = 0
    is_sum: bool = False

    @property
    def relation(self) -> str:
        """The relation of the column to its source, in words."""
        if self.is_sum:
            return f"is the sum {self.source}"
        rows = plural(abs(self.shift), "row")
        if self.shift < 0:
            return f"holds {self.source} of {rows} later"
        return f"repeats {self.source}" + (f" {rows} earlier" if self.shift else "")


def find_copies_and_sums(
    values: Float64[np.ndarray, "rows columns"], names: Sequence[str], target: str | None
) -> list[Copy]:
    """The columns that repeat another one, then the other columns that are sums of several."""
    found = find_copies(values, names, target)
    known = {copy.name for copy in found}
    rest = [i for i, name in enumerate(names) if name not in known]
    return found + find_sums(values[:, rest], [names[i] for i in rest])


def find_copies(
    values: Float64[np.ndarray, "rows columns"], names: Sequence[str], target: str | None = None
) -> list[Copy]:
    """The columns that repeat an earlier column of the table, or `target`, each with the smallest shift.

    Changes from row to row are compared, because levels of slow columns are alike at any small shift.
    """
    values = values[-MAX_ROWS:, :MAX_COLUMNS]
    changes = np.diff(values, axis=0)
    if len(changes) < MIN_ROWS:
        return []
    changes = changes - changes.mean(0)
    found: dict[str, Copy] = {}
    for shift in sorted(range(-MAX_SHIFT, MAX_SHIFT + 1), key=abs):
        size = len(changes) - abs(shift)
        if size < MIN_ROWS:
            continue
        later, earlier = changes[max(shift, 0) :][:size], changes[max(-shift, 0) :][:size]
        norms = np.linalg.norm(later, axis=0)[:, None] * np.linalg.norm(earlier, axis=0)
        correlation = np.abs(later.T @ earlier) / np.where(norms > 0, norms, np.inf)
        for i, j in np.argwhere(correlation > 1 - ROUND_OFF).tolist():
            # of two columns, the one that comes later and is not the target is the copy
            is_copy = i != j and (names[j] == target or (j < i and names[i] != target))
            if is_copy and names[i] not in found:
                copy, source = values[max(shift, 0) :, i][: size + 1], values[max(-shift, 0) :, j][: size + 1]
                factor = later[:, i] @ earlier[:, j] / np.square(earlier[:, j]).sum()
                if is_equal_in_most_rows(copy, factor * source):
                    found[names[i]] = Copy(names[i], names[j], shift)
    return list(found.values())


def is_equal_in_most_rows(copy: Float64[np.ndarray, " rows"], source: Float64[np.ndarray, " rows"]) -> bool:
    """Whether a column equals another one, up to a constant, beyond the rows with the commonest value of both."""
    difference = copy - source
    unusual = (copy != find_commonest(copy)) | (source != find_commonest(source))
    if np.count_nonzero(np.diff(copy)) < MIN_MOVES or not unusual.any():
        return False
    error = np.median(np.abs(difference - np.median(difference))[unusual])
    deviation = np.median(np.abs(copy[unusual] - np.median(copy[unusual])))  # 0 of an indicator
    return bool(error <= TYPICAL_ERROR * deviation + 1e-9 * np.abs(copy).max())


def find_commonest(values: Float64[np.ndarray, " rows"]) -> float:
    """The value of most rows; of several, the lowest."""
    numbers, counts = np.unique(values, return_counts=True)
    return float(numbers[counts.argmax()])


def find_sums(values: Float64[np.ndarray, "rows columns"], names: Sequence[str]) -> list[Copy]:
    """The columns that are the sum of two or more others.

    A sum of rounded numbers may differ from the rounded sum by half a unit of the last decimal for each number.
    """
    values = values[-MAX_ROWS:, :MAX_COLUMNS]
    filled = np.flatnonzero(np.isfinite(values).any(0))
    values, names = values[:, filled], [names[i] for i in filled.tolist()]
    wrong = [row for column in values.T for row in find_gross_errors(column)[2]]  # they would decide the fit
    values = np.delete(values, wrong, axis=0)
    values = values[np.isfinite(values).all(1)]
    if len(values) < MIN_ROWS:
        return []
    scale = np.linalg.norm(values, axis=0)
    # the triangular factor has the least-squares coefficients of all rows
    factor = np.linalg.qr(values / np.where(scale > 0, scale, 1.0), mode="r")
    units, deviations, found = np.array([find_unit(column) for column in values.T]), values.std(0), []
    for total in range(values.shape[1]):
        parts = find_parts(factor, scale, total)  # type: ignore[reportArgumentType]
        round_off = units[[total, *parts]].sum() / 2 + 1e-9 * np.abs(values[:, total]).max()
        if not parts or round_off > WHOLE * deviations[[total, *parts]].min():
            continue
        error = np.abs(values[:, parts].sum(1) - values[:, total])
        if (error > round_off).mean() <= EXCEPTIONS:
            found.append(Copy(names[total], " + ".join(names[i] for i in parts), is_sum=True))
    return found


def find_parts(
    factor: Float64[np.ndarray, "columns columns"], scale: Float64[np.ndarray, " columns"], total: int
) -> list[int]:
    """The columns whose coefficients in a least-squares fit of a column are all 1; none if there are not two of them.

    Columns with the lowest coefficients are left out until the others have 1. Where subtotals are there too, several
    sums fit, of which the fit is a mixture at first.
    """
    parts = np.array([i for i in range(len(scale)) if i != total and scale[i] > 0])
    while len(parts) >= 2:
        weights = np.linalg.lstsq(factor[:, parts], factor[:, total], rcond=None)[0]
        if np.linalg.norm(factor[:, parts] @ weights - factor[:, total]) > WHOLE:
            break
        weights *= scale[total] / scale[parts]
        if np.abs(weights - 1).max() <= WHOLE:
            return parts.tolist()
        kept = weights > WHOLE
        parts = parts[kept] if not kept.all() else np.delete(parts, weights.argmin())
    return []


def find_unit(column: Float64[np.ndarray, " rows"]) -> float:
    """The unit of the last decimal of rounded numbers; 0 for numbers of more decimals."""
    for decimals in range(MAX_DECIMALS + 1):
        if np.allclose(column, np.round(column, decimals), rtol=1e-12, atol=0):
            return 10.0**-decimals
    return 0.0
