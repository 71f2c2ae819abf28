"""Columns that follow from others: copies, and sums and differences."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float64

from forecast.system.formatting import plural
from forecast.tools.check.facts import MIN_NUMBERS

MAX_SHIFT = 48  # largest number of rows by which a copy is sought to be shifted
MAX_ROWS, MAX_COLUMNS = 5_000, 100  # newest rows, and first columns, that are compared
ROUND_OFF = 1e-4  # largest 1 − correlation of a copy, of the changes from row to row: rounded numbers are copies too
MIN_MOVES, TYPICAL_ERROR = 10, 0.05
"""Fewest changes of a copy from row to row, and its largest error beside its deviation, medians over rows.

One event of two columns, or shared codes of missing values, can decide their correlation, but not these.
"""
SUM_ERROR = 0.01
"""Largest error of a sum of columns, of the changes from row to row, beside the norm of these: parts may be rounded."""


@dataclass(frozen=True)
class Copy:
    """A column with `column[t] = source[t − shift]`, up to a factor. With a negative shift it holds later rows."""

    name: str
    source: str
    shift: int = 0

    @property
    def relation(self) -> str:
        """The relation of the column to its source, in words."""
        rows = plural(abs(self.shift), "row")
        if self.shift < 0:
            return f"holds {self.source} of {rows} later"
        return f"repeats {self.source}" + (f" {rows} earlier" if self.shift else "")


def find_copies(
    values: Float64[np.ndarray, "rows columns"], names: Sequence[str], target: str | None = None
) -> list[Copy]:
    """The columns that repeat an earlier column of the table, or `target`, each with the smallest shift.

    Changes from row to row are compared, because levels of slow columns are alike at any small shift.
    """
    values = values[-MAX_ROWS:, :MAX_COLUMNS]
    changes = np.diff(values, axis=0)
    if len(changes) < MIN_NUMBERS:
        return []
    changes = changes - changes.mean(0)
    found: dict[str, Copy] = {}
    for shift in sorted(range(-MAX_SHIFT, MAX_SHIFT + 1), key=abs):
        size = len(changes) - abs(shift)
        if size < MIN_NUMBERS:
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
    unusual = (copy != pd.Series(copy).mode()[0]) | (source != pd.Series(source).mode()[0])
    if np.count_nonzero(np.diff(copy)) < MIN_MOVES or not unusual.any():
        return False
    error = np.median(np.abs(difference - np.median(difference))[unusual])
    deviation = np.median(np.abs(copy[unusual] - np.median(copy[unusual])))  # 0 of an indicator
    return bool(error <= TYPICAL_ERROR * deviation + 1e-9 * np.abs(copy).max())


@dataclass(frozen=True)
class Sum:
    """A column that equals other columns, each added (`signs` 1) or subtracted (−1), up to a constant."""

    name: str
    parts: tuple[str, ...]
    signs: tuple[int, ...]

    @property
    def relation(self) -> str:
        """The equation in words, such as `total = a + b`."""
        terms = "".join(
            f" {'+' if sign > 0 else '−'} {part}" for part, sign in zip(self.parts, self.signs, strict=True)
        )
        return f"{self.name} = {terms.removeprefix(' + ').strip()}"


def find_sums(values: Float64[np.ndarray, "rows columns"], names: Sequence[str]) -> list[Sum]:
    """The columns that are sums or differences of others, of which none is a copy or constant.

    Changes from row to row are compared, as for copies. A column is examined with the columns before it that are no
    sums (Gram-Schmidt); the total is then the column on one side of the equation alone, if there is one.
    """
    changes = np.diff(values[-MAX_ROWS:, :MAX_COLUMNS], axis=0)
    basis: list[int] = []
    space = np.empty((len(changes), 0))
    found = []
    for i, name in enumerate(names[:MAX_COLUMNS]):
        column = changes[:, i]
        rest = column - space @ (space.T @ column)
        rest -= space @ (space.T @ rest)  # again, for the rounding errors
        size = float(np.linalg.norm(column))
        if np.linalg.norm(rest) > SUM_ERROR * size and len(changes) >= MIN_NUMBERS + len(basis):
            basis.append(i)
            space = np.column_stack([space, rest / np.linalg.norm(rest)])
            continue
        signs = np.rint(np.linalg.lstsq(changes[:, basis], column, rcond=None)[0]).astype(int)
        error = np.linalg.norm(column - changes[:, basis] @ signs)
        if error <= SUM_ERROR * size and np.abs(signs).max(initial=0) == 1 and np.count_nonzero(signs) > 1:
            terms = {names[basis[k]]: int(signs[k]) for k in np.flatnonzero(signs)} | {name: -1}
            lone = [[each for each, sign in terms.items() if sign == side] for side in (-1, 1)]
            total = next((side[0] for side in lone if len(side) == 1), name)
            parts = {part: -terms[total] * sign for part, sign in terms.items() if part != total}
            found.append(Sum(total, tuple(parts), tuple(parts.values())))
    return found
