"""Columns that repeat another column, in the same rows or some rows earlier or later."""

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
ROUND_OFF = 1e-4
"""Largest 1 − correlation of a copy, of the changes from row to row: rounded numbers are copies too."""


@dataclass(frozen=True)
class Copy:
    """A column with `column[t] = source[t − shift]`, up to a factor. With a negative shift it holds later rows."""

    name: str
    source: str
    shift: int

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
            if copy != source and (names[source] == target or (source < copy and names[copy] != target)):
                found.setdefault(names[copy], Copy(names[copy], names[source], shift))
    return list(found.values())
