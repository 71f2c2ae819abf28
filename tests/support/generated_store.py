"""A generated table of any size: sixteen sensors, one row per second, daily cycles and noise."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from forecast.data import Panel, store
from forecast.data.panel import TABLE_ID

COLUMNS = tuple(f"sensor{number}" for number in range(16))
BLOCK = 1 << 19  # rows generated at a time
BYTES_PER_ROW = 4 * len(COLUMNS)  # in values.npy


def blocks(rows: int) -> Iterator[Panel]:
    """Yield consecutive blocks of rows. All blocks have the same numbers, because only their size matters here."""
    number = np.arange(min(BLOCK, rows))
    angle = 2 * np.pi * (number % 86_400) / 86_400
    noise = np.random.default_rng(0).normal(scale=3, size=(len(number), len(COLUMNS)))
    values = 20 + 5 * np.sin(angle[:, None] + np.linspace(0, 2 * np.pi, len(COLUMNS))) + noise
    values = (np.round(8 * values) / 8).astype(np.float64)
    for first in range(0, rows, BLOCK):
        count = min(BLOCK, rows - first)
        dates = np.datetime64("2000-01-01", "us") + np.timedelta64(1, "s") * (first + number[:count])
        yield Panel.of_table(pd.DatetimeIndex(dates), values[:count], COLUMNS, "s")


def write_store(path: Path, size: int) -> None:
    """Write a store with about `size` bytes of values, like `forecast.convert` but without its checks."""
    path.mkdir()
    rows = size // BYTES_PER_ROW
    first = next(blocks(rows))
    begin = first.grid[0]
    store.write_store(
        path, (np.asarray(table.values) for table in blocks(rows)), columns=COLUMNS, dtype="<f4", freq="s",
        first=begin, last=begin + pd.Timedelta(seconds=rows - 1), date_column="date",  # type: ignore[reportArgumentType]
        id_column=None, ids=[TABLE_ID], lengths=[rows], first_dates=[str(begin)], texts={},
    )  # fmt: skip
