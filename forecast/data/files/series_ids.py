"""The columns that name the series of a row, and the ids that they give."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Int32

from forecast.data.files.cells import Cells
from forecast.data.files.text import quote
from forecast.data.panel import TABLE_ID
from forecast.system.errors import ConfigError, DataError

IdColumn = str | Sequence[str] | None
"""Value of `data.id_column`: one column, several that name a series together, or None for a file of one series."""

Ids = tuple[Int32[np.ndarray, " rows"], pd.Index]
"""The number of the series of each row, and the id of each number."""

SEPARATOR = "/"
"""Between the parts of an id, and the names of its columns."""


def list_id_columns(id_column: IdColumn) -> tuple[str, ...]:
    """The columns of `data.id_column`. Raises ConfigError for an empty list, and for a column that is named twice."""
    if id_column is None or isinstance(id_column, str):
        return () if id_column is None else (id_column,)
    names = tuple(map(str, id_column))
    if not names or len(set(names)) < len(names):
        raise ConfigError(
            f"data.id_column={list(id_column)}: name the columns, each once, as in data.id_column=[store,department]"
        )
    return names


def name_ids(id_columns: Sequence[str]) -> str | None:
    """The name of the ids: that of the column, or the names of several columns, joined; None without a column."""
    return SEPARATOR.join(id_columns) or None


def split_ids(table: pd.DataFrame, id_columns: Sequence[str]) -> pd.DataFrame:
    """Return a table whose index holds the texts that `join_ids` joined with an index of their columns.

    The table is unchanged if its index has another name, or if a text has the sign between them.
    """
    if len(id_columns) < 2 or table.index.name != name_ids(id_columns):
        return table
    codes, ids = pd.factorize(table.index)
    parts = [tuple(str(name).split(SEPARATOR)) for name in ids]
    if any(len(texts) != len(id_columns) for texts in parts):
        return table
    return table.set_index(pd.MultiIndex.from_tuples(parts, names=list(id_columns))[codes])


def take_parts(ids: pd.Index, id_columns: Sequence[str], chosen: Sequence[str]) -> pd.Index:
    """Return ids that `join_ids` joined with the parts of some of their columns.

    Raises DataError if a text of the others has the sign between the parts.
    """
    if len(chosen) == len(id_columns):
        return ids
    parts = split_ids(pd.DataFrame(index=ids.rename(name_ids(id_columns))), id_columns).index
    if not isinstance(parts, pd.MultiIndex):
        raise DataError(
            f"an id has {SEPARATOR} in a text of {', '.join(id_columns)}: use another sign there, or one id column"
        )
    return pd.Index(
        [SEPARATOR.join(texts) for texts in parts.to_frame()[list(chosen)].itertuples(index=False)]
    )


def read_ids(cells: Cells, id_columns: Sequence[str]) -> Ids:
    """Read the ids of the rows of a CSV file, as `join_ids` does."""
    found = [pd.factorize(cells.frame[name].str.strip()) for name in id_columns]
    parts = [(codes.astype(np.int32), pd.Index(ids, dtype=str)) for codes, ids in found]
    return join_ids(cells, id_columns, parts, len(cells.frame))


def join_ids(cells: Cells, id_columns: Sequence[str], parts: Sequence[Ids], n_rows: int) -> Ids:
    """Join the ids of several columns of a file: store 1 and department 3 are the series 1/3.

    No column at all is a file of one series. Of several columns, some cells may be empty, which have the code −1.
    Raises DataError for a row without an id, and if two series have one id when joined.
    """
    if not parts:
        return np.zeros(n_rows, dtype=np.int32), pd.Index([TABLE_ID])
    nowhere = np.logical_and.reduce([codes < 0 for codes, _ in parts])
    if nowhere.any():
        raise cells.error("no id", row=int(nowhere.argmax()), column=name_ids(id_columns))
    if len(parts) == 1:
        return parts[0]
    parts = [
        (np.where(codes < 0, np.int32(len(ids)), codes), ids.append(pd.Index([""], dtype=str)))
        for codes, ids in parts
    ]
    columns = pd.DataFrame({number: codes for number, (codes, _) in enumerate(parts)})
    codes = columns.groupby(list(columns), sort=False).ngroup().to_numpy().astype(np.int32)
    first = np.unique(codes, return_index=True)[1]
    texts = [ids[part[first]] for part, ids in parts]
    joined = pd.Index([SEPARATOR.join(ids) for ids in zip(*texts, strict=True)], dtype=str)
    if not joined.is_unique:
        twice = quote(joined[joined.duplicated()][0])
        raise DataError(
            f"{cells.path}: two series are {twice} when joined with {SEPARATOR}: use another sign in their columns"
        )
    return codes, joined
