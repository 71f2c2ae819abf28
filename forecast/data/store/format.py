"""The format of a store: a table on disk that is mapped into memory, so that rows are read when a window needs them.

A store is a folder with two NumPy arrays and a description:

    values.npy   (rows, columns), float32 or float64, in the units of the data; NaN is a missing value. A column of text
                 holds codes: the position of the text in `texts`, −1 where the cell is empty
    dates.npy    (rows,), datetime64, evenly spaced
    store.json   the names, value ranges and numbers of missing values of the columns; the texts of each column of text,
                 in order of appearance; the step between rows; the UTC offset of the dates

The columns of a row are adjacent, so a window is one contiguous block of the file. The operating system caches the
pages that were read, and all processes share them. NumPy reads the arrays without pickle: a store cannot run code.
"""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.lib import format as npy

from forecast.data.files.cells import quote
from forecast.data.panel import Panel
from forecast.data.stored_values import StoredValues
from forecast.data.time_features import parse_frequency
from forecast.data.utc_offset import is_zone, utc_offset_of
from forecast.system.errors import DataError, ForecastError
from forecast.system.files import write_json
from forecast.system.memory import available

_WORK = 5
"""Memory that examining a table takes, as a multiple of its size."""

KIND, VERSION = "forecast.store", 2
DESCRIPTION, VALUES, DATES = "store.json", "values.npy", "dates.npy"
PARTS = {DESCRIPTION, VALUES, DATES}
_KEYS = {
    "rows": int, "columns": list, "minimum": list, "maximum": list, "missing": list, "freq": str,
    "first_date": str, "last_date": str, "texts": dict,
}  # fmt: skip


def is_store(path: str | Path) -> bool:
    return (Path(path).expanduser() / DESCRIPTION).is_file()


def open_store(path: str | Path) -> Panel:
    """The panel in the folder `path`, with its values on disk. Raises DataError for a damaged or incomplete store."""
    folder = Path(path).expanduser()
    if not is_store(folder):
        what = "no such store" if not folder.exists() else f"no store (it has no {DESCRIPTION})"
        raise DataError(f"{folder}: {what}: make one by python -m forecast.convert data.path=FILE")
    try:
        about = _read_description(folder / DESCRIPTION)
        rows, columns = about["rows"], about["columns"]
        values = _map(folder / VALUES, (rows, len(columns)), ("<f4", "<f8"))
        dates = pd.DatetimeIndex(_map(folder / DATES, (rows,), ("<M8[us]", "<M8[ns]")), copy=False)
        _check_grid(dates, about)
    except DataError as error:
        raise DataError(
            f"{folder}: {error}: the store is damaged or of another version: convert again"
        ) from None
    columns = tuple(columns)
    stored = StoredValues(
        values,
        folder / VALUES,
        tuple(range(len(columns))),
        tuple(about["minimum"]),
        tuple(about["maximum"]),
        tuple(about["missing"]),
        (None,) * len(columns),
    )
    panel = Panel.of_table(dates, stored, columns, about["freq"], utc_offset=utc_offset_of(about))
    return replace(panel, texts=about["texts"])


def check_fits_memory(panel: Panel) -> None:
    """Raise DataError if memory cannot hold a panel on disk and the arrays that examining it needs."""
    rows, columns = panel.values.shape
    needed, free = _WORK * 8 * rows * columns, available()
    if panel.is_on_disk and needed > free:
        raise DataError(
            f"this needs the whole table in memory, about {needed / 2**30:,.1f} GiB, and {free / 2**30:,.1f} GiB are "
            "free: give a smaller file"
        )


def _read_description(file: Path) -> dict[str, Any]:
    try:
        about = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise DataError(f"{file.name} is no JSON") from None
    if not isinstance(about, dict) or about.get("kind") != KIND:
        raise DataError(f"{file.name} does not describe a store")
    if about.get("version") != VERSION:
        raise DataError(f"{file.name} has version {quote(about.get('version'))} of the format, not {VERSION}")
    for key, kind in _KEYS.items():
        if type(about.get(key)) is not kind:
            raise DataError(f"{file.name}: {key} is missing or has the wrong type")
    if type(about.get("utc_offset")) not in (int, type(None)):
        raise DataError(f"{file.name}: utc_offset is neither a whole number of minutes nor null")
    if not is_zone(about.get("timezone")):
        raise DataError(f"{file.name}: timezone is neither a time zone nor null")
    columns, ranges, missing = about["columns"], [about["minimum"], about["maximum"]], about["missing"]
    if not all(isinstance(name, str) for name in columns) or len(set(columns)) < len(columns):
        raise DataError(f"{file.name} has columns without a name of their own")
    numbers = all(type(number) is float and np.isfinite(number) for numbers in ranges for number in numbers)
    counts = all(type(count) is int and 0 <= count < about["rows"] for count in missing)
    lengths = {len(part) for part in (*ranges, missing)}
    for name, texts in about["texts"].items():
        if name not in columns or type(texts) is not list or not all(isinstance(text, str) for text in texts):
            raise DataError(f"{file.name} has texts that belong to no column, or that are no texts")
    if about["rows"] < 1 or not columns or not numbers or not counts or lengths != {len(columns)}:
        raise DataError(f"{file.name}: its columns, ranges and counts do not match")
    return about


def _map(file: Path, shape: tuple[int, ...], dtypes: tuple[str, ...]) -> np.ndarray:
    """The array of a file, mapped into memory for reading, as a plain array: slices of `np.memmap` take longer."""
    if not file.is_file():
        raise DataError(f"{file.name} is missing")
    try:
        with file.open("rb") as stream:
            if npy.read_magic(stream) != (1, 0):
                raise DataError(f"{file.name} is in another version of NumPy's format")
            found, fortran_order, dtype = npy.read_array_header_1_0(stream)
            begin = stream.tell()
    except (ValueError, OSError):
        raise DataError(f"{file.name} is no NumPy array") from None
    if found != shape or fortran_order or dtype.str not in dtypes:
        order = ", column by column" if fortran_order and len(shape) > 1 else ""
        kinds = " or ".join(str(np.dtype(kind)) for kind in dtypes)
        raise DataError(f"{file.name} holds {dtype} {found}{order}, and should hold {kinds} {shape}")
    size, needed = file.stat().st_size, begin + int(np.prod(shape, dtype=object)) * dtype.itemsize
    if size != needed:
        raise DataError(f"{file.name} has {size:,} bytes and should have {needed:,}")
    return np.asarray(np.memmap(file, dtype, "r", begin, shape))


def _check_grid(dates: pd.DatetimeIndex, about: dict[str, Any]) -> None:
    """Raise DataError unless the first dates and the last one are those of the description."""
    first, last = dates[0], dates[-1]
    if (str(first), str(last)) != (about["first_date"], about["last_date"]):
        expected = f"{about['first_date']} to {about['last_date']}"
        raise DataError(f"{DATES} runs from {first} to {last}, and {DESCRIPTION} says {expected}")
    try:
        begin = pd.date_range(first, periods=min(3, len(dates)), freq=parse_frequency(about["freq"]))
    except (ForecastError, ValueError, OverflowError):
        begin = None
    if begin is None or not begin.equals(dates[: len(begin)]):
        raise DataError(f"{DATES} has no dates with the step {quote(about['freq'])}")


class StoreWriter:
    """Writes a store: `append` adds rows to its arrays, and `finish` adds the description."""

    def __init__(self, folder: Path, columns: list[str], dtype: str, unit: str, rows: int) -> None:
        """Open the arrays in `folder` with their first `rows` rows; later rows are removed.

        Args:
            dtype: of the values.
            unit: of the dates.
        """
        self.folder, self.columns, self.rows = folder, columns, rows
        self.unit: Any = unit
        self._arrays = [
            _GrowingArray(folder / VALUES, np.dtype(dtype), (len(columns),), rows),
            _GrowingArray(folder / DATES, np.dtype(f"<M8[{unit}]"), (), rows),
        ]

    def append(self, table: Panel) -> None:
        """Append these rows, and flush them to disk."""
        values, dates = np.asarray(table.values), table.grid.as_unit(self.unit).to_numpy()
        for array, rows in zip(self._arrays, (values, dates), strict=True):
            array.append(rows)
        self.rows += len(table.grid)

    def drop_last(self, rows: int) -> None:
        """Remove the last rows when the store is finished."""
        self.rows -= rows
        for array in self._arrays:
            array.rows -= rows

    def finish(self, **about: Any) -> None:
        """Write the length of the arrays into their headers, and the description `about` the store."""
        for array in self._arrays:
            array.close()
        description = {"kind": KIND, "version": VERSION, "rows": self.rows, "columns": self.columns, **about}
        write_json(self.folder / DESCRIPTION, description)


class _GrowingArray:
    """An .npy file to which rows are appended. The header of NumPy has room for a larger number of rows."""

    def __init__(self, path: Path, dtype: np.dtype, row: tuple[int, ...], rows: int) -> None:
        self._dtype, self._row, self.rows = dtype, row, rows
        path.touch()
        self._file = path.open("r+b")
        self._write_header()
        self._file.truncate(self._file.tell() + rows * dtype.itemsize * int(np.prod(row)))
        self._file.seek(0, os.SEEK_END)

    def _write_header(self) -> None:
        header = {"descr": self._dtype.str, "fortran_order": False, "shape": (self.rows, *self._row)}
        self._file.seek(0)
        npy.write_array_header_1_0(self._file, header)

    def append(self, rows: np.ndarray) -> None:
        with np.errstate(over="ignore"):
            self._file.write(rows.astype(self._dtype).tobytes())
        self.rows += len(rows)
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._write_header()
        self._file.truncate(self._file.tell() + self.rows * self._dtype.itemsize * int(np.prod(self._row)))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
