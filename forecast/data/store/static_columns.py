"""Static covariates of a store: columns that do not change within a series."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64

from forecast.data.files.text import quote
from forecast.data.panel import Panel
from forecast.data.stored_values import StoredValues, pieces_of
from forecast.system.errors import DataError


def read_static(where: str, panel: Panel, store: Panel, names: Sequence[str]) -> pd.DataFrame:
    """Read columns of a store, one row for each series of a panel, and check that they do not change.

    A series has the value of its rows that have one, NaN if none has.

    Args:
        where: the folder, for messages.
        panel: some series of the store.
        store: the panel of the whole store.
        names: the columns.

    Raises:
        DataError: a column changes within a series.
    """
    assert isinstance(store.values, StoredValues)
    if not names:
        return pd.DataFrame(index=panel.ids)
    values = store.values.select([store.columns.index(name) for name in names])
    is_text = np.array([name in store.texts for name in names])
    known = np.full((len(panel), len(names)), np.nan)
    for rows, changes in _find_changes(panel, values, is_text, known):
        _refuse_changes(where, panel, rows, changes, names)
    columns = {
        name: np.array([*store.texts[name], np.nan], dtype=object)[np.nan_to_num(column, nan=-1).astype(int)]
        if name in store.texts
        else column
        for name, column in zip(names, known.T, strict=True)
    }
    return pd.DataFrame(columns, index=panel.ids)


def find_static(store: Panel) -> list[str]:
    """The columns of a store that have one value in each series, and several in all."""
    assert isinstance(store.values, StoredValues)
    is_text = np.array([name in store.texts for name in store.columns])
    known = np.full((len(store), len(store.columns)), np.nan)
    is_static = np.ones(len(store.columns), dtype=bool)
    for _, changes in _find_changes(store, store.values, is_text, known):
        is_static &= ~changes.any(axis=0)
    return [
        name
        for name, static, column in zip(store.columns, is_static, known.T, strict=True)
        if static and len(np.unique(column[~np.isnan(column)])) > 1
    ]


def _find_changes(
    panel: Panel,
    values: StoredValues,
    is_text: Bool[np.ndarray, " columns"],
    known: Float64[np.ndarray, "series columns"],
) -> Iterator[tuple[np.ndarray, Bool[np.ndarray, "rows columns"]]]:
    """Yield rows, piece by piece, and whether each number differs from the first one of its series (`known`)."""
    for rows in pieces_of(values, panel.starts, panel.ends):
        block, series = np.where(is_text & (values[rows] < 0), np.nan, values[rows]), panel.series_of(rows)
        first = pd.DataFrame(block).groupby(series).first()
        known[first.index] = np.where(np.isnan(known[first.index]), first, known[first.index])
        yield rows, (block != known[series]) & ~np.isnan(block)


def _refuse_changes(
    where: str,
    panel: Panel,
    rows: np.ndarray,
    wrong: Bool[np.ndarray, "rows columns"],
    names: Sequence[str],
) -> None:
    """Raise DataError for the first row that is wrong."""
    if wrong.any():
        place, column = divmod(int(wrong.argmax()), len(names))
        row = rows[place : place + 1]
        label = f"series {quote(panel.ids[panel.series_of(row)][0])}, {panel.dates(row)[0]}"
        raise DataError(
            f"{where}: {label}: column {quote(names[column])} differs from a row above: a static column has one value "
            "in a series; name it in data.past_covariates or data.future_covariates"
        )
