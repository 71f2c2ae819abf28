"""Tables of many series that are read as one: the columns that name the series of a row."""

from collections.abc import Sequence
from itertools import combinations

import pandas as pd

from forecast.data.files.cells import Cells
from forecast.data.files.column_roles import ColumnRoles
from forecast.data.files.column_types import are_times, counts_rows, list_numbers
from forecast.data.files.date_columns import find_part
from forecast.system.errors import Remedy
from forecast.system.formatting import shorten

MAX_PAIRED = 12
"""Number of columns of which pairs are tried as the names of series."""


def find_series_columns(cells: Cells, roles: ColumnRoles) -> tuple[str, list[Remedy]] | None:
    """How to read a table whose dates repeat because it holds several series; None if it does not look like one."""
    ids = find_id_columns(cells, roles)
    if not ids:
        return None
    frame, taken = cells.frame, (*ids, *roles.drop)
    numbers = [
        name for name in list_numbers(frame) if name not in taken and not counts_rows(pd.Series(frame[name]))
    ]
    note = f" or another number: {shorten(numbers[1:])}" if numbers[1:] else ""
    layout = {"data": "long", "id_column": ids[0] if len(ids) == 1 else list(ids), "date_column": roles.date}
    return describe_ids(ids), [Remedy({**layout, "target": name}, note) for name in numbers[:1]]


def describe_ids(ids: Sequence[str]) -> str:
    """Say that columns name the series."""
    return f"the file looks long, with one series for each {' and '.join(map(repr, ids))}"


def find_id_columns(cells: Cells, roles: ColumnRoles) -> tuple[str, ...]:
    """The columns that name the series of a row in a table that looks long; empty if it does not.

    It does if most dates come several times, and a column of texts or whole numbers, or two of them, tell the rows of a
    date apart.
    """
    frame, date = cells.frame, roles.date
    if date not in frame or pd.Series(frame[date]).nunique() > len(frame) / 2:
        return ()
    if roles.id is not None and not frame.duplicated(list(roles.keys)).any():
        return ()
    numbers = list_numbers(frame)
    texts = [
        str(name)
        for name in frame.columns
        if name not in numbers and frame[name].dtype.kind != "b" and not are_times(pd.Series(frame[name]))
    ]
    whole = [name for name in numbers if frame[name].dtype.kind in "iu"]
    possible = [
        name
        for name in (*texts, *whole)
        if name != date and find_part(name) is None and _may_name_series(pd.Series(frame[name]))
    ]
    pairs = combinations([str(name) for name in frame.columns if name in possible][:MAX_PAIRED], 2)
    if roles.id is None:
        found = [*((name,) for name in possible), *pairs]
    else:
        found = [(*roles.id_columns, name) for name in possible if name not in roles.id_columns]
    return next((names for names in found if not frame.duplicated([*names, date]).any()), ())


def _may_name_series(column: pd.Series) -> bool:
    return bool(column.notna().all() and 1 < column.nunique() <= len(column) / 2)
