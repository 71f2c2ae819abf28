"""Conversion of a file to a store: chunks of rows to a table on disk, with the checks of the table reader on every row,
and the rows of that table that have values to the store.
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
from forecast.data.panel import TABLE_ID, Panel
from forecast.data.row_ranges import BYTES_AT_ONCE, RunningStatistics, pieces
from forecast.data.store import write_store
from forecast.system.errors import DataError, RowOrderError
from forecast.system.files import atomic_folder

ROUNDED = 1e-4
"""Largest rounding error of float32, as a fraction of the column's standard deviation."""


class Table:
    """All rows of a file in float64, on disk. The last series may go on.

    Attributes:
        first: the first chunk of rows.
        n_rows: number of rows.
        ids: of the series.
        filled: of each series with a value, its rows from the first value to the row after the last one, and the dates
            of the first and the last value.
    """

    def __init__(self, path: Path, first: Panel) -> None:
        self.first, self.n_rows, self.ids = first, 0, list[str]()
        self.filled: dict[int, tuple[int, int, pd.Timestamp, pd.Timestamp]] = {}
        self._path, self._statistics = path, RunningStatistics(len(first.columns))
        self._lost = np.zeros(len(first.columns))  # largest rounding error of float32
        self._undecided = np.zeros(
            len(first.columns), dtype=np.int64
        )  # rows before the first value of a column
        path.write_bytes(b"")

    def append(self, chunk: Panel) -> None:
        """Append rows, of which the first series goes on if its id is that of the last series."""
        goes_on = self.ids[-1:] == [chunk.ids[0]]
        before = len(self.ids) - goes_on
        self.ids += chunk.ids[int(goes_on) :].tolist()
        values = np.asarray(chunk.values)
        is_text = [name in chunk.texts for name in chunk.columns]
        given = np.where(is_text & (values < 0), np.nan, values)
        filled = np.flatnonzero(np.isfinite(given).any(axis=1))
        series, first, count = np.unique(chunk.series_of(filled), return_index=True, return_counts=True)
        begins, ends = filled[first], filled[first + count - 1]
        rows = zip(
            (series + before).tolist(), (begins + self.n_rows).tolist(), (ends + self.n_rows + 1).tolist(),
            chunk.dates(begins), chunk.dates(ends), strict=True,
        )  # fmt: skip
        for number, begin, end, first_date, last_date in rows:
            begin, _, first_date, _ = self.filled.get(number, (begin, end, first_date, last_date))
            self.filled[number] = begin, end, first_date, last_date
        self.n_rows += len(values)
        self._undecided[[chunk.texts.get(name) == [] for name in chunk.columns]] = self.n_rows
        self._statistics.add(given)
        with np.errstate(over="ignore"):
            self._lost = np.fmax(self._lost, np.fmax.reduce(np.abs(values - values.astype(np.float32))))
        with self._path.open("ab") as file:
            file.write(values.astype(np.float64).tobytes())

    def write(self, where: str, folder: Path, id_column: str | None, texts: dict[str, list[str]]) -> int:
        """Write the rows of each series from its first value to its last one as a store. Return the number of others.

        Raises DataError for a series or a column without a value; `where` begins its message.
        """
        empty = next((id for number, id in enumerate(self.ids) if number not in self.filled), None)
        if empty == TABLE_ID:
            raise DataError(f"{where}: no row has a value")
        if empty is not None:
            raise DataError(f"{where}: series {quote(empty)} has no value: leave it out")
        for name, count in zip(self.first.columns, self._statistics.count[0], strict=True):
            if not count:
                raise DataError(f"{where}: column {quote(name)} has no value: leave it out (data.columns)")
        begins, ends, first_dates, last_dates = zip(*self.filled.values(), strict=True)
        lengths = np.array(ends) - begins
        write_store(
            folder,
            self._blocks(np.array(begins), np.array(ends), [name in texts for name in self.first.columns]),
            columns=self.first.columns,
            dtype="<f4" if self._fit_float32() else "<f8",
            freq=self.first.freq,
            first=min(first_dates),
            last=max(last_dates),
            unit="ns" if self.first.grid.unit == "ns" else "us",
            date_column=str(self.first.grid.name),
            **self.first.utc_offset.state,
            id_column=id_column,
            ids=self.ids,
            lengths=lengths.tolist(),
            first_dates=list(map(str, first_dates)),
            texts=texts,
        )
        return self.n_rows - int(lengths.sum())

    def _blocks(
        self, begins: np.ndarray, ends: np.ndarray, is_text: list[bool]
    ) -> Iterator[Float64[np.ndarray, "rows columns"]]:
        undecided = np.where(
            is_text, 0, self._undecided
        )  # a missing number, which has the code of an empty text
        values = np.memmap(self._path, np.float64, "r", shape=(self.n_rows, len(self.first.columns)))
        for rows in pieces(begins, ends, max(1, BYTES_AT_ONCE // (8 * values.shape[1]))):
            yield np.where(rows[:, None] < undecided, np.nan, values[rows])

    def _fit_float32(self) -> bool:
        """Return whether float32 is exact enough for every column. Constant columns are not counted."""
        found = self._statistics
        is_exact = self._lost <= ROUNDED * np.sqrt(found.squares / found.count)
        holds = np.abs([found.lowest, found.highest]).max() <= np.finfo(np.float32).max
        return bool(holds and is_exact[found.lowest < found.highest].all())


def convert(
    chunks: Chunks,
    output: Path,
    *,
    freq: str | None,
    write_message: Callable[[str], None],
    show_progress: Callable[[int], None],
) -> None:
    """Convert a file to the store `output`, whose former content is removed.

    The store has its name once it is complete.

    Args:
        chunks: the file.
        output: the folder of the store.
        freq: step between rows; None: inferred.
        write_message: writes a message to the user.
        show_progress: shows how much of `chunks.total` is done.

    Raises:
        DataError: a file that `read_table` would refuse.
    """
    with atomic_folder(output) as partial:
        rows = partial / "rows.bin"
        table = _read(chunks, rows, freq, show_progress)
        left_out = table.write(str(chunks.path), partial, chunks.roles.id, chunks.texts)
        rows.unlink()
    if left_out:
        write_message(f"{left_out:,} rows before the first value or after the last one are left out")


def _read(
    chunks: Chunks,
    path: Path,
    freq: str | None,
    show_progress: Callable[[int], None],
) -> Table:
    """Read the rows of a file."""
    table = None
    for rows in chunks.read():
        chunk = _check(rows, table, freq)
        table = table or Table(path, chunk)
        table.append(chunk)
        show_progress(chunks.done)
    assert table is not None  # a file without rows is refused
    return table


def _check(rows: TableRows, above: Table | None, freq: str | None) -> Panel:
    """Check that rows continue the grid of the rows above, and return them without the row above that comes first."""
    _refuse_interleaved(rows, above)
    try:
        table = align(rows, freq if above is None else above.first.freq, sort=False, is_part=True)
    except RowOrderError as error:
        repeated = _advise_training(rows, "remove one, name the series in data.id_column", "duplicates=first")
        raise DataError(f"{error.problem}: {repeated if error.repeats else _advise_sorting(rows)}") from None
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
        again |= series.isin(above.ids) & (series != above.ids[-1])
    if again.any():
        raise rows.error(
            f"rows of other series lie between this row and those of its series above: {_advise_sorting(rows)}",
            int(begins[int(again.argmax())]),
            rows.roles.id,
        )


def _advise_sorting(rows: TableRows) -> str:
    advice = _advise_training(rows, f"sort the file by {' and '.join(rows.roles.keys)} first", "sort=true")
    name = next((name for name, texts in rows.texts.items() if texts), None)
    if rows.roles.id is None and name is not None:
        advice += f"; if {quote(name)} names series, set data.id_column={name}"
    return advice


def _advise_training(rows: TableRows, first: str, setting: str) -> str:
    """Advice to change the file, or to train on it with a setting."""
    data = "csv" if rows.roles.id is None else "long"
    return f"{first}, or train in memory (data={data} data.{setting})"
