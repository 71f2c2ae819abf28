"""Rounding of values to a unit. Imports no torch."""

import numpy as np
from jaxtyping import Float64


def round_to_unit(
    values: Float64[np.ndarray, "*shape"], unit: Float64[np.ndarray, "*#shape"], digits: int
) -> Float64[np.ndarray, "*shape"]:
    """Round values to this many decimal digits below a unit; values without a positive unit stay as they are."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        factor = 10.0 ** (digits - np.floor(np.log10(unit)))
        return np.where(np.isfinite(factor), np.round(values * factor) / factor, values)
