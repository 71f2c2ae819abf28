"""Stores on disk, written without `forecast.convert`."""

from pathlib import Path

import numpy as np

from forecast.data import Panel
from forecast.data.store.format import StoreWriter


def write_store(folder: Path, table: Panel, dtype: str = "<f8") -> Path:
    """Write the table of one series as a store in a new folder."""
    folder.mkdir()
    writer = StoreWriter(folder, list(table.columns), dtype, "us", 0)
    writer.append(table)
    writer.finish(
        freq=table.freq, first_date=str(table.grid[0]), last_date=str(table.grid[-1]),
        minimum=np.nanmin(table.values, 0).tolist(), maximum=np.nanmax(table.values, 0).tolist(),
        missing=table.missing.tolist(), texts=dict(table.texts),
    )  # fmt: skip
    return folder
