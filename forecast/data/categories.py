"""Covariates that are categories, as indicator columns: 1 where a row has the category, else 0.

A linear layer multiplies an indicator by a column of its weight, so that the columns of the first layer that reads the
indicators are the learned embeddings of the categories. A row of a category that is not known has zeros only.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from jaxtyping import Bool, Num

from forecast.data.files.cell_numbers import BOOLEANS
from forecast.data.files.text import quote
from forecast.data.panel import Panel
from forecast.data.row_ranges import PerSeries
from forecast.data.stored_values import StoredValues, Values, indicators, pieces_of, select_columns
from forecast.system.errors import ConfigError, DataError
from forecast.system.formatting import shorten

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
    for block, names in _blocks(panel):
        for column, name in enumerate(names):
            if name in panel.texts:
                counts = _count(select_columns(block, [column]), first, last, len(panel.texts[name]))
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


def _count(column: Values, first: PerSeries, last: PerSeries, n: int) -> np.ndarray:
    """The number of times that each code from 0 to n − 1 occurs in a column."""
    counts = np.zeros(n, dtype=np.int64)
    for rows in pieces_of(column, first, last):
        codes = column[rows][:, 0]
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
            odd = next((text for text in texts if text.strip().lower() not in BOOLEANS), texts[0])
            raise DataError(
                f"{where}: column {quote(name)} holds text, such as {quote(odd)}, and numbers where the model "
                "was trained"
            )
    columns = {name: indicator_names({name: categories.get(name, ())}) or [name] for name in _names(panel)}
    made = {one: name for name, ones in columns.items() for one in ones if one != name}
    for name in set(made) & set(columns):
        raise ConfigError(f"{where}: column {quote(name)} has the name of an indicator: rename it")
    values = _encode(where, panel, panel.values, panel.columns, categories)
    future = panel.future
    if future is not None:
        future = _encode(where, panel, future, panel.future_columns, categories)
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


def _blocks(panel: Panel) -> Iterator[tuple[Values, Sequence[str]]]:
    yield panel.values, panel.columns
    if panel.future is not None:
        yield panel.future, panel.future_columns


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
    if not index:
        return block
    if isinstance(block, StoredValues):
        return block.select(index).with_indicators(codes)
    chosen = block[:, index]
    columns = [i for i, code in enumerate(codes) if code is not None]
    chosen[:, columns] = indicators(chosen[:, columns], np.array([codes[i] for i in columns]))
    return chosen


def _find_codes(texts: Sequence[str] | None, known: Sequence[str]) -> list[float]:
    """The code of each known category in a column, NaN if the column has none.

    It is the position in `texts`; in a column without `texts`, whose cells are numbers, the number itself.
    """
    if texts is None:
        numbers = pd.Series(pd.to_numeric(pd.Series(known, dtype=object), errors="coerce"))
        return numbers.astype(float).tolist()
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
        total = int((panel.stops - panel.starts).sum())
        _warn(where, name, list(map(str, listed)), f"{count:,} of {total:,} rows")


def _warn(where: str, name: str, unknown: Sequence[str], counts: str) -> None:
    listed = shorten(list(map(quote, unknown)), 3)
    warnings.warn(
        f"{where}: column {quote(name)} has {listed} in {counts}, not among the categories that training knew: read as "
        "unknown",
        stacklevel=3,
    )


def find_indicators(
    where: str, name: str, codes: Num[np.ndarray, " series"], texts: pd.Index, known: Sequence[str]
) -> Bool[np.ndarray, "series known"]:
    """Whether a series has each of the `known` categories. Warns of other categories.

    Args:
        where, name: the file and the column, for the warning.
        codes: of the category of each series, the position in `texts`.
        texts: texts, or numbers where all categories of the file look like numbers.
        known: the categories of training.
    """
    wanted = pd.Index(known)
    if pd.api.types.is_numeric_dtype(texts.dtype):
        wanted = pd.Index(pd.to_numeric(wanted, errors="coerce"))
    places = texts.get_indexer(wanted)
    found = codes[:, None] == np.where(places < 0, -2, places)
    new = (codes >= 0) & ~found.any(axis=1)
    if new.any():
        unknown = texts[np.unique(codes[new]).astype(np.int64)]
        _warn(where, name, list(map(str, unknown)), f"{new.sum():,} of {len(new):,} series")
    return found
