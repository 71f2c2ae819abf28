"""Numbers that stand for missing values, such as −9999."""

import numpy as np
from jaxtyping import Float

SENTINEL_COUNT = 3
"""A code for a missing value comes at least this often."""


def find_sentinel(known: Float[np.ndarray, " known"]) -> float | None:
    """The lowest or highest number if it is a probable code for a missing value, such as −9999.

    It must be a whole number other than 0 that comes at least `SENTINEL_COUNT` times, and must lie farther from all
    other numbers than these lie from each other.
    """
    if not len(known):
        return None
    for extreme in (float(known.min()), float(known.max())):
        rest = known[known != extreme]
        if (
            extreme == 0
            or not len(rest)
            or not extreme.is_integer()
            or len(known) - len(rest) < SENTINEL_COUNT
        ):
            continue
        distance = min(abs(extreme - rest.min()), abs(extreme - rest.max()))
        if distance > rest.max() - rest.min() > 0:
            return extreme
    return None
