"""Conversion of a file to a store, chunk by chunk, with the checks of the table reader on every row.

The conversion writes into a hidden folder beside the store, and saves a note of its progress after every chunk. If it
is interrupted, it resumes after the last complete chunk and gives the same bytes. The store appears once complete.
"""

import contextlib
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from jaxtyping import Float64

from forecast.data.files.align import align
from forecast.data.files.cells import quote
from forecast.data.files.grid import Spacing
from forecast.data.files.table_rows import TableRows
from forecast.data.panel import Panel
from forecast.data.store.chunks import Chunk, Chunks
from forecast.data.store.format import StoreWriter
from forecast.system.errors import ConfigError, DataError, ForecastError
from forecast.system.files import write_json

NOTE, LOCK = "progress.json", ".lock"
ROUNDED = 1e-4
"""Largest rounding error of float32, as a fraction of the column's standard deviation."""


@dataclass
class Ranges:
    """Statistics of each column so far; missing values do not count, except in `rows` and `missing`.

    count, mean, squares: number of values and their moments (Chan, Golub and LeVeque 1979); lost: largest rounding
    error of float32.
    """

    rows: int = 0
    missing: list[int] = field(default_factory=list)
    mean: list[float] = field(default_factory=list)
    squares: list[float] = field(default_factory=list)
    minimum: list[float] = field(default_factory=list)
    maximum: list[float] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)

    def add(self, values: Float64[np.ndarray, "rows columns"]) -> "Ranges":
        """Return the statistics with more rows included."""
        rows, measured = len(values), np.isfinite(values)
        size, missing = measured.sum(0), (~measured).sum(0)
        mean = np.where(measured, values, 0).sum(0) / np.maximum(size, 1)
        squares = np.square(np.where(measured, values - mean, 0)).sum(0)
        lowest, highest = np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)
        with np.errstate(over="ignore"):
            lost = np.where(measured, np.abs(values - values.astype(np.float32)), 0).max(0)
        if self.rows > 0:
            before = self.rows - np.array(self.missing)
            total, step = np.maximum(before + size, 1), mean - self.mean
            squares = self.squares + squares + step**2 * before * size / total
            mean = self.mean + step * size / total
            lowest, highest = np.fmin(self.minimum, lowest), np.fmax(self.maximum, highest)
            lost, missing = np.maximum(self.lost, lost), self.missing + missing
        numbers = (mean, squares, lowest, highest, lost)
        return Ranges(self.rows + rows, missing.tolist(), *(part.tolist() for part in numbers))

    def fit_float32(self) -> bool:
        """Return whether float32 is exact enough for every column. Constant columns are not counted."""
        count = np.maximum(self.rows - np.array(self.missing), 1)
        standard_deviation = np.sqrt(np.array(self.squares) / count)
        largest = np.nanmax(np.abs([*self.minimum, *self.maximum, 0.0]))
        holds = largest <= np.finfo(np.float32).max
        return bool(holds and (self.lost <= ROUNDED * standard_deviation)[standard_deviation > 0].all())


@dataclass
class Note:
    """Progress of a conversion: everything that resuming needs, as JSON values."""

    identity: dict[str, Any]  # of the file and the options
    dtype: str = "<f4"
    unit: str = "us"
    position: dict[str, Any] | None = None  # of the next chunk
    columns: list[str] = field(default_factory=list)
    freq: str | None = None
    utc_offset: int | None = None
    timezone: str | None = None
    first_date: str = ""
    last_date: str = ""
    ranges: Ranges = field(default_factory=Ranges)


def convert(
    chunks: Chunks,
    output: Path,
    *,
    freq: str | None,
    options: dict[str, Any],
    said: Callable[[str], None],
    shown: Callable[[int], None],
) -> Note:
    """Convert a file to the store `output`, or resume a conversion that was begun with the same `options`.

    `said` receives messages, `shown` the progress out of `chunks.total`.

    Raises:
        DataError: a file that `read_table` would refuse.
        ConfigError: another conversion is writing the same store.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    partial = output.with_name(f".{output.name}.partial")
    partial.mkdir(exist_ok=True)
    try:
        with FileLock(partial / LOCK, timeout=0):
            stat = chunks.path.stat()
            identity = {"bytes": stat.st_size, "modified": stat.st_mtime_ns, "options": options}
            note = _begun(partial, identity)
            if note.position is not None:
                said(f"resumes at row {note.ranges.rows + 1:,}")
            while not _pour(chunks, partial, note, freq, shown):
                said("float32 is not exact enough for a column: starting again in float64")
                note = Note(identity, dtype="<f8")
            for name in (NOTE, LOCK):
                (partial / name).unlink()
            former = output.with_name(f".{output.name}.former")
            if output.exists():
                output.rename(former)
            partial.rename(output)
            shutil.rmtree(former, ignore_errors=True)
    except Timeout:
        raise ConfigError(
            f"{output}: another conversion is writing it: wait for its end, or give another output"
        ) from None
    except ForecastError:  # resuming would fail again
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return note


def _begun(partial: Path, identity: dict[str, Any]) -> Note:
    """Return the note of an interrupted conversion of the same file, else a new one."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        saved = json.loads((partial / NOTE).read_text())
        if saved["identity"] == identity:
            return Note(**{**saved, "ranges": Ranges(**saved["ranges"])})
    (partial / NOTE).unlink(missing_ok=True)
    return Note(identity)


def _pour(
    chunks: Chunks,
    partial: Path,
    note: Note,
    freq: str | None,
    shown: Callable[[int], None],
) -> bool:
    """Write the rest of the file. Return False if float32 is not exact enough for its numbers."""
    writer = None
    if note.position is not None:
        writer = StoreWriter(partial, note.columns, note.dtype, note.unit, note.ranges.rows)
    for chunk in chunks.read(note.position):
        table = _checked(chunk, note, freq, chunks.duplicates)
        values = np.asarray(table.values)
        ranges = note.ranges.add(values)
        if note.dtype == "<f4" and not ranges.fit_float32():
            return False
        if writer is None:
            note.columns = list(table.columns)
            note.utc_offset, note.timezone = table.clock.utc_offset, table.clock.timezone
            note.first_date = str(table.grid[0])
            note.unit = "ns" if table.grid.unit == "ns" else "us"
            writer = StoreWriter(partial, note.columns, note.dtype, note.unit, 0)
        writer.append(table)
        note.freq, note.last_date = table.freq, str(table.grid[-1])
        note.position, note.ranges = chunk.position, ranges
        write_json(partial / NOTE, asdict(note))
        shown(chunk.done)
    assert writer is not None, "a file without rows is refused"
    for name, missing in zip(note.columns, note.ranges.missing, strict=True):
        if missing == note.ranges.rows:
            raise DataError(f"{chunks.path}: column {quote(name)} has no value: leave it out (data.columns)")
    about = ("freq", "utc_offset", "timezone", "first_date", "last_date")
    writer.finish(
        **{key: getattr(note, key) for key in about},
        minimum=note.ranges.minimum,
        maximum=note.ranges.maximum,
        missing=note.ranges.missing,
    )
    return True


def _checked(chunk: Chunk, note: Note, freq: str | None, duplicates: str | None) -> Panel:
    """Check that the rows of the chunk continue the grid of the rows above, and return them."""
    rows = chunk.rows
    if note.position is not None:  # the row above comes along, and goes again
        rows = _prepend(rows, np.datetime64(note.last_date, "ns"))
    table = align(rows, Spacing(note.freq or freq), sort=False, duplicates=duplicates, is_part=True)
    if note.position is None:
        return table
    if len(table.grid) < 2:
        raise DataError(f"{rows.cells.path}: no row follows {note.last_date}")
    values = np.asarray(table.values)[1:]
    return Panel.of_table(table.grid[1:], values, table.columns, table.freq, clock=table.clock)


def _prepend(rows: TableRows, date: np.datetime64) -> TableRows:
    """The rows below one more row, which has no values."""
    none = np.full((1, rows.values.shape[1]), np.nan)
    return replace(
        rows,
        cells=replace(rows.cells, first_line=rows.cells.first_line - 1),
        codes=np.zeros(len(rows) + 1, dtype=np.int32),
        dates=np.concatenate([[date], rows.dates]),
        values=np.concatenate([none, rows.values]),
        future=np.empty((len(rows) + 1, 0)),
    )
