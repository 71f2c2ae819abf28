"""Conversion of a file to a store, chunk by chunk, with the checks of the table reader on every row."""

import contextlib
import json
import math
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from filelock import FileLock, Timeout
from jaxtyping import Float64

from forecast.data.files.columns import list_id_columns, name_ids
from forecast.data.files.grid import Spacing, align
from forecast.data.files.table_rows import TableRows
from forecast.data.files.text import quote
from forecast.data.panel import Panel
from forecast.data.store.chunks import Chunk, Chunks, ColumnKinds, LateText
from forecast.data.store.format import StoreWriter, Unit
from forecast.data.store.series_progress import Removed, SeriesProgress, advise_on_order, refuse_interleaved
from forecast.system.errors import ConfigError, DataError, ForecastError, RowOrderError
from forecast.system.files import named_in_errors, write_json

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

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> "Ranges":
        """Return the statistics from JSON, in which NaN, the range of a column without values, is null."""
        known = {
            name: [math.nan if number is None else number for number in saved[name]]
            for name in ("minimum", "maximum")
        }
        return cls(**{**saved, **known})

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

    def without(self, rows: int, missing: list[int]) -> "Ranges":
        """Return the statistics without some rows that have no number; `missing` are their missing values."""
        left = [mine - other for mine, other in zip(self.missing, missing, strict=True)]
        return replace(self, rows=self.rows - rows, missing=left)

    def fit_float32(self) -> bool:
        """Return whether float32 is exact enough for every column. Constant columns are not counted."""
        count = np.maximum(self.rows - np.array(self.missing), 1)
        standard_deviation = np.sqrt(np.array(self.squares) / count)
        largest = np.nanmax(np.abs([*self.minimum, *self.maximum, 0.0]))
        holds = largest <= np.finfo(np.float32).max
        return bool(holds and (self.lost <= ROUNDED * standard_deviation)[standard_deviation > 0].all())


NOTE = "progress.json"


@dataclass
class Note:
    """Progress of a conversion: everything that resuming needs, as JSON values."""

    identity: dict[str, Any]  # of the file and the options
    dtype: str = "<f4"
    unit: Unit = "us"
    position: dict[str, Any] | None = None  # of the next chunk
    columns: list[str] = field(default_factory=list)
    date_column: str = ""
    freq: str | None = None
    dated: dict[str, Any] = field(default_factory=dict)  # `UtcOffset.state` of its dates
    series: SeriesProgress = field(default_factory=SeriesProgress)
    ranges: Ranges = field(default_factory=Ranges)
    kinds: ColumnKinds = field(default_factory=ColumnKinds)

    def save(self, partial: Path) -> None:
        """Write the note into the folder of an incomplete store."""
        write_json(partial / NOTE, asdict(self))


def read_note(partial: Path, identity: dict[str, Any]) -> Note:
    """Return the note of an interrupted conversion of the same file, else a new one."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        saved = json.loads((partial / NOTE).read_text())
        if saved["identity"] == identity:
            parts = {
                "ranges": Ranges.from_json(saved["ranges"]),
                "kinds": ColumnKinds(**saved["kinds"]),
                "series": SeriesProgress(**saved["series"]),
            }
            return Note(**{**saved, **parts})
    (partial / NOTE).unlink(missing_ok=True)
    return Note(identity)


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
            with named_in_errors(output):
                note = _write(chunks, partial, note, freq, write_message, show_progress)
            found = note.series
            if found.empty_begin or found.empty_end:
                write_message(
                    f"{found.empty_begin:,} rows before the first value and {found.empty_end:,} rows after the last "
                    "one are left out"
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
    former = output.with_name(f".{output.name}.former")
    shutil.rmtree(former, ignore_errors=True)  # of a conversion that was killed
    if output.exists():
        output.rename(former)
    for name in (NOTE, LOCK):
        (partial / name).unlink()
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
        writer = StoreWriter(partial, note.columns, note.dtype, note.ranges.rows)
    chunks.kinds = note.kinds
    for chunk in chunks.read(note.position):
        table = _checked(chunk, note, freq, chunks)
        removed, kept = note.series.add(str(chunks.path), table)
        note.freq, note.position = table.freq, chunk.position
        if writer is None:
            _describe_first(table, note)
            writer = StoreWriter(partial, note.columns, note.dtype, 0)
        _remove(removed, writer, note)
        if len(kept):
            values = np.asarray(table.values)[kept]
            note.ranges = note.ranges.add(values)
            if note.dtype == "<f4" and not note.ranges.fit_float32():
                raise RoundedTooFar
            writer.append(values)
        note.save(partial)
        show_progress(chunk.done)
    assert writer is not None  # a file without rows is refused
    _remove(note.series.end(str(chunks.path)), writer, note)
    _finish(chunks.path, writer, note)


def _describe_first(table: Panel, note: Note) -> None:
    """Note what the first rows say of the store."""
    note.columns, note.date_column = list(table.columns), str(table.grid.name)
    note.dated = table.utc_offset.state
    note.unit = "ns" if table.grid.unit == "ns" else "us"


def _remove(removed: Removed, writer: StoreWriter, note: Note) -> None:
    """Remove rows without a value from the end of the store."""
    if removed.rows:
        writer.drop_last(removed.rows)
        note.ranges = note.ranges.without(*removed)


def _finish(path: Path, writer: StoreWriter, note: Note) -> None:
    """Describe the store. Raises DataError for a column without values."""
    for name, missing in zip(note.columns, note.ranges.missing, strict=True):
        if missing == note.ranges.rows:
            raise DataError(f"{path}: column {quote(name)} has no value: leave it out (data.columns)")
    writer.finish(
        freq=str(note.freq),
        first=min(note.series.first_dates),
        last=note.series.last_date,
        unit=note.unit,
        date_column=note.date_column,
        **note.dated,
        id_column=name_ids(list_id_columns(note.identity["options"].get("id_column"))),
        ids=note.series.ids,
        lengths=note.series.lengths,
        first_dates=note.series.first_dates,
        minimum=note.ranges.minimum,
        maximum=note.ranges.maximum,
        missing=note.ranges.missing,
        texts=note.kinds.texts,
    )


def _checked(chunk: Chunk, note: Note, freq: str | None, chunks: Chunks) -> Panel:
    """Check that the rows of the chunk continue the grid of the rows above, and return them."""
    rows, known = chunk.rows, note.series
    if known.open_id is not None:  # the row above comes along, and goes again
        rows = _prepend(rows, known.open_id, np.datetime64(known.read_until, "ns"))
    refuse_interleaved(rows, known, chunks)
    try:
        table = align(
            rows, Spacing(note.freq or freq), sort=False, duplicates=chunks.duplicates, is_part=True
        )
    except RowOrderError as error:
        raise DataError(f"{error.fact}: {advise_on_order(error, rows, chunks)}") from None
    if known.open_id is None:
        return table
    first = table.starts + (np.arange(len(table)) == 0)
    left = np.flatnonzero(first < table.stops)
    if not len(left):
        raise DataError(f"{rows.cells.path}: no row follows {known.read_until}")
    return table.take_rows(left, first[left], table.stops[left], table.ends[left])


def _prepend(rows: TableRows, series: str, date: np.datetime64) -> TableRows:
    """The rows below one more row, which has no values."""
    none = np.full((1, rows.values.shape[1]), np.nan)
    ids = rows.ids if series in rows.ids else rows.ids.append(pd.Index([series]))
    return replace(
        rows,
        cells=replace(rows.cells, first_line=rows.cells.first_line - 1),
        ids=ids,
        codes=np.append(ids.get_indexer([series]), rows.codes).astype(np.int32),
        dates=np.concatenate([[date], rows.dates]),
        values=np.concatenate([none, rows.values]),
        future=np.empty((len(rows) + 1, 0)),
    )
