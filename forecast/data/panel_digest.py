"""A hash of the values and dates of a panel, by which two tables are known to be the same."""

import hashlib
from dataclasses import fields

import numpy as np
import pandas as pd

from forecast.data.panel import Panel
from forecast.data.stored_values import StoredValues

CHUNK_ROWS = 1 << 16
"""Rows hashed at a time."""


def describe_content(panel: Panel) -> str:
    """Describe a panel: rows, dates, and a hash of its values unless they lie on disk, where it takes minutes."""
    content = "" if panel.is_on_disk else f" with hash {digest(panel)}"
    return f"{panel.n_rows:,} rows from {panel.first_date} to {panel.last_date}{content}"


def digest(panel: Panel) -> str:
    """Return a hash of all fields of a panel, read in chunks of rows: a panel on disk may be larger than memory."""
    state = hashlib.sha256()
    for field in fields(panel):
        value = getattr(panel, field.name)
        if isinstance(value, StoredValues):
            value = value.mapped
        if not isinstance(value, np.ndarray | pd.Index | pd.DataFrame):
            state.update(repr(value).encode())
            continue
        for start in range(0, len(value), CHUNK_ROWS):
            part = np.asarray(value[start : start + CHUNK_ROWS])
            state.update(repr(part.tolist()).encode() if part.dtype == object else part.tobytes())
    return state.hexdigest()[:12]
