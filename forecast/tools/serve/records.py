"""The JSON of an answer. Imports no torch."""

from collections.abc import Mapping, Sequence
from typing import Any
from warnings import WarningMessage

import numpy as np
import pandas as pd
import pydantic_core

Cells = np.ndarray | pd.Index


def write_answer(
    name: str,
    trained_until: str,
    index: pd.Index,
    columns: Mapping[str, Cells],
    *,
    notes: Sequence[str],
    caught: Sequence[WarningMessage],
) -> bytes:
    """The JSON of a forecast.

    Args:
        name: of the model.
        trained_until: last date of its training rows.
        index, columns: of the forecast, see `Forecast.table`.
        notes: lines that describe the forecast.
        caught: the warnings that it gave.

    Returns:
        The model, the notes, the warnings, and one object for each date (and series) with the forecast and the bounds
        of each target.
    """
    content: dict[str, Any] = {
        "model": name,
        "trained_until": trained_until,
        "notes": [" ".join(line.split()) for line in notes],
        "warnings": [str(one.message) for one in caught if issubclass(one.category, UserWarning)],
        "forecast": list_records(index, columns),
    }
    return pydantic_core.to_json(content, inf_nan_mode="null")


def list_records(index: pd.Index, columns: Mapping[str, Cells]) -> list[dict[str, Any]]:
    """One object for each row of a table; the index comes first."""
    table = {index.name or "series": index, **columns}
    return [dict(zip(table, row, strict=True)) for row in zip(*map(list_cells, table.values()), strict=True)]


def list_cells(cells: Cells) -> list[Any]:
    """The values of a column; dates in ISO 8601, with the UTC offset if they have a time zone."""
    if not isinstance(cells, pd.DatetimeIndex):
        return cells.tolist()
    places, dates = pd.factorize(cells)
    texts = [date.isoformat() for date in dates]
    return [texts[place] for place in places]
