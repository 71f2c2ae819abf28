"""The format of a store: a panel on disk that is mapped into memory, so that rows are read when a window needs them.

A store is a folder with two NumPy arrays and a description:

    values.npy   (rows, columns), float32 or float64, in original units; NaN is a missing value. The rows of a
                 series are adjacent. A column of text holds codes: the position of the text in `texts`, −1 where the
                 cell is empty
    dates.npy    (dates,), datetime64, evenly spaced, from the first date of any series to the last
    store.json   the names, value ranges and numbers of missing values of the columns; the texts of each column of text,
                 in order of appearance; the ids of the series, their numbers of rows and their first dates; the step
                 between rows; the UTC offset of the dates

The columns of a row are adjacent, so a window is one contiguous block of the file. The operating system caches the
pages that were read, and all processes share them. NumPy reads the arrays without pickle: a store cannot run code.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.lib import format as npy

from forecast.data.files.cells import quote
from forecast.data.panel import Panel
from forecast.data.row_ranges import PerSeries
from forecast.data.stored_values import StoredValues
from forecast.data.time_features import date_range
from forecast.data.utc_offset import is_zone, utc_offset_of
from forecast.system.errors import DataError, ForecastError
from forecast.system.memory import available
from forecast.system.paths import user_path

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
