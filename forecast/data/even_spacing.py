"""Evenly spaced samples: windows to fit or measure on, columns to draw."""

import numpy as np
from jaxtyping import Int64


def choose_evenly_spaced(count: int, most: int) -> Int64[np.ndarray, " chosen"]:
    """At most `most` of the numbers 0 … count − 1, evenly spread: the first, and of several the last, among them."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(np.int64)
