"""Static features of a series: numbers standardised over the series, texts as indicators."""

import math
import warnings
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float32

from forecast.data.categories import find_indicators
from forecast.data.files.cells import quote
from forecast.system.errors import ConfigError, DataError

MAX_FEATURES = 1_000
"""Largest number of features. A text that differs in every series says nothing that a model could use for new ones."""

Encoding = dict[str, Any]
"""By column: the texts that have a feature each, or the mean and the standard deviation of the numbers.

If all numbers are equal, the standard deviation is infinite, so that a different number in another file becomes 0.
"""


def fit_static(static: pd.DataFrame) -> Encoding:
    """Return the encoding of the static covariates. Raises ConfigError if the texts need too many features."""
    encoding: Encoding = {}
    for name, column in static.items():
        if pd.api.types.is_numeric_dtype(column):
            numbers = column.to_numpy(dtype=np.float64)
            deviation = float(numbers.std())
            if not deviation:
                warnings.warn(
                    f"data.static_covariates: {quote(name)} is the same in every series, so it tells a model nothing",
                    stacklevel=2,
                )
            encoding[str(name)] = {"mean": float(numbers.mean()), "deviation": deviation or math.inf}
        else:
            encoding[str(name)] = {"texts": sorted(map(str, column.unique()))}
    width = len(feature_names(encoding))
    if width > MAX_FEATURES:
        widest = max(encoding, key=lambda name: len(encoding[name].get("texts", ())))
        raise ConfigError(
            f"data.static_covariates: {width:,} features, with one for each text of {widest!r}, and at most "
            f"{MAX_FEATURES:,} are read: leave it out"
        )
    return encoding


def feature_names(encoding: Encoding) -> list[str]:
    return [
        f"{name}={text}" if text else name
        for name, how in encoding.items()
        for text in how.get("texts", [""])
    ]


def encode_static(
    where: str, static: pd.DataFrame, encoding: Encoding
) -> Float32[np.ndarray, "series n_static"]:
    """The features of each series, in the order of `feature_names`; a text that is not known has none."""
    features = []
    for name, how in encoding.items():
        column = static[name]
        if "texts" in how:
            is_numeric = pd.api.types.is_numeric_dtype(column)
            codes, texts = pd.factorize(column if is_numeric else column.astype(str))
            found = find_indicators(where, name, codes, pd.Index(texts), how["texts"])
            features += list(found.T)
        elif pd.api.types.is_numeric_dtype(column):
            features.append((column.to_numpy(dtype=np.float64) - how["mean"]) / how["deviation"])
        else:
            raise DataError(
                f"{where}: column {quote(name)} holds text, and numbers where the model was trained"
            )
    if not features:
        return np.empty((len(static), 0), dtype=np.float32)
    return np.stack(features, axis=1).astype(np.float32)
