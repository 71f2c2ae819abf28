"""Covariates: static ones, categories, and the steps for which future ones are known."""

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float32, Float64

from forecast.data.files.text import BOOLEANS, quote
from forecast.data.panel import Panel
from forecast.data.row_ranges import PerSeries, Values, pieces_of, select_columns, select_indicators
from forecast.system.errors import ConfigError, DataError, check_count
from forecast.system.formatting import shorten

KnownSteps = int | Mapping[str, int]


def covariate_feature_names(covariates: Sequence[str], known_steps: Sequence[int | None]) -> list[str]:
    """Names of the columns of `FutureCovariates`: covariates, then masks. They follow the calendar features."""
    masked = [name for name, steps in zip(covariates, known_steps, strict=True) if steps is not None]
    return [*covariates, *(f"{name} known" for name in masked)]


def describe_known(covariates: Sequence[str], as_of: Mapping[str, str], known_steps: Sequence[int | None]) -> list[str]:
    """Each future covariate, with the column and the number of steps that are known after a forecast origin."""
    described = []
    for name, steps in zip(covariates, known_steps, strict=True):
        limits = [as_of[name]] if name in as_of else []
        limits += [f"{steps} steps"] if steps is not None else []
        described.append(name + (f" (horizon: {', '.join(limits)})" if limits else ""))
    return described


def resolve_known_steps(known_steps: KnownSteps | None, panel: Panel) -> list[int | None]:
    """The steps of each future covariate by `data.known_steps`; None: known over the whole horizon.

    Raises ConfigError for a name that is no future covariate, and without future covariates.
    """
    columns = [panel.indicators.get(name, name) for name in panel.future_covariates]
    if not isinstance(known_steps, Mapping):
        if known_steps is not None and not columns:
            limits = "limits data.future_covariates, and there are none"
            raise ConfigError(f"data.known_steps={known_steps} {limits}")
        return [known_steps] * len(columns)
    for name in known_steps:
        if name not in columns:
            there = ", ".join(list(dict.fromkeys(columns))[:20]) or "none"
            problem = f"data.known_steps names {name}, which is no future covariate"
            raise ConfigError(f"{problem}: there are {there}")
    return [known_steps.get(name) for name in columns]


def check_known_steps(known_steps: KnownSteps | None) -> None:
    """Raise ConfigError unless `data.known_steps` is null or positive whole numbers."""
    for steps in known_steps.values() if isinstance(known_steps, Mapping) else [known_steps]:
        if steps is not None:
            advice = "; a covariate whose future is not known is one of data.past_covariates"
            check_count("data.known_steps", steps, unit="steps", advice=advice)


def check_known_as_trained(name: str, panel: Panel, known_steps: list[int | None], state: dict[str, Any]) -> None:
    """Raise DataError for other future covariates than the checkpoint's, or if they are known for other steps."""
    mine = describe_known(panel.future_covariates, panel.as_of, known_steps)
    theirs = describe_known(state["future_covariates"], state["as_of"], state["known_steps"])
    if mine != theirs:
        here, there = (", ".join(names) or "none" for names in (mine, theirs))
        problem = f"future covariates {here}, where the checkpoint was trained on {there}"
        raise DataError(f"{name}: {problem}: choose the same")


MAX_INDICATORS = 100  # largest number of indicators of a column: those of its most frequent categories
Categories = Mapping[str, Sequence[str]]  # by column, the categories that have an indicator each


def fit_categories(where: str, panel: Panel, first: PerSeries, last: PerSeries) -> dict[str, list[str]]:
    """The categories of the covariates in the rows first[s] … last[s] − 1 of each series, sorted by name.

    Of more than `MAX_INDICATORS`, the most frequent ones, with a warning. Raises DataError for a column that has none
    there.
    """
    found: dict[str, list[str]] = {}
    for block, names in ((panel.values, panel.columns), (panel.future, panel.future_columns)):
        for column, name in enumerate(names):
            if name not in panel.texts:
                continue
            assert block is not None
            texts, values = panel.texts[name], select_columns(block, [column])
            counts = np.zeros(len(texts), dtype=np.int64)
            for rows in pieces_of(values, first, last):
                codes = values[rows][:, 0]
                counts += np.bincount(codes[codes >= 0].astype(np.int64), minlength=len(texts))
            order = sorted(np.flatnonzero(counts).tolist(), key=lambda code: (-counts[code], texts[code]))
            found[name] = sorted(texts[code] for code in order[:MAX_INDICATORS])
            if not order:
                empty = f"no value of {name} in the training rows"
                raise DataError(f"{empty}: leave the column out, or give another data.split")
            if len(order) > MAX_INDICATORS:
                many = f"column {quote(name)} has {len(order):,} categories in the training rows"
                how = f"the {MAX_INDICATORS} most frequent are read, all others as unknown"
                warnings.warn(f"{where}: {many}: {how}", stacklevel=2)
    return found


def encode_categories(where: str, panel: Panel, categories: Categories) -> Panel:
    """The panel with the indicators of these categories instead of the columns of their codes.

    An empty cell, and with a warning any other category, has zeros. A row that is not there stays missing (NaN).

    Raises DataError if a column of categories is not in `categories`, and ConfigError if an indicator has the name of a
    column.
    """
    if not panel.texts and not categories:
        return panel
    for name in {*panel.as_of, *panel.as_of.values()} & set(panel.texts):
        text = f"{where}: column {quote(name)} holds text"
        raise ConfigError(f"{text}, and data.as_of pairs columns of numbers: leave it out there")
    for name, texts in panel.texts.items():
        if name not in categories:
            odd = next((text for text in texts if text.strip().lower() not in BOOLEANS), texts[0])
            raise _text_for_numbers(where, name, f", such as {quote(odd)}")
    names = (*panel.columns, *panel.future_columns)
    made = columns_of_indicators({name: categories[name] for name in names if name in categories})
    columns = {name: [*columns_of_indicators({name: categories.get(name, ())})] or [name] for name in names}
    for name in set(made) & set(columns):
        raise ConfigError(f"{where}: column {quote(name)} has the name of an indicator: rename it")
    values, future = _encode(where, panel, panel.values, panel.columns, categories), panel.future
    if future is not None:
        future = _encode(where, panel, future, panel.future_columns, categories)
    return replace(
        panel, values=values, future=future, texts={}, indicators=made,
        past_covariates=tuple(one for name in panel.past_covariates for one in columns[name]),
        future_covariates=tuple(one for name in panel.future_covariates for one in columns[name]),
    )  # fmt: skip


def columns_of_indicators(categories: Categories) -> dict[str, str]:
    """The column of each indicator, by the name of the indicator, such as `weather=rain`."""
    return {f"{name}={text}": name for name, texts in categories.items() for text in texts}


def _encode(where: str, panel: Panel, block: Values, names: Sequence[str], categories: Categories) -> Values:
    """The columns of a block, with indicators instead of those in `categories`; those on disk stay there."""
    index: list[int] = []
    codes: list[float | None] = []
    for column, name in enumerate(names):
        if name not in categories:
            index, codes = [*index, column], [*codes, None]
            continue
        own = _find_codes(panel.texts.get(name), categories[name])
        _warn_of_unknown(where, panel, select_columns(block, [column]), name, own)
        index, codes = [*index, *[column] * len(own)], [*codes, *own]
    return select_indicators(block, index, codes) if index else block


def _find_codes(texts: Sequence[str] | None, known: Sequence[str]) -> list[float]:
    """The code of each known category in a column, NaN if the column has none.

    It is the position in `texts`; in a column without `texts`, the number of its cells: rows that hold yes and no alone
    were read as 1 and 0. Two categories of one number have none.
    """
    if texts is None:
        plain = pd.Series(known, dtype=object)
        numbers = pd.Series(pd.to_numeric(plain, errors="coerce")).astype(float)
        numbers = numbers.fillna(plain.str.strip().str.lower().map(BOOLEANS))
        return numbers.mask(numbers.duplicated(keep=False)).tolist()
    places = pd.Index(texts).get_indexer(pd.Index(known))
    return np.where(places < 0, np.nan, places).tolist()


def _warn_of_unknown(where: str, panel: Panel, column: Values, name: str, known: Sequence[float]) -> None:
    """Warn of the categories of a column whose codes are not `known`."""
    texts = panel.texts.get(name)
    if texts is not None and set(range(len(texts))) <= set(known):
        return
    unknown, count = np.zeros(0), 0
    for rows in pieces_of(column, panel.starts, panel.stops):
        codes = column[rows][:, 0]
        new = codes[np.isfinite(codes) & ~np.isin(codes, known) & ((codes >= 0) | (texts is None))]
        unknown, count = np.union1d(unknown, new), count + len(new)
    if count:
        listed = unknown.tolist() if texts is None else [texts[int(code)] for code in unknown]
        _warn(where, name, listed, f"{count:,} of {int((panel.stops - panel.starts).sum()):,} rows")


def _warn(where: str, name: str, unknown: Iterable[Any], counts: str) -> None:
    column = f"column {quote(name)} has {shorten([quote(str(one)) for one in unknown], 3)} in {counts}"
    how = "not among the categories that training knew: read as unknown"
    warnings.warn(f"{where}: {column}, {how}", stacklevel=3)


def _text_for_numbers(where: str, name: str, example: str = "") -> DataError:
    problem = f"holds text{example}, and numbers where the model was trained"
    return DataError(f"{where}: column {quote(name)} {problem}")


MISSING = "missing"  # the category of the series in which a column of texts is empty

MAX_FEATURES = 1_000
"""Largest number of features. A text that differs in every series says nothing that a model could use for new ones."""

Encoding = dict[str, Any]
"""By column: the texts that have a feature each, or the mean and the standard deviation of the numbers.

If all numbers are equal, the standard deviation is infinite, so that a different number in another file becomes 0.
"""


def fit_static(where: str, static: pd.DataFrame) -> Encoding:
    """The encoding of the static covariates. Missing texts are a category.

    Raises ConfigError if the texts need too many features, and DataError if a number is missing.
    """
    encoding: Encoding = {}
    for name, column in static.items():
        if pd.api.types.is_numeric_dtype(column):
            numbers = _read_numbers(where, column)
            deviation = float(numbers.std()) or math.inf
            encoding[str(name)] = {"mean": float(numbers.mean()), "deviation": deviation}
        else:
            encoding[str(name)] = {"texts": sorted({str(text) for text in column.fillna(MISSING).unique()})}
    width = len(static_feature_names(encoding))
    if width > MAX_FEATURES:
        widest = max(encoding, key=lambda name: len(encoding[name].get("texts", ())))
        problem = f"data.static_covariates: {width:,} features, with one for each text of {widest!r}"
        raise ConfigError(f"{problem}, and at most {MAX_FEATURES:,} are read: leave it out")
    return encoding


def static_feature_names(encoding: Encoding) -> list[str]:
    pairs = ((name, text) for name, how in encoding.items() for text in how.get("texts", [""]))
    return [f"{name}={text}" if text else name for name, text in pairs]


def encode_static(where: str, static: pd.DataFrame, encoding: Encoding) -> Float32[np.ndarray, "series n_static"]:
    """The features of each series, in the order of `static_feature_names`; a text that is not known has none.

    Raises DataError for a number that is missing, and for text where the model was trained on numbers.
    """
    features = []
    for name, how in encoding.items():
        column = static[name]
        is_number = pd.api.types.is_numeric_dtype(column)
        if "texts" in how:
            codes, texts = pd.factorize(column)
            known = pd.to_numeric(pd.Index(how["texts"]), errors="coerce") if is_number else how["texts"]
            places = pd.Index(texts).get_indexer(pd.Index(known))
            found = codes[:, None] == np.where(places < 0, -2, places)
            new = (codes >= 0) & ~found.any(axis=1)
            if new.any():
                _warn(where, name, texts[np.unique(codes[new])], f"{new.sum():,} of {len(new):,} series")
            if MISSING in how["texts"]:
                found[:, how["texts"].index(MISSING)] |= codes < 0
            features += list(found.T)
        elif is_number:
            features.append((_read_numbers(where, pd.Series(column)) - how["mean"]) / how["deviation"])
        else:
            raise _text_for_numbers(where, name)
    if not features:
        return np.empty((len(static), 0), dtype=np.float32)
    return np.stack(features, axis=1).astype(np.float32)


def _read_numbers(where: str, column: pd.Series) -> Float64[np.ndarray, " series"]:
    """A column of numbers. Raises DataError for the first series that has none."""
    numbers = column.to_numpy(dtype=np.float64)
    missing = np.isnan(numbers)
    if missing.any():
        series = quote(column.index[int(missing.argmax())])
        problem = f"{where}: static covariate {quote(column.name)} has no number for series {series}"
        raise DataError(f"{problem}: add one, or leave the column out; only text may be missing")
    return numbers
