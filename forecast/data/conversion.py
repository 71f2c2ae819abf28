"""From a file in chunks to a store, every row checked as the table reader checks it.

What is written goes into a hidden folder beside the store, with a note of how far it came after every chunk. A
conversion that was stopped goes on at the last whole chunk and ends with the same bytes; the store appears whole.
"""

import contextlib
import json
import shutil
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from filelock import FileLock, Timeout
from jaxtyping import Float64

from forecast.data.chunks import Chunk, Chunks
from forecast.data.csvfile import Cells
from forecast.data.store import StoreWriter
from forecast.data.table import FILLS, Table, check_rows
from forecast.errors import ConfigError, DataError, ForecastError
from forecast.files import write_json

NOTE, LOCK = "progress.json", ".lock"
ROUNDED = 1e-4
"""Of a column's deviation: rounding to float32 that loses more is not done."""


@dataclass
class Ranges:
    """Of each column so far: the range, the moments (Chan, Golub and LeVeque 1979), and what float32 loses at most."""

    rows: int = 0
    mean: list[float] = field(default_factory=list)
    squares: list[float] = field(default_factory=list)
    minimum: list[float] = field(default_factory=list)
    maximum: list[float] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)

    def add(self, values: Float64[np.ndarray, "rows columns"]) -> "Ranges":
        """With these rows too."""
        rows, mean = len(values), values.mean(0)
        squares = np.square(values - mean).sum(0)
        with np.errstate(over="ignore"):
            lost = np.abs(values - values.astype(np.float32)).max(0)
        if self.rows == 0:
            parts = mean, squares, values.min(0), values.max(0), lost
            return Ranges(rows, *(np.nan_to_num(part).tolist() for part in parts))
        total, step = self.rows + rows, mean - self.mean
        parts = (
            self.mean + step * rows / total,
            self.squares + squares + step**2 * self.rows * rows / total,
            np.minimum(self.minimum, values.min(0)),
            np.maximum(self.maximum, values.max(0)),
            np.maximum(self.lost, lost),
        )
        return Ranges(total, *(np.nan_to_num(part).tolist() for part in parts))

    def fit_float32(self) -> bool:
        """Whether rounding loses little beside every column's deviation; a constant column has none to lose."""
        deviation = np.sqrt(np.array(self.squares) / self.rows)
        largest = max(map(abs, (*self.minimum, *self.maximum)))
        holds = largest <= np.finfo(np.float32).max
        return bool(holds and (self.lost <= ROUNDED * deviation)[deviation > 0].all())


@dataclass
class Note:
    """How far a conversion came: everything that going on needs, as plain values."""

    identity: dict[str, Any]  # of the file and the options
    dtype: str = "<f4"
    unit: str = "us"
    position: dict[str, Any] | None = None  # of the next chunk
    columns: list[str] = field(default_factory=list)
    freq: str | None = None
    clock: int | None = None
    first_date: str = ""
    last_date: str = ""
    last_values: list[float] = field(default_factory=list)
    missing: int = 0  # numbers that were filled
    ranges: Ranges = field(default_factory=Ranges)


def convert(
    chunks: Chunks,
    output: Path,
    *,
    freq: str | None,
    fill: str | None,
    options: dict[str, Any],
    said: Callable[[str], None],
    shown: Callable[[int], None],
) -> Note:
    """Make the store `output` of a file, or finish one that was begun with the same `options`.

    `said` is told what happens, `shown` how much is done of `chunks.total`. Raises DataError as `read_table` does for
    a file that it would refuse, ConfigError where another conversion is writing the same store.
    """
    if fill is not None and fill not in FILLS:
        raise ConfigError(f"data.fill={fill} is not one of {', '.join(FILLS)}")
    output.parent.mkdir(parents=True, exist_ok=True)
    partial = output.with_name(f".{output.name}.partial")
    partial.mkdir(exist_ok=True)
    try:
        with FileLock(partial / LOCK, timeout=0):
            stat = chunks.path.stat()
            identity = {"bytes": stat.st_size, "modified": stat.st_mtime_ns, "options": options}
            note = _begun(partial, identity)
            if note.position is not None:
                said(f"goes on at row {note.ranges.rows + 1:,}")
            while not _pour(chunks, partial, note, freq, fill, shown):
                said("float32 would lose too much of a column: begins again in float64")
                note = Note(identity, dtype="<f8")
            for name in (NOTE, LOCK):
                (partial / name).unlink()
            former = output.with_name(f".{output.name}.former")
            if output.exists():
                output.rename(former)
            partial.rename(output)
            shutil.rmtree(former, ignore_errors=True)
    except Timeout:
        raise ConfigError(f"{output}: another conversion is writing it") from None
    except ForecastError:  # another file is needed, and begins anew
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return note


def _begun(partial: Path, identity: dict[str, Any]) -> Note:
    """The note of a conversion of the same file that was stopped, else a new one."""
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
    fill: str | None,
    shown: Callable[[int], None],
) -> bool:
    """Write the rest of the file. False where its numbers do not fit into float32."""
    writer = None
    if note.position is not None:
        writer = StoreWriter(partial, note.columns, note.dtype, note.unit, note.ranges.rows)
    for chunk in chunks.read(note.position):
        table = _checked(chunk, note, freq, fill)
        ranges = note.ranges.add(table.values)
        if note.dtype == "<f4" and not ranges.fit_float32():
            return False
        if writer is None:
            note.columns, note.clock, note.first_date = chunk.names, chunk.clock, str(table.dates[0])
            note.unit = "ns" if table.dates.unit == "ns" else "us"
            writer = StoreWriter(partial, note.columns, note.dtype, note.unit, 0)
        writer.append(table)
        note.missing += table.values.size - int(np.isfinite(chunk.values).sum())
        note.freq, note.last_date, note.last_values = (
            table.freq,
            str(table.dates[-1]),
            table.values[-1].tolist(),
        )
        note.position, note.ranges = chunk.position, ranges
        write_json(partial / NOTE, asdict(note))
        shown(chunk.done)
    assert writer is not None, "a file without rows is refused"
    about = ("freq", "clock", "first_date", "last_date")
    writer.finish(
        **{key: getattr(note, key) for key in about},
        minimum=note.ranges.minimum,
        maximum=note.ranges.maximum,
        filled=note.missing,
    )
    return True


def _checked(chunk: Chunk, note: Note, freq: str | None, fill: str | None) -> Table:
    """The chunk's rows, in order, on the grid of the rows above, and filled from them."""
    cells, dates, values = chunk.cells, chunk.dates, chunk.values
    if note.position is not None:  # the row above comes along, and goes again
        above = pd.DatetimeIndex([note.last_date]).as_unit(dates.unit)
        dates = pd.DatetimeIndex(above.append(dates))
        values = np.concatenate([[note.last_values], values])
        cells = Cells(cells.path, cells.frame, cells.first_line - 1, cells.unit)
    with warnings.catch_warnings(action="ignore"):  # the filled are counted over all chunks
        table = check_rows(
            cells, chunk.date_column, chunk.names, dates, values, freq=note.freq or freq, fill=fill
        )
    if note.position is None:
        return table
    if len(table.dates) < 2:
        raise DataError(f"{cells.path}: no row follows {note.last_date}")
    return replace(table, dates=table.dates[1:], values=table.values[1:])
