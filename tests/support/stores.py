from pathlib import Path

import numpy as np

from forecast.data import Panel, store


def write_store(folder: Path, table: Panel, dtype: str = "<f8") -> Path:
    folder.mkdir()
    values = np.asarray(table.values)
    store.write_store(
        folder, [values], columns=table.columns, dtype=dtype, freq=table.freq, first=table.grid[0],  # type: ignore[reportArgumentType]
        last=table.grid[-1], date_column=str(table.grid.name),  # type: ignore[reportArgumentType]
        id_column=table.ids.name, ids=table.ids.tolist(), lengths=(table.stops - table.starts).tolist(),
        first_dates=[str(date) for date in table.dates(table.starts)],
        texts=dict(table.texts),
    )  # fmt: skip
    return folder
