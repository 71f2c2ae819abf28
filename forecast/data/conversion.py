"""Conversion of a file to a store: chunks of rows to a table on disk, with the checks of the table reader on every row,
and that table to the store.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float64

from forecast.data.chunks import Chunks
from forecast.data.files.grid import align
from forecast.data.files.table_rows import TableRows
from forecast.data.files.text import quote
from forecast.data.panel import Panel
from forecast.data.row_ranges import BYTES_AT_ONCE, RunningStatistics
from forecast.data.store import write_store
from forecast.system.errors import DataError, RowOrderError
from forecast.system.files import atomic_folder
from forecast.system.formatting import write_setting

ROUNDED = 1e-4  # largest rounding error of float32, as a fraction of the column's standard deviation


class Table:
    """All rows of a file in float64, on disk. The last series may go on.

    `ids`: of the series, in order; a dictionary without values, in which an id is found at once.
    """

    def __init__(self, path: Path, first: Panel) -> None:
        self.first, self.n_rows, self.last_date = first, 0, first.grid[-1]
        self.ids, self.lengths, self.first_dates = dict[str, None](), list[int](), list[str]()
        self._path, self._statistics = path, RunningStatistics(len(first.columns))
        self._lost = np.zeros(len(first.columns))  # largest rounding error of float32
        self._undecided = np.zeros(len(first.columns), np.int64)  # rows before the first value of a column
        path.write_bytes(b"")

    @property
    def last_id(self) -> str | None:
        return next(reversed(self.ids), None)

    def append(self, chunk: Panel) -> None:
        """Append rows, of which the first series goes on if its id is that of the last series."""
        goes_on = int(self.last_id == chunk.ids[0])
        lengths = (chunk.stops - chunk.starts).tolist()
        if goes_on:
            self.lengths[-1] += lengths[0]
        self.ids |= dict.fromkeys(chunk.ids[goes_on:].tolist())
        self.lengths += lengths[goes_on:]
        self.first_dates += map(str, chunk.dates(chunk.starts[goes_on:]))
        self.last_date = max(self.last_date, chunk.grid[-1])
        values = np.asarray(chunk.values)
        is_text = [name in chunk.texts for name in chunk.columns]
        self.n_rows += len(values)
        self._undecided[[chunk.texts.get(name) == [] for name in chunk.columns]] = self.n_rows
        self._statistics.add(np.where(is_text & (values < 0), np.nan, values))
        with np.errstate(over="ignore"):
            self._lost = np.fmax(self._lost, np.fmax.reduce(np.abs(values - values.astype(np.float32))))
        with self._path.open("ab") as file:
            file.write(values.astype(np.float64).tobytes())

    def write(self, where: str, folder: Path, id_column: str | None, texts: dict[str, list[str]]) -> None:
        """Write the rows as a store. Raises DataError for a column without a value; `where` begins its message."""
        for name, count in zip(self.first.columns, self._statistics.count[0], strict=True):
            if not count:
                advice = f"set {write_setting('data.drop', [name])}, or leave it out of data.columns"
                raise DataError(f"{where}: column {quote(name)} has no value: {advice}")
        write_store(
            folder,
            self._blocks([name in texts for name in self.first.columns]),
            columns=self.first.columns,
            dtype="<f4" if self._fit_float32() else "<f8",
            freq=self.first.freq,
            first=min(map(pd.Timestamp, self.first_dates)),  # type: ignore[reportArgumentType]
            last=self.last_date,  # type: ignore[reportArgumentType]
            unit="ns" if self.first.grid.unit == "ns" else "us",
            date_column=str(self.first.grid.name),
            **self.first.utc_offset.state,
            id_column=id_column, ids=[*self.ids], lengths=self.lengths, first_dates=self.first_dates, texts=texts,
        )  # fmt: skip

    def _blocks(self, is_text: list[bool]) -> Iterator[Float64[np.ndarray, "rows columns"]]:
        values = np.memmap(self._path, np.float64, "r", shape=(self.n_rows, len(self.first.columns)))
        # a missing number has the code of an empty text there
        undecided = np.where(is_text, 0, self._undecided)
        size = max(1, BYTES_AT_ONCE // (8 * values.shape[1]))
        for begin in range(0, self.n_rows, size):
            rows = np.arange(begin, min(begin + size, self.n_rows))
            yield np.where(rows[:, None] < undecided, np.nan, values[begin : begin + size])

    def _fit_float32(self) -> bool:
        """Whether float32 is exact enough for every column. Constant columns are not counted."""
        found = self._statistics
        is_exact = self._lost <= ROUNDED * np.sqrt(found.squares / found.count)
        holds = np.abs([found.lowest, found.highest]).max() <= np.finfo(np.float32).max
        return bool(holds and is_exact[found.lowest < found.highest].all())


def convert(chunks: Chunks, output: Path, *, freq: str | None, show_progress: Callable[[int], None]) -> None:
    """Convert a file to the store `output`, whose former content is removed; it has its name once it is complete.

    `freq`: step between rows; None: inferred.

    Raises DataError for a file that `read_table` would refuse.
    """
    with atomic_folder(output) as partial:
        rows, table = partial / "rows.bin", None
        for part in chunks.read():
            chunk = _check(part, table, freq)
            table = table or Table(rows, chunk)
            table.append(chunk)
            show_progress(chunks.done)
        assert table is not None  # a file without rows is refused
        table.write(str(chunks.path), partial, chunks.roles.id, chunks.texts)
        rows.unlink()


def _check(rows: TableRows, above: Table | None, freq: str | None) -> Panel:
    """Check that rows continue the grid of the rows above, and return them without the row above that comes first."""
    _refuse_interleaved(rows, above)
    try:
        table = align(rows, freq if above is None else above.first.freq, sort=False, is_part=True)
    except RowOrderError as error:
        raise DataError(f"{error.problem}: {_advise(rows)}") from None
    if above is None:
        return table
    first = table.starts + (np.arange(len(table)) == 0)
    left = np.flatnonzero(first < table.stops)
    return table.take_rows(left, first[left], table.stops[left], table.ends[left])


def _refuse_interleaved(rows: TableRows, above: Table | None) -> None:
    """Raise DataError for the first row whose series is above it, with rows of another series between them."""
    begins = np.flatnonzero(np.diff(rows.codes, prepend=-1))
    series = rows.ids[rows.codes[begins]]
    again = series.duplicated()
    if above is not None:
        again |= [name in above.ids and name != above.last_id for name in series]
    if again.any():
        problem = "rows of other series lie between this row and those of its series above"
        raise rows.error(f"{problem}: {_advise(rows)}", int(begins[int(again.argmax())]), rows.roles.id)


def _advise(rows: TableRows) -> str:
    """Advice on rows out of order, or of one date."""
    advice = f"sort the file by {' and '.join(rows.roles.keys)} first, with one row for each date"
    text = next((name for name, texts in rows.texts.items() if texts), None)
    if rows.roles.id is not None or text is None:
        layout = "csv" if rows.roles.id is None else "long"
        return f"{advice}, or train in memory (data={layout} data.sort=true data.duplicates=first)"
    return f"{advice}; if {quote(text)} names series, set {write_setting('data.id_column', text)}"
