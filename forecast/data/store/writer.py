"""The writer of a store, see `forecast.data.store.format`."""

import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.lib import format as npy

from forecast.data.store.format import DATES, DESCRIPTION, KIND, VALUES, VERSION
from forecast.data.time_features import date_range
from forecast.system.files import write_json

DATES_AT_ONCE = 1 << 20
"""Dates that are written at a time."""

Unit = Literal["us", "ns"]
"""Resolution of the dates."""


class StoreWriter:
    """Writes a store: `append` adds rows, and `finish` adds the dates and the description."""

    def __init__(self, folder: Path, columns: list[str], dtype: str, rows: int) -> None:
        """Open the values in `folder`, of this type, with their first `rows` rows; later rows are removed."""
        self.folder, self.columns = folder, columns
        self._values = _GrowingArray(folder / VALUES, np.dtype(dtype), (len(columns),), rows)

    def append(self, values: Float[np.ndarray, "rows columns"]) -> None:
        """Append these rows, and flush them to disk."""
        self._values.append(values)

    def drop_last(self, rows: int) -> None:
        """Remove the last rows."""
        self._values.drop_last(rows)

    def finish(self, *, freq: str, first: str, last: str, unit: Unit = "us", **about: Any) -> None:
        """Write the dates from `first` to `last` by the step `freq`, and the description `about` the store."""
        self._values.close()
        dates = _GrowingArray(self.folder / DATES, np.dtype(f"<M8[{unit}]"), (), 0)
        begin, end = pd.Timestamp(first), pd.Timestamp(last)
        while begin <= end:
            two = date_range(begin, periods=2, freq=freq).to_numpy()
            left = int((end.to_datetime64() - two[0]) / (two[1] - two[0])) + 1
            part = date_range(begin, periods=min(left, DATES_AT_ONCE) + 1, freq=freq).as_unit(unit)
            dates.append(part[:-1][part[:-1] <= end].to_numpy())
            begin = pd.Timestamp(part.to_numpy()[-1])
        dates.close()
        description = {
            "kind": KIND, "version": VERSION, "columns": self.columns, "dates": dates.rows, "freq": freq,
        }  # fmt: skip
        write_json(self.folder / DESCRIPTION, description | about)


class _GrowingArray:
    """An .npy file to which rows are appended. The header of NumPy has room for a larger number of rows."""

    def __init__(self, path: Path, dtype: np.dtype, row: tuple[int, ...], rows: int) -> None:
        self._dtype, self._row, self.rows = dtype, row, rows
        path.touch()
        self._file = path.open("r+b")
        self._write_header()
        self._truncate()

    def _write_header(self) -> None:
        header = {"descr": self._dtype.str, "fortran_order": False, "shape": (self.rows, *self._row)}
        self._file.seek(0)
        npy.write_array_header_1_0(self._file, header)
        self._begin = self._file.tell()

    def _truncate(self) -> None:
        self._file.truncate(self._begin + self.rows * self._dtype.itemsize * int(np.prod(self._row)))
        self._file.seek(0, os.SEEK_END)

    def append(self, rows: np.ndarray) -> None:
        with np.errstate(over="ignore"):
            self._file.write(rows.astype(self._dtype).tobytes())
        self.rows += len(rows)
        self._flush()

    def drop_last(self, rows: int) -> None:
        self.rows -= rows
        self._truncate()

    def close(self) -> None:
        self._write_header()
        self._flush()
        self._file.close()

    def _flush(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
