"""Static covariates of a store: columns that do not change within a series."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Bool

from forecast.data.files.text import quote
from forecast.data.panel import Panel
from forecast.data.stored_values import StoredValues, pieces_of
from forecast.system.errors import DataError


def read_static(where: str, panel: Panel, store: Panel, names: Sequence[str]) -> pd.DataFrame:
    """Read columns of a store, one row for each series of a panel, and check that they do not change.

    Args:
        where: the folder, for messages.
        panel: some series of the store.
        store: the panel of the whole store.
        names: the columns.

    Raises:
        DataError: a column is empty in the first row of a series, or changes within a series.
    """
    assert isinstance(store.values, StoredValues)
    if not names:
        return pd.DataFrame(index=panel.ids)
    values = store.values.select([store.columns.index(name) for name in names])
    first = values[panel.starts]
    is_text = np.array([name in store.texts for name in names])
    _refuse(where, panel, panel.starts, np.where(is_text, ~(first >= 0), np.isnan(first)), names, "is empty")
    for rows in pieces_of(values, panel.starts, panel.ends):
        block = values[rows]
        changes = (block != first[panel.series_of(rows)]) & ~np.isnan(block)  # a missing row has no value
        _refuse(where, panel, rows, changes, names, "differs from the first row of the series")
    columns = {
        name: np.array(store.texts[name])[column.astype(np.int64)] if name in store.texts else column
        for name, column in zip(names, first.T, strict=True)
    }
    return pd.DataFrame(columns, index=panel.ids)


def _refuse(
    where: str,
    panel: Panel,
    rows: np.ndarray,
    wrong: Bool[np.ndarray, "rows columns"],
    names: Sequence[str],
    what: str,
) -> None:
    """Raise DataError for the first row that is wrong."""
    if wrong.any():
        place, column = divmod(int(wrong.argmax()), len(names))
        row = rows[place : place + 1]
        label = f"series {quote(panel.ids[panel.series_of(row)][0])}, {panel.dates(row)[0]}"
        raise DataError(
            f"{where}: {label}: column {quote(names[column])} {what}: a static column has one value in a series; name "
            "it in data.past_covariates or data.future_covariates"
        )
