"""Static features of a series: numbers standardised over the series, texts as indicators."""

import math
import warnings
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float32, Float64

from forecast.data.categories import find_indicators
from forecast.data.files.cells import quote
from forecast.system.errors import ConfigError, DataError

MISSING = "missing"
"""The category of the series in which a column of texts is empty."""

MAX_FEATURES = 1_000
"""Largest number of features. A text that differs in every series says nothing that a model could use for new ones."""

Encoding = dict[str, Any]
"""By column: the texts that have a feature each, or the mean and the standard deviation of the numbers.

If all numbers are equal, the standard deviation is infinite, so that a different number in another file becomes 0.
"""


def fit_static(where: str, static: pd.DataFrame) -> Encoding:
    """Return the encoding of the static covariates. Warns of missing texts, which are a category.

    Raises:
        ConfigError: the texts need too many features.
        DataError: a number is missing.
    """
    encoding: Encoding = {}
    for name, column in static.items():
        if pd.api.types.is_numeric_dtype(column):
            numbers = _read_numbers(where, column)
            deviation = float(numbers.std())
            if not deviation:
                warnings.warn(
                    f"data.static_covariates: {quote(name)} is the same in every series, so it tells a model nothing",
                    stacklevel=2,
                )
            encoding[str(name)] = {"mean": float(numbers.mean()), "deviation": deviation or math.inf}
        else:
            texts, n_missing = {str(text) for text in column.dropna().unique()}, int(column.isna().sum())
            if n_missing:
                texts.add(MISSING)
                warnings.warn(
                    f"{where}: static covariate {quote(name)} is empty in {n_missing:,} of {len(column):,} series, "
                    f"which have the category {quote(MISSING)}",
                    stacklevel=2,
                )
            encoding[str(name)] = {"texts": sorted(texts)}
    width = len(static_feature_names(encoding))
    if width > MAX_FEATURES:
        widest = max(encoding, key=lambda name: len(encoding[name].get("texts", ())))
        raise ConfigError(
            f"data.static_covariates: {width:,} features, with one for each text of {widest!r}, and at most "
            f"{MAX_FEATURES:,} are read: leave it out"
        )
    return encoding


def static_feature_names(encoding: Encoding) -> list[str]:
    return [
        f"{name}={text}" if text else name
        for name, how in encoding.items()
        for text in how.get("texts", [""])
    ]


def encode_static(
    where: str, static: pd.DataFrame, encoding: Encoding
) -> Float32[np.ndarray, "series n_static"]:
    """The features of each series, in the order of `static_feature_names`; a text that is not known has none.

    Raises DataError for a number that is missing, and for text where the model was trained on numbers.
    """
    features = []
    for name, how in encoding.items():
        column = static[name]
        if "texts" in how:
            codes, texts = pd.factorize(column)
            found = find_indicators(where, name, codes, pd.Index(texts), how["texts"])
            if MISSING in how["texts"]:
                found[:, how["texts"].index(MISSING)] |= codes < 0
            features += list(found.T)
        elif pd.api.types.is_numeric_dtype(column):
            features.append((_read_numbers(where, pd.Series(column)) - how["mean"]) / how["deviation"])
        else:
            raise DataError(
                f"{where}: column {quote(name)} holds text, and numbers where the model was trained"
            )
    if not features:
        return np.empty((len(static), 0), dtype=np.float32)
    return np.stack(features, axis=1).astype(np.float32)


def _read_numbers(where: str, column: pd.Series) -> Float64[np.ndarray, " series"]:
    """A column of numbers. Raises DataError for the first series that has none."""
    numbers = column.to_numpy(dtype=np.float64)
    missing = np.isnan(numbers)
    if missing.any():
        series = quote(column.index[int(missing.argmax())])
        raise DataError(
            f"{where}: static covariate {quote(column.name)} has no number for series {series}: add one, or leave the "
            "column out; only text may be missing"
        )
    return numbers
