"""Conversion of a file to a store, chunk by chunk, with the checks of the table reader on every row.

The conversion writes into a hidden folder beside the store, and saves a note of its progress after every chunk. If it
is interrupted, it resumes after the last complete chunk and gives the same bytes. The store appears once complete.
"""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from jaxtyping import Int64

from forecast.data.files.align import align
from forecast.data.files.cells import quote
from forecast.data.files.grid import Spacing
from forecast.data.files.table_rows import TableRows
from forecast.data.panel import Panel
from forecast.data.store.chunks import Chunk, Chunks
from forecast.data.store.column_kinds import ColumnKinds, LateText
from forecast.data.store.format import StoreWriter
from forecast.data.store.note import NOTE, Note, read_note
from forecast.system.errors import ConfigError, DataError, ForecastError

LOCK = ".lock"


class RoundedTooFar(Exception):
    """Rounding to float32 changes a column by more than `ranges.ROUNDED` allows."""


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
            note = read_note(partial, identity)
            if note.position is not None:
                write_message(f"resumes at row {note.ranges.rows + 1:,}")
            note = _write(chunks, partial, note, freq, write_message, show_progress)
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


def _write(
    chunks: Chunks,
    partial: Path,
    note: Note,
    freq: str | None,
    write_message: Callable[[str], None],
    show_progress: Callable[[int], None],
) -> Note:
    """Write the rest of the file, or the whole file again where a chunk shows that rows above need another form."""
    while True:
        try:
            _write_rest(chunks, partial, note, freq, show_progress)
            return note
        except RoundedTooFar:
            write_message("float32 is not exact enough for a column: starting again in float64")
            dtype, texts = "<f8", list(note.kinds.texts)
        except LateText as found:
            named = ", ".join(map(quote, found.names))
            write_message(f"text in column {named}, which had none above: starting again")
            dtype, texts = note.dtype, [*note.kinds.texts, *found.names]
        note = Note(note.identity, dtype, kinds=ColumnKinds({name: [] for name in texts}))


def _write_rest(
    chunks: Chunks,
    partial: Path,
    note: Note,
    freq: str | None,
    show_progress: Callable[[int], None],
) -> None:
    """Write the rest of the file. Raises RoundedTooFar if float32 is not exact enough for its numbers."""
    writer = None
    if note.columns:
        writer = StoreWriter(partial, note.columns, note.dtype, note.unit, note.ranges.rows)
    chunks.kinds = note.kinds
    for chunk in chunks.read(note.position):
        table = _checked(chunk, note, freq, chunks.duplicates)
        note.freq, note.last_date, note.position = table.freq, str(table.grid[-1]), chunk.position
        table = _from_first_value(table, note)
        if table is not None:
            ranges = note.ranges.add(np.asarray(table.values))
            if note.dtype == "<f4" and not ranges.fit_float32():
                raise RoundedTooFar
            if writer is None:
                _describe_first(table, note)
                writer = StoreWriter(partial, note.columns, note.dtype, note.unit, 0)
            writer.append(table)
            note.ranges = ranges
            _count_empty_end(table, note)
        note.save(partial)
        show_progress(chunk.done)
    if writer is None:
        raise DataError(f"{chunks.path}: no row has a value")
    _finish(chunks.path, writer, note)


def _describe_first(table: Panel, note: Note) -> None:
    """Note what the first rows with a value say of the store."""
    note.columns = list(table.columns)
    note.utc_offset, note.timezone = table.utc_offset.minutes, table.utc_offset.timezone
    note.first_date = str(table.grid[0])
    note.unit = "ns" if table.grid.unit == "ns" else "us"


def _finish(path: Path, writer: StoreWriter, note: Note) -> None:
    """Remove the rows after the last value and describe the store. Raises DataError for a column without values."""
    writer.drop_last(note.empty_end)
    note.ranges, note.last_date = (
        note.ranges.without(note.empty_end, note.empty_end_missing),
        note.last_value_date,
    )
    for name, missing in zip(note.columns, note.ranges.missing, strict=True):
        if missing == note.ranges.rows:
            raise DataError(f"{path}: column {quote(name)} has no value: leave it out (data.columns)")
    about = ("freq", "utc_offset", "timezone", "first_date", "last_date")
    writer.finish(
        **{key: getattr(note, key) for key in about},
        minimum=note.ranges.minimum,
        maximum=note.ranges.maximum,
        missing=note.ranges.missing,
        texts=note.kinds.texts,
    )


def _find_filled(table: Panel) -> Int64[np.ndarray, " rows"]:
    """The rows with a number or a text."""
    is_text, values = [name in table.texts for name in table.columns], np.asarray(table.values)
    return np.flatnonzero(np.where(is_text, values >= 0, np.isfinite(values)).any(axis=1))


def _from_first_value(table: Panel, note: Note) -> Panel | None:
    """Leave out the rows before the first value of the file, and count them; None: no row is left."""
    if note.columns:
        return table
    measured = _find_filled(table)
    empty = int(measured[0]) if len(measured) else len(table.grid)
    note.empty_begin += empty
    if not len(measured):
        return None
    return table.take_rows(np.zeros(1, dtype=np.int64), table.starts + empty, table.stops, table.ends)


def _count_empty_end(table: Panel, note: Note) -> None:
    """Count the rows after the last value so far, and the missing values in them."""
    measured, end = _find_filled(table), 0
    if len(measured):
        end = int(measured[-1]) + 1
        note.empty_end, note.empty_end_missing = 0, [0] * len(note.columns)
        note.last_value_date = str(table.grid[end - 1])
    note.empty_end += len(table.grid) - end
    missing = np.isnan(np.asarray(table.values)[end:]).sum(axis=0) + note.empty_end_missing
    note.empty_end_missing = missing.tolist()


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
    return table.take_rows(np.zeros(1, dtype=np.int64), table.starts + 1, table.stops, table.ends)


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
