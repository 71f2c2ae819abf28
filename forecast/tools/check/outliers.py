"""Targets with outliers, for which a transform may help."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64

from forecast.data import DataModule
from forecast.system.formatting import shorten
from forecast.tools.check.settings import Setting

HEAVY_TAILS = 10.0
"""Excess kurtosis from which a transform is suggested: those of hourly loads and of ETT are lower, of prices higher."""


def suggest_transform(
    train: Sequence[Float64[np.ndarray, "_ columns"]], targets: Sequence[str], data: DataModule
) -> list[Setting]:
    """Suggest data.transform=auto for targets with outliers, of which the squared error would learn most.

    `train` has the training rows of the targets, of one or several series.
    """
    kurtosis = (
        np.mean([_excess_kurtosis(rows) for rows in train if len(rows)], axis=0) if train else np.zeros(0)
    )
    names = [name for name, size in zip(targets, np.atleast_1d(kurtosis), strict=False) if size > HEAVY_TAILS]
    if not names or data.options.transform is not None:
        return []
    listed = shorten(names, 3)
    return [
        Setting(
            "data.transform", "auto", f"outliers in {listed}; kept if validation errors are lower with it"
        )
    ]


def _excess_kurtosis(rows: Float64[np.ndarray, "rows columns"]) -> Float64[np.ndarray, " columns"]:
    """0 for normal values, and for columns of at most two values, such as the days on which something happened."""
    centered = rows - rows.mean(0)
    variance = (centered**2).mean(0)
    has_two_values = ((rows == rows.min(0)) | (rows == rows.max(0))).all(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(has_two_values, 0.0, (centered**4).mean(0) / variance**2 - 3)
