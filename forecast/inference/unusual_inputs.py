"""Warnings of inputs that are unlike the training data. Imports no torch."""

import warnings
from collections.abc import Container, Sequence

import numpy as np
from jaxtyping import Float, Float64, Int64

from forecast.system.formatting import shorten

Extremes = Float64[np.ndarray, "series columns"]

FAR = {"standard": (-10.0, 10.0), "robust": (-10.0, 10.0), "minmax": (-1.0, 2.0), "none": (-np.inf, np.inf)}
"""Scaled values by `data.scaler` beyond which an input is far outside the training rows.

They are their mean ± 10 standard deviations, their median ± 10 interquartile ranges, and their minimum and maximum
by the distance between these. An hourly load stays within 5 standard deviations, spikes of prices reach 10 and more.
"""
SERIES_AT_ONCE = 512


def find_extremes(
    values: Float[np.ndarray, "rows columns"], first: Int64[np.ndarray, " series"], length: int
) -> tuple[Extremes, Extremes]:
    """The lowest and the highest value of each window of rows; NaN where all are missing."""
    lowest, highest = [np.empty((0, values.shape[1]))], [np.empty((0, values.shape[1]))]
    for begin in range(0, len(first), SERIES_AT_ONCE):
        windows = np.asarray(
            values[first[begin : begin + SERIES_AT_ONCE, None] + np.arange(length)], np.float64
        )
        lowest.append(np.fmin.reduce(windows, axis=1))
        highest.append(np.fmax.reduce(windows, axis=1))
    return np.concatenate(lowest), np.concatenate(highest)


def warn_of_far_values(
    columns: Sequence[str],
    read: Container[str],
    extremes: tuple[Extremes, Extremes],
    limits: tuple[Extremes, Extremes],
) -> None:
    """Warn of the columns with a value beyond `limits`, see `FAR`, among those that are read."""
    (lowest, highest), (low, high) = extremes, limits
    is_far, found = (lowest < low) | (highest > high), []
    for i, name in enumerate(columns):
        if name in read and (series := np.flatnonzero(is_far[:, i])).size:
            first = series[0]
            value = highest[first, i] if highest[first, i] > high[first, i] else lowest[first, i]
            expected = f"expected {low[first, i]:.4g} to {high[first, i]:.4g}"
            found.append(f"{name} is {value:.6g}{count_series(len(series), len(lowest))}, {expected}")
    if found:
        warnings.warn(
            f"far outside the training data, so that the forecast extrapolates: {shorten(found, 5)}",
            stacklevel=3,
        )


def warn_of_constant_values(
    columns: Sequence[str], read: Container[str], extremes: tuple[Extremes, Extremes], seq_len: int
) -> None:
    """Warn of the columns that have one value in all the rows of a window, among those that are read."""
    lowest, highest = extremes
    found = []
    for i, name in enumerate(columns):
        if name in read and (series := np.flatnonzero(lowest[:, i] == highest[:, i])).size and seq_len > 1:
            found.append(f"{name} is {lowest[series[0], i]:.6g}{count_series(len(series), len(lowest))}")
    if found:
        warnings.warn(
            f"constant in the {seq_len} rows before the forecast: {shorten(found, 5)}", stacklevel=3
        )


def count_series(some: int, of: int) -> str:
    """The number of series that a warning is about, in words; empty for a table of one series."""
    return f" in {some:,} of {of:,} series" if of > 1 else ""
