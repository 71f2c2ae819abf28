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

from forecast.data.files.align import align
from forecast.data.files.cells import quote
from forecast.data.files.grid import Spacing
from forecast.data.files.table_rows import TableRows
from forecast.data.panel import Panel
from forecast.data.store.chunks import Chunk, Chunks
from forecast.data.store.format import StoreWriter
from forecast.data.store.ranges import Ranges
from forecast.system.errors import ConfigError, DataError, ForecastError
from forecast.system.files import write_json

NOTE, LOCK = "progress.json", ".lock"


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
    last_date: str = ""  # of the rows read so far, then of the store
    last_value_date: str = ""
    empty_begin: int = 0  # rows before the first value, which are left out
    empty_end: int = 0  # rows after the last value so far
    ranges: Ranges = field(default_factory=Ranges)


def convert(
    chunks: Chunks,
    output: Path,
    *,
    freq: str | None,
    options: dict[str, Any],
    write_message: Callable[[str], None],
    show_progress: Callable[[int], None],
) -> Note:
    """Convert a file to the store `output`, or resume a conversion that was begun with the same `options`.

    Args:
        chunks: the file.
        output: the folder of the store.
        freq: step between rows; None: inferred.
        options: the settings of the conversion.
        write_message: writes a message to the user.
        show_progress: shows how much of `chunks.total` is done.

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
                write_message(f"resumes at row {note.ranges.rows + 1:,}")
            while not _write_rest(chunks, partial, note, freq, show_progress):
                write_message("float32 is not exact enough for a column: starting again in float64")
                note = Note(identity, dtype="<f8")
            if note.empty_begin or note.empty_end:
                write_message(
                    f"{note.empty_begin:,} rows before the first value and {note.empty_end:,} rows after the last one "
                    "are left out"
                )
            _put_in_place(partial, output)
    except Timeout:
        raise ConfigError(
            f"{output}: another conversion is writing it: wait for its end, or give another output"
        ) from None
    except ForecastError:  # resuming would fail again
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return note


def _put_in_place(partial: Path, output: Path) -> None:
    """Make the finished store the folder `output`, whose former content is removed."""
    for name in (NOTE, LOCK):
        (partial / name).unlink()
    former = output.with_name(f".{output.name}.former")
    if output.exists():
        output.rename(former)
    partial.rename(output)
    shutil.rmtree(former, ignore_errors=True)


def _begun(partial: Path, identity: dict[str, Any]) -> Note:
    """Return the note of an interrupted conversion of the same file, else a new one."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        saved = json.loads((partial / NOTE).read_text())
        if saved["identity"] == identity:
            return Note(**{**saved, "ranges": Ranges.from_json(saved["ranges"])})
    (partial / NOTE).unlink(missing_ok=True)
    return Note(identity)


def _write_rest(
    chunks: Chunks,
    partial: Path,
    note: Note,
    freq: str | None,
    show_progress: Callable[[int], None],
) -> bool:
    """Write the rest of the file. Return False if float32 is not exact enough for its numbers."""
    writer = None
    if note.columns:
        writer = StoreWriter(partial, note.columns, note.dtype, note.unit, note.ranges.rows)
    for chunk in chunks.read(note.position):
        table = _checked(chunk, note, freq, chunks.duplicates)
        note.freq, note.last_date, note.position = table.freq, str(table.grid[-1]), chunk.position
        table = _from_first_value(table, note)
        if table is not None:
            ranges = note.ranges.add(np.asarray(table.values))
            if note.dtype == "<f4" and not ranges.fit_float32():
                return False
            if writer is None:
                _describe_first(table, note)
                writer = StoreWriter(partial, note.columns, note.dtype, note.unit, 0)
            writer.append(table)
            note.ranges = ranges
            _count_empty_end(table, note)
        write_json(partial / NOTE, asdict(note))
        show_progress(chunk.done)
    if writer is None:
        raise DataError(f"{chunks.path}: no row has a value")
    _finish(chunks.path, writer, note)
    return True


def _describe_first(table: Panel, note: Note) -> None:
    """Note what the first rows with a value say of the store."""
    note.columns = list(table.columns)
    note.utc_offset, note.timezone = table.utc_offset.minutes, table.utc_offset.timezone
    note.first_date = str(table.grid[0])
    note.unit = "ns" if table.grid.unit == "ns" else "us"


def _finish(path: Path, writer: StoreWriter, note: Note) -> None:
    """Remove the rows after the last value and describe the store. Raises DataError for a column without values."""
    writer.drop_last(note.empty_end)
    note.ranges, note.last_date = note.ranges.without(note.empty_end), note.last_value_date
    for name, missing in zip(note.columns, note.ranges.missing, strict=True):
        if missing == note.ranges.rows:
            raise DataError(f"{path}: column {quote(name)} has no value: leave it out (data.columns)")
    about = ("freq", "utc_offset", "timezone", "first_date", "last_date")
    writer.finish(
        **{key: getattr(note, key) for key in about},
        minimum=note.ranges.minimum,
        maximum=note.ranges.maximum,
        missing=note.ranges.missing,
    )


def _from_first_value(table: Panel, note: Note) -> Panel | None:
    """Leave out the rows before the first value of the file, and count them; None: no row is left."""
    if note.columns:
        return table
    measured = np.flatnonzero(np.isfinite(table.values).any(axis=1))
    empty = int(measured[0]) if len(measured) else len(table.grid)
    note.empty_begin += empty
    if not len(measured):
        return None
    return table.take_rows(np.zeros(1, dtype=np.int64), table.starts + empty, table.stops, table.ends)


def _count_empty_end(table: Panel, note: Note) -> None:
    """Count the rows after the last value so far."""
    measured = np.flatnonzero(np.isfinite(table.values).any(axis=1))
    note.empty_end += len(table.grid)
    if len(measured):
        note.empty_end = len(table.grid) - 1 - int(measured[-1])
        note.last_value_date = str(table.grid[measured[-1]])


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
    return Panel.of_table(table.grid[1:], values, table.columns, table.freq, utc_offset=table.utc_offset)


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
