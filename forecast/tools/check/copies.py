"""Columns that repeat another column, in the same rows or some rows earlier or later, or are a function of it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from forecast.system.formatting import plural

MAX_SHIFT = 48
"""Largest number of rows by which a copy is sought to be shifted."""
MAX_ROWS, MAX_COLUMNS = 5_000, 100
"""Newest rows, and first columns, that are compared."""
MIN_ROWS = 50
"""Fewest rows in which copies are sought."""
BOTH_WAYS = 0.05
"""Smallest share of changes up, and of changes down, of a column of which others can be functions."""
MIN_STEPS = 0.1
"""Smallest share of different values of a source at which a function of it differs, which rounded numbers need not."""
EXCEPTIONS = 0.01
"""Largest share of rows that do not follow a function: values of gaps are interpolated."""
ROUND_OFF = 1e-4
"""Largest 1 − correlation of a copy, of the changes from row to row: rounded numbers are copies too."""


@dataclass(frozen=True)
class Copy:
    """A column with `column[t] = source[t − shift]`, up to a factor. With a negative shift it holds later rows.

    If `is_function`, the column is another function of its source, which never falls (or never rises).
    """

    name: str
    source: str
    shift: int
    is_function: bool = False

    @property
    def relation(self) -> str:
        """The relation of the column to its source, in words."""
        if self.is_function:
            return f"is a function of {self.source}"
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
    changes = np.diff(values[-MAX_ROWS:, :MAX_COLUMNS], axis=0)
    names = names[: changes.shape[1]]
    if len(changes) < MIN_ROWS:
        return []
    changes = changes - changes.mean(0)
    found: dict[str, Copy] = {}
    for shift in sorted(range(-MAX_SHIFT, MAX_SHIFT + 1), key=abs):
        if len(changes) - abs(shift) < MIN_ROWS:
            continue
        later, earlier = changes[max(shift, 0) :], changes[max(-shift, 0) :]
        size = min(len(later), len(earlier))
        later, earlier = later[:size], earlier[:size]
        norms = np.linalg.norm(later, axis=0)[:, None] * np.linalg.norm(earlier, axis=0)
        correlation = np.abs(later.T @ earlier) / np.where(norms > 0, norms, np.inf)
        for copy, source in np.argwhere(correlation > 1 - ROUND_OFF).tolist():
            if may_copy(copy, source, names, target):
                found.setdefault(names[copy], Copy(names[copy], names[source], shift))
    return list(found.values())


def find_copies_and_functions(
    values: Float64[np.ndarray, "rows columns"], names: Sequence[str], target: str | None = None
) -> list[Copy]:
    """The columns that repeat another one, then other functions of one column."""
    copies = find_copies(values, names, target)
    known = {copy.name for copy in copies}
    return [*copies, *(one for one in find_functions(values, names, target) if one.name not in known)]


def may_copy(copy: int, source: int, names: Sequence[str], target: str | None) -> bool:
    """Whether one of two columns is named as the copy of the other, which is the target or comes earlier."""
    return copy != source and (names[source] == target or (source < copy and names[copy] != target))


def find_functions(
    values: Float64[np.ndarray, "rows columns"], names: Sequence[str], target: str | None = None
) -> list[Copy]:
    """The columns that are functions of an earlier column of the table, or of `target`, such as its square root.

    The function never falls (or never rises), so both columns have the same order, or the reverse one. Columns that
    hardly ever rise or fall are left out: all columns that only rise over time have the same order.
    """
    values = values[-MAX_ROWS:, :MAX_COLUMNS]
    found: dict[str, Copy] = {}
    for source in range(values.shape[1]):
        changes = np.diff(values[:, source])
        steps = np.diff(values[np.argsort(values[:, source], kind="stable")], axis=0)
        differs = steps[:, source] > 0
        if differs.sum() < MIN_ROWS or min((changes > 0).mean(), (changes < 0).mean()) < BOTH_WAYS:
            continue
        shares = np.sort([(steps[differs] > 0).mean(0), (steps[differs] < 0).mean(0)], axis=0)
        exceptions = shares[0] + (steps[~differs] != 0).sum(0) / len(steps)
        for copy in np.flatnonzero((shares[1] >= MIN_STEPS) & (exceptions <= EXCEPTIONS)).tolist():
            if may_copy(copy, source, names, target):
                found.setdefault(names[copy], Copy(names[copy], names[source], 0, is_function=True))
    return list(found.values())
