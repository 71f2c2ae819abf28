"""Stores on disk, written without `forecast.convert`."""

from pathlib import Path

import numpy as np

from forecast.data import Panel
from forecast.data.store.format import StoreWriter


def write_store(folder: Path, table: Panel, dtype: str = "<f8") -> Path:
    """Write the columns of `values` of a panel as a store in a new folder."""
    folder.mkdir()
    values = np.asarray(table.values)
    writer = StoreWriter(folder, list(table.columns), dtype, 0)
    writer.append(values)
    writer.finish(
        freq=table.freq, first=str(table.grid[0]), last=str(table.grid[-1]), date_column=str(table.grid.name),
        id_column=table.ids.name, ids=table.ids.tolist(), lengths=(table.stops - table.starts).tolist(),
        first_dates=[str(date) for date in table.dates(table.starts)],
        minimum=np.nanmin(values, 0).tolist(), maximum=np.nanmax(values, 0).tolist(),
        missing=np.isnan(values).sum(0).tolist(), texts=dict(table.texts),
    )  # fmt: skip
    return folder
