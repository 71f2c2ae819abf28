"""The series of a file that is read in chunks, and the order of rows that a conversion needs."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int64

from forecast.data.files.advice import describe_ids, find_id_columns
from forecast.data.files.table_rows import TableRows
from forecast.data.files.text import quote
from forecast.data.panel import TABLE_ID, Panel
from forecast.data.row_ranges import ranges
from forecast.data.store.chunks import Chunks
from forecast.system.errors import DataError, RowOrderError
from forecast.system.formatting import write_setting


class Removed(NamedTuple):
    """Rows at the end of a store that are removed again, and the missing values of each column in them."""

    rows: int
    missing: list[int]


@dataclass
class SeriesProgress:
    """The series of the rows read so far, as JSON values. The last one may go on.

    Attributes:
        ids, lengths, first_dates: of each series with a value, its id, its rows in the store and the first date.
        last_date: the latest date of a value, of any series.
        open_id, read_until: series and date of the row that was read last; None before the first row.
        empty_begin, empty_end: rows that were left out before the first values of all series and after their last ones.
        tail: rows after the last value of the last series, which are in the store for now.
        tail_missing: missing values of each column in these rows.
    """

    ids: list[str] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    first_dates: list[str] = field(default_factory=list)
    last_date: str = ""
    open_id: str | None = None
    read_until: str = ""
    empty_begin: int = 0
    empty_end: int = 0
    tail: int = 0
    tail_missing: list[int] = field(default_factory=list)

    def add(self, where: str, chunk: Panel) -> tuple[Removed, Int64[np.ndarray, " kept"]]:
        """Add a chunk, whose first series goes on if its id is `open_id`.

        Returns:
            The rows to remove from the store, and the rows of the chunk to append to it.

        Raises:
            DataError: a series without a value; the message begins with `where`.
        """
        starts, stops, n_rows, filled = chunk.starts, chunk.stops, len(chunk.values), _find_filled(chunk)
        numbers = np.arange(n_rows)
        begins = np.minimum(np.minimum.reduceat(np.where(filled, numbers, n_rows), starts), stops)
        ends = np.maximum(np.maximum.reduceat(np.where(filled, numbers + 1, 0), starts), begins)
        has_value = ends > begins
        is_begun, goes_on = has_value.copy(), chunk.ids[0] == self.open_id
        continues = goes_on and self._is_begun
        if continues:
            is_begun[0], begins[0] = True, starts[0]
            ends[0] = ends[0] if has_value[0] else starts[0]
        for series in chunk.ids[:-1][~is_begun[:-1]].tolist():
            self._refuse_empty(where, series)
        is_ended = not goes_on or (len(chunk) > 1 and not has_value[0])
        removed = self.end(where) if is_ended and self.open_id is not None else Removed(0, [])
        if is_begun[-1]:
            self._count_tail(np.asarray(chunk.values)[ends[-1] :], new=bool(has_value[-1]))
        kept_until = np.append(ends[:-1], stops[-1] if is_begun[-1] else ends[-1])
        self.empty_begin += int((begins - starts).sum())
        self.empty_end += int((stops - kept_until)[is_begun].sum())
        self._list(chunk, begins, kept_until, is_begun, continues)
        if has_value.any():
            last = str(chunk.dates(ends[has_value] - 1).max())
            self.last_date = max(self.last_date, last)
        self.open_id, self.read_until = chunk.ids[-1], str(chunk.dates(stops[-1:] - 1)[0])
        return removed, ranges(begins, kept_until)

    def end(self, where: str) -> Removed:
        """End the last series. Return the rows after its last value, to remove them from the store.

        Raises DataError if it has no value.
        """
        if not self._is_begun:
            self._refuse_empty(where, self.open_id)
        removed = Removed(self.tail, self.tail_missing)
        self.lengths[-1] -= self.tail
        self.empty_end += self.tail
        self.tail, self.tail_missing = 0, []
        return removed

    @property
    def _is_begun(self) -> bool:
        """Whether the last series has a value so far."""
        return self.ids[-1:] == [self.open_id]

    def _refuse_empty(self, where: str, series: str | None) -> None:
        if series in (None, TABLE_ID):
            raise DataError(f"{where}: no row has a value")
        raise DataError(f"{where}: series {quote(series)} has no value: leave it out")

    def _count_tail(self, rows: np.ndarray, *, new: bool) -> None:
        """Count rows after the last value of the last series, from 0 if that value is new."""
        missing = np.isnan(rows).sum(axis=0)
        if not new and self.tail:
            missing = missing + self.tail_missing
        self.tail, self.tail_missing = len(rows) + (0 if new else self.tail), missing.tolist()

    def _list(
        self,
        chunk: Panel,
        begins: Int64[np.ndarray, " series"],
        stops: Int64[np.ndarray, " series"],
        is_begun: Bool[np.ndarray, " series"],
        continues: bool,
    ) -> None:
        """List the series that have a value, with the rows from `begins` to `stops`."""
        lengths = (stops - begins).tolist()
        if continues:
            self.lengths[-1] += lengths[0]
        new = np.flatnonzero(is_begun)[int(continues) :]
        self.ids += chunk.ids[new].tolist()
        self.lengths += [lengths[s] for s in new]
        self.first_dates += map(str, chunk.dates(begins[new]))


def _find_filled(chunk: Panel) -> Bool[np.ndarray, " rows"]:
    """The rows with a number or a text."""
    is_text, values = [name in chunk.texts for name in chunk.columns], np.asarray(chunk.values)
    return np.asarray(np.where(is_text, values >= 0, np.isfinite(values)).any(axis=1))


def refuse_interleaved(rows: TableRows, known: SeriesProgress, chunks: Chunks) -> None:
    """Raise DataError for the first row whose series is above it, with rows of another series between them."""
    begins = np.flatnonzero(np.diff(rows.codes, prepend=-1))
    series = rows.ids[rows.codes[begins]]
    again = series.duplicated() | (series.isin(known.ids) & (series != known.open_id))
    if again.any():
        row = int(begins[int(again.argmax())])
        advice = advise_sorting(rows, chunks)
        raise rows.error(
            f"rows of other series lie between this row and those of its series above: {advice}",
            row,
            rows.roles.id,
        )


def advise_on_order(error: RowOrderError, rows: TableRows, chunks: Chunks) -> str:
    """Advice on a row out of order, or that repeats a date, with settings that the conversion has."""
    if ids := find_id_columns(rows.cells, rows.roles):
        setting = write_setting("data.id_column", ids[0] if len(ids) == 1 else ids)
        return f"{describe_ids(ids)}: set {setting}"
    return error.advice if error.repeats else advise_sorting(rows, chunks)


def advise_sorting(rows: TableRows, chunks: Chunks) -> str:
    """Advice on how to sort the file by series and date: a command, where there is one."""
    keys = rows.roles.keys
    command = chunks.sort_command(rows, keys)
    how = f", with {command}" if command else ""
    data = "csv data.sort=true" if rows.roles.id is None else "long"
    advice = f"sort the file by {' and '.join(keys)} first{how}, or train in memory (data={data})"
    if rows.roles.id is None and rows.texts:
        name = next(iter(rows.texts))
        advice += f"; if {quote(name)} names series, set data.id_column={name}"
    return advice
