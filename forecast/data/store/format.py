"""The format of a store: a panel on disk that is mapped into memory, and its writer."""

import json
import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.lib import format as npy

from forecast.data.files.text import quote
from forecast.data.panel import Panel
from forecast.data.row_ranges import PerSeries, StoredValues
from forecast.data.time_features import date_range
from forecast.data.utc_offset import is_zone, utc_offset_of
from forecast.system.errors import DataError, ForecastError, user_path
from forecast.system.files import write_json
from forecast.system.memory import available

_WORK = 5
"""Memory that examining a table takes, as a multiple of its size."""

KIND, VERSION = "forecast.store", 2
DESCRIPTION, VALUES, DATES = "store.json", "values.npy", "dates.npy"
PARTS = {DESCRIPTION, VALUES, DATES}
_KEYS = {
    "columns": list, "minimum": list, "maximum": list, "missing": list, "freq": str, "texts": dict,
    "ids": list, "lengths": list, "first_dates": list, "dates": int, "date_column": str,
}  # fmt: skip


def is_store(path: str | Path) -> bool:
    return (user_path(path) / DESCRIPTION).is_file()


def open_store(path: str | Path) -> Panel:
    """The panel in the folder `path`, with its values on disk. Raises DataError for a damaged or incomplete store."""
    folder = user_path(path)
    if not is_store(folder):
        what = "no such store" if not folder.exists() else f"no store (it has no {DESCRIPTION})"
        raise DataError(f"{folder}: {what}: make one by python -m forecast.convert data.path=FILE")
    try:
        about = _read_description(folder / DESCRIPTION)
        columns, lengths = tuple(about["columns"]), np.array(about["lengths"], dtype=np.int64)
        values = _map(folder / VALUES, (int(lengths.sum()), len(columns)), ("<f4", "<f8"))
        dates = _map(folder / DATES, (about["dates"],), ("<M8[us]", "<M8[ns]"))
        grid = pd.DatetimeIndex(dates, copy=False, name=about["date_column"])
        grid_starts = _check_grid(grid, about, lengths)
    except DataError as error:
        raise DataError(
            f"{folder}: {error}: the store is damaged or of another version: convert again"
        ) from None
    stored = StoredValues(
        values,
        folder / VALUES,
        tuple(range(len(columns))),
        tuple(about["minimum"]),
        tuple(about["maximum"]),
        tuple(about["missing"]),
        (None,) * len(columns),
    )
    ids, stops = pd.Index(about["ids"], dtype=str, name=about["id_column"]), lengths.cumsum()
    return Panel(
        ids=ids, grid=grid, freq=about["freq"], grid_starts=grid_starts, starts=stops - lengths, ends=stops,
        stops=stops, targets=columns, values=stored, static=pd.DataFrame(index=ids), utc_offset=utc_offset_of(about),
        texts=about["texts"],
    )  # fmt: skip


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
    for key in ("utc_offset", "stamp"):
        if type(about.get(key)) not in (int, type(None)):
            raise DataError(f"{file.name}: {key} is neither a whole number nor null")
    if not is_zone(about.get("timezone")):
        raise DataError(f"{file.name}: timezone is neither a time zone nor null")
    for name, texts in about["texts"].items():
        if name not in about["columns"] or not _are_texts(texts):
            raise DataError(f"{file.name} has texts that belong to no column, or that are no texts")
    if not (_describes_columns(about) and _describes_series(about)):
        raise DataError(f"{file.name}: its columns, ranges and counts do not match")
    return about


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _describes_columns(about: dict[str, Any]) -> bool:
    """Whether the names, ranges and numbers of missing values are possible and belong together."""
    columns, missing, ranges = about["columns"], about["missing"], [*about["minimum"], *about["maximum"]]
    lengths = {len(about[key]) for key in ("minimum", "maximum", "missing", "columns")}
    return (
        _are_texts(columns)
        and len(lengths) == 1
        and 0 < len(columns) == len(set(columns))
        and all(type(number) is float and np.isfinite(number) for number in ranges)
        and all(type(count) is int and count >= 0 for count in missing)
    )


def _describes_series(about: dict[str, Any]) -> bool:
    """Whether the ids, lengths and first dates are possible and belong together."""
    ids, lengths, dates = about["ids"], about["lengths"], about["first_dates"]
    return (
        _are_texts([*ids, *dates])
        and 0 < len(ids) == len(set(ids)) == len(lengths) == len(dates)
        and all(type(length) is int and 0 < length <= about["dates"] for length in lengths)
        and type(about.get("id_column")) in (str, type(None))
        and max(about["missing"]) < sum(lengths)
    )


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


def _check_grid(dates: pd.DatetimeIndex, about: dict[str, Any], lengths: PerSeries) -> PerSeries:
    """The position of the first date of each series. Raises DataError unless all dates of the series are there."""
    try:
        begin = date_range(dates[0], periods=min(3, len(dates)), freq=about["freq"])
    except (ForecastError, ValueError, OverflowError):
        begin = None
    if begin is None or not begin.equals(dates[: len(begin)].rename(None)):
        raise DataError(f"{DATES} has no dates with the step {quote(about['freq'])}")
    try:
        firsts = pd.DatetimeIndex(pd.to_datetime(about["first_dates"], format="ISO8601")).as_unit(dates.unit)
    except (ValueError, OverflowError):
        raise DataError(f"{DESCRIPTION}: first_dates has texts that are no dates") from None
    places = np.searchsorted(dates.to_numpy(), firsts.to_numpy()).astype(np.int64)
    found = dates.to_numpy()[places.clip(max=len(dates) - 1)] == firsts.to_numpy()
    if not found.all() or places.min() > 0 or (places + lengths).max() != len(dates):
        raise DataError(f"{DATES} has other dates than the series of {DESCRIPTION}")
    return places


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
