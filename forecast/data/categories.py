"""Covariates that are categories, as indicator columns: 1 where a row has the category, else 0.

A linear layer multiplies an indicator by a column of its weight, so that the columns of the first layer that reads the
indicators are the learned embeddings of the categories. A row of a category that is not known has zeros only.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Float64, Num

from forecast.data.files.text import quote
from forecast.data.panel import Panel
from forecast.data.row_ranges import PerSeries, ranges, series_slices
from forecast.system.errors import ConfigError, DataError

MAX_INDICATORS = 100
"""Largest number of indicators of a column: those of its most frequent categories."""

Categories = Mapping[str, Sequence[str]]
"""By column, the categories that have an indicator each."""


def fit_categories(where: str, panel: Panel, first: PerSeries, last: PerSeries) -> dict[str, list[str]]:
    """The categories of the covariates in the rows first[s] … last[s] − 1 of each series, sorted by name.

    Of more than `MAX_INDICATORS`, the most frequent ones, with a warning. Raises DataError for a column that has none
    there.
    """
    found: dict[str, list[str]] = {}
    for block, names in _blocks(panel) if panel.texts else ():
        for column, name in enumerate(names):
            if name in panel.texts:
                counts = _count(block, column, first, last, len(panel.texts[name]))
                found[name] = _choose(where, name, panel.texts[name], counts)
    return found


def _choose(where: str, name: str, texts: Sequence[str], counts: np.ndarray) -> list[str]:
    order = sorted(np.flatnonzero(counts).tolist(), key=lambda code: (-counts[code], texts[code]))
    if not order:
        raise DataError(
            f"no value of {name} in the training rows: leave the column out, or give another data.split"
        )
    if len(order) == 1:
        warnings.warn(f"{where}: column {quote(name)} has one category in the training rows", stacklevel=3)
    if len(order) > MAX_INDICATORS:
        warnings.warn(
            f"{where}: column {quote(name)} has {len(order):,} categories in the training rows: the "
            f"{MAX_INDICATORS} most frequent are read, all others as unknown",
            stacklevel=3,
        )
    return sorted(texts[code] for code in order[:MAX_INDICATORS])


def _count(
    block: Float[np.ndarray, "rows columns"], column: int, first: PerSeries, last: PerSeries, n: int
) -> np.ndarray:
    """How often each code from 0 to n − 1 occurs in a column."""
    counts = np.zeros(n, dtype=np.int64)
    for some in series_slices(last - first):
        codes = block[ranges(first[some], last[some]), column]
        counts += np.bincount(codes[codes >= 0].astype(np.int64), minlength=n)
    return counts


def encode_categories(where: str, panel: Panel, categories: Categories) -> Panel:
    """The panel with the indicators of these categories instead of the columns of their codes.

    An empty cell, and with a warning any other category, has zeros. A row that is not there stays missing (NaN).

    Raises:
        DataError: a column holds categories and is not in `categories`.
        ConfigError: an indicator has the name of a column.
    """
    if not panel.texts and not categories:
        return panel
    for name in {*panel.as_of, *panel.as_of.values()} & set(panel.texts):
        raise ConfigError(
            f"{where}: column {quote(name)} holds text, and data.as_of pairs columns of numbers: leave it out there"
        )
    for name, texts in panel.texts.items():
        if name not in categories:
            raise DataError(
                f"{where}: column {quote(name)} holds text, such as {quote(texts[0])}, and numbers where the model "
                "was trained"
            )
    columns = {name: indicator_names({name: categories.get(name, ())}) or [name] for name in _names(panel)}
    made = {one: name for name, ones in columns.items() for one in ones if one != name}
    for name in set(made) & set(columns):
        raise ConfigError(f"{where}: column {quote(name)} has the name of an indicator: rename it")
    values = _encode(where, panel, np.asarray(panel.values), panel.columns, categories)
    future = (
        None
        if panel.future is None
        else _encode(where, panel, np.asarray(panel.future), panel.future_columns, categories)
    )
    return replace(
        panel,
        values=values,
        future=future,
        past_covariates=tuple(one for name in panel.past_covariates for one in columns[name]),
        future_covariates=tuple(one for name in panel.future_covariates for one in columns[name]),
        texts={},
        indicators=made,
    )


def indicator_names(categories: Categories) -> list[str]:
    """The names of the indicators, such as `weather=rain`."""
    return [f"{name}={text}" for name, texts in categories.items() for text in texts]


def columns_of_indicators(categories: Categories) -> dict[str, str]:
    """The column of each indicator, by the name of the indicator."""
    return {indicator: name for name in categories for indicator in indicator_names({name: categories[name]})}


def _names(panel: Panel) -> tuple[str, ...]:
    return (*panel.columns, *panel.future_columns)


def _blocks(panel: Panel) -> Iterator[tuple[Float[np.ndarray, "rows columns"], Sequence[str]]]:
    yield np.asarray(panel.values), panel.columns
    if panel.future is not None:
        yield np.asarray(panel.future), panel.future_columns


def _encode(
    where: str,
    panel: Panel,
    block: Float[np.ndarray, "rows columns"],
    names: Sequence[str],
    categories: Categories,
) -> Float[np.ndarray, "rows more_columns"]:
    columns = []
    for column, name in zip(block.T, names, strict=True):
        if name not in categories:
            columns.append(column)
            continue
        codes, texts = _codes(column, panel.texts.get(name))
        found = find_indicators(codes, texts, categories[name], where=where, name=name, unit="rows")
        columns += list(np.where(np.isnan(codes), np.nan, found.T.astype(np.float64)))
    return np.stack(columns, axis=1) if columns else block


def _codes(
    column: Float[np.ndarray, " rows"], texts: Sequence[str] | None
) -> tuple[Float64[np.ndarray, " rows"], pd.Index]:
    """The codes of a column and their texts; the codes are made here where all cells are numbers or empty."""
    if texts is not None:
        return np.asarray(column, dtype=np.float64), pd.Index(texts)
    codes, numbers = pd.factorize(column)
    if not len(numbers):
        return np.full(len(column), -1.0), pd.Index(numbers)
    return np.where(np.isnan(column), np.nan, codes), pd.Index(numbers)


def find_indicators(
    codes: Num[np.ndarray, " rows"],
    texts: pd.Index,
    known: Sequence[str],
    *,
    where: str,
    name: str,
    unit: str,
) -> Bool[np.ndarray, "rows known"]:
    """Whether a row has each of the `known` categories. Warns of other categories.

    Args:
        codes: of the category of each row, the position in `texts`; below 0 where it is empty.
        texts: texts, or numbers where all categories of the file look like numbers.
        known: the categories of training.
        where, name, unit: the file, the column and what a row is (rows or series), for the warning.
    """
    wanted = pd.Index(known)
    if pd.api.types.is_numeric_dtype(texts.dtype):
        wanted = pd.Index(pd.to_numeric(wanted, errors="coerce"))
    places = texts.get_indexer(wanted)
    found = codes[:, None] == np.where(places < 0, -2, places)
    new = (codes >= 0) & ~found.any(axis=1)
    if new.any():
        unknown = texts[np.unique(codes[new]).astype(np.int64)]
        listed = ", ".join(map(quote, unknown[:3])) + (", ..." if len(unknown) > 3 else "")
        warnings.warn(
            f"{where}: column {quote(name)} has {listed} in {new.sum():,} of {len(new):,} {unit}, not among the "
            "categories that training knew: read as unknown",
            stacklevel=2,
        )
    return found
