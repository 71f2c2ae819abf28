"""Conversion of a CSV or Parquet file of any size to a store.

The file is read in chunks of rows, each parsed as a table in memory is, with the row above it. Chunks become a table on
disk, with the checks of the table reader on every row, and that table the store.
"""

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
from jaxtyping import Float64

from forecast.data.calendars import UtcOffset
from forecast.data.files.cells import Cells, DateColumn, are_numbers, date_name, parse_cells
from forecast.data.files.columns import ColumnRoles, IdColumn, list_id_columns, read_covariate, read_ids
from forecast.data.files.dates import Codes, Dated, is_days, place_in_time, read_dates
from forecast.data.files.grid import align
from forecast.data.files.header import read_header
from forecast.data.files.read import cells_of_arrow, list_columns, opened_parquet
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.sources import ColumnOptions
from forecast.data.files.table_rows import TableRows, read_targets
from forecast.data.files.text import (
    LIKE_A_NUMBER,
    MISSING,
    UNREADABLE,
    check_text,
    no_line_below,
    quote,
    strip,
    unpacked,
    warn_of_skipped_lines,
)
from forecast.data.panel import Panel
from forecast.data.row_ranges import BYTES_AT_ONCE, RunningStatistics
from forecast.data.store import write_store
from forecast.system.errors import DataError, RowOrderError, check_count
from forecast.system.files import atomic_folder
from forecast.system.formatting import write_setting
from forecast.system.location import opened

ROUNDED = 1e-4  # largest rounding error of float32, as a fraction of the column's standard deviation

MAX_CATEGORIES = 100_000
"""Largest number of texts of a column. They are in memory during the conversion and in every training."""


class RowAbove(NamedTuple):
    """The last row of a chunk: its line, the cells of its id and date, and its date."""

    line: int
    keys: pd.DataFrame
    date: pd.Timestamp
    utc_offset: UtcOffset


class Chunks(ABC):
    """A file that is read in chunks.

    Attributes:
        done: how much of it is read.
        texts: by column of text, its texts so far, in order of appearance. The position of a text is its code.
    """

    unit: str
    total: int | None  # the size of the file in units of `unit`; None if it is not known
    missing: Sequence[str] = ()  # texts of missing values, beside those of the options

    def __init__(
        self,
        path: Path,
        *,
        id_column: IdColumn,
        date_column: DateColumn,
        columns: Sequence[str] | None,
        options: ReadOptions,
        size: int,
        drop: Sequence[str] = (),
    ) -> None:
        """`size` is the number of characters, or of bytes of numbers, in a chunk."""
        check_count("chunk", size, unit="bytes")
        self.path, self.date_column, self.size, self.options = path, date_column, size, options
        named = ColumnOptions(columns=columns, drop=drop)
        self.roles = named.choose_roles(list_id_columns(id_column), date_name(date_column))

    @abstractmethod
    def _cells(self) -> Iterator[tuple[Cells, ColumnRoles]]:
        """Yield the cells of the rows in chunks, and their roles. Raises DataError for invalid content."""

    def read(self) -> Iterator[TableRows]:
        """Yield the rows in chunks, of which neither the order nor the grid is checked.

        All chunks but the first begin with the row above them, without values. A column without a value so far is
        among the texts, without a text. Raises DataError for invalid content.
        """
        self.done, self.texts = 0, {}
        self._numbers: set[str] = set()  # columns with a number
        self._above: RowAbove | None = None
        for cells, roles in self._cells():
            yield self._rows(cells, roles)

    def _rows(self, cells: Cells, roles: ColumnRoles) -> TableRows:
        """The rows of a chunk below the row above it: numbers, and codes of texts."""
        keys, above = list(roles.keys), self._above
        if above is not None:
            cells = _below(above, cells)
        series, ids = read_ids(cells, roles.id_columns)
        dates, utc_offset = self._dates(cells, series)
        if above is not None and (dates[0], utc_offset) != (above.date, above.utc_offset):
            problem = f"{quote(cells.frame[roles.date].iloc[1])} and the dates above have no format in common"
            advice = ": set data.date_format, with %z for offsets from UTC that change, or give dates in UTC"
            raise cells.error(problem, advice, row=1, column=roles.date)
        unknown = [name for name in roles.values if name not in self.texts and name not in self._numbers]
        self.texts |= {name: [] for name in unknown if _is_text(cells, name, self.options)}
        numbers = [name for name in roles.values if name not in self.texts]
        for name in filter(self._numbers.__contains__, numbers):
            if _is_text(cells, name, self.options):
                problem = "text, where rows above are numbers, or true and false"
                raise cells.error(f"{problem}: set {write_setting('data.drop', [name])}", column=name)
        block = read_targets(cells, replace(roles, targets=tuple(numbers)), self.options)
        values = pd.DataFrame(block, columns=numbers)
        self._numbers |= set(values.columns[values.notna().any()])
        codes = {name: self._encode(cells, name) for name in roles.values if name not in self._numbers}
        values = values.assign(**codes)[list(roles.values)].to_numpy()
        self.options = self.options.of_rows_after(utc_offset)
        last = len(series) - 1
        self._above = RowAbove(cells.number(last), cells.frame[keys].iloc[[last]], dates[last], utc_offset)  # type: ignore[reportArgumentType]
        return TableRows(
            cells, roles, ids, series, dates.to_numpy("datetime64[ns]"), values,
            future=np.empty((len(series), 0)),
            utc_offset=utc_offset,
            unit="ns" if dates.unit == "ns" else "us",
            texts={name: self.texts.get(name, []) for name in codes},
        )  # fmt: skip

    def _dates(self, cells: Cells, series: Codes) -> Dated:
        """The dates and their UTC offset. Those of a time zone are in UTC: its offset may change in another chunk."""
        column = self.roles.date
        dates = pd.Series(cells.frame[column])
        if isinstance(dates.dtype, pd.DatetimeTZDtype) and not dates.hasnans:
            zoned = pd.DatetimeIndex(dates)
            if not is_days(zoned):
                utc = zoned.tz_convert(None), UtcOffset(0, str(zoned.tz))
                return place_in_time(cells, column, utc, self.options, series)
        return read_dates(cells, column, self.options, series)

    def _encode(self, cells: Cells, name: str) -> Float64[np.ndarray, " rows"]:
        """The codes of a column of text, −1 where a cell is empty. Raises DataError for a number or too many texts."""
        missing = [*self.missing, *self.options.na_texts]
        plain, known = strip(pd.Series(cells.frame[name]), missing), self.texts.get(name, [])
        numbers = plain.str.fullmatch(LIKE_A_NUMBER).fillna(False).to_numpy(dtype=bool)
        if numbers.any() and not isinstance(cells.frame[name].dtype, pd.CategoricalDtype):
            row = int(numbers.argmax())
            other = f", such as {quote(known[0])}" if known else ""
            problem = f"{quote(plain.iloc[row])} is a number, and other cells are text{other}"
            raise cells.error(f"{problem}: correct it, or write text in every cell", row=row, column=name)
        joined = pd.Index([*known, *plain.dropna().unique()]).drop_duplicates()
        if len(joined) > MAX_CATEGORIES:
            problem = f"more than {MAX_CATEGORIES:,} different texts"
            raise cells.error(f"{problem}: leave the column out (data.drop)", column=name)
        if len(joined):
            self.texts[name] = joined.astype(str).tolist()
        return joined.get_indexer(pd.Index(plain)).astype(np.float64)


def _below(above: RowAbove, cells: Cells) -> Cells:
    """The cells of a chunk below the id and the date of the row above it."""
    keys = list(above.keys)
    values = cells.frame.drop(columns=keys).reindex(range(-1, len(cells.frame))).reset_index(drop=True)
    frame = pd.concat([above.keys, cells.frame[keys]], ignore_index=True).join(values)
    skipped = (*range(above.line + 1, cells.number(0)), *cells.skipped)
    return replace(cells, frame=frame, first_line=above.line, skipped=tuple(dict.fromkeys(skipped)))


def _is_text(cells: Cells, name: str, options: ReadOptions) -> bool:
    """Whether a column holds text, and no text that was probably meant as a number."""
    if are_numbers(pd.Series(cells.frame[name])):
        return False
    try:
        return read_covariate(cells, name, options)[1] is not None
    except DataError:
        return False  # reading its numbers names the cell


_MAX_LINE = 1 << 24


class CsvChunks(Chunks):
    """A CSV file, compressed or not, with the options of `forecast.data.files.sources.FileSource`."""

    unit = "B"
    missing = MISSING

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(path, **options)
        with opened(path) as (file, size), unpacked(path, file) as stream:
            self.total = size if stream is file else None

    def _cells(self) -> Iterator[tuple[Cells, ColumnRoles]]:
        try:
            with opened(self.path) as (file, _), unpacked(self.path, file) as stream:
                yield from self._parse(stream)
        except UNREADABLE as error:
            raise DataError(f"{self.path}: cannot be read: {error}") from None

    def _parse(self, stream: io.BufferedIOBase) -> Iterator[tuple[Cells, ColumnRoles]]:
        # bytes that are no text in the encoding survive, so that `check_text` names their line
        text = io.TextIOWrapper(stream, self.options.encoding or "utf-8-sig", errors="surrogateescape")  # type: ignore[reportArgumentType]
        line = self.options.first_line
        for number in range(1, line):
            if not self._line(text, number):
                raise no_line_below(self.path, self.options)
        above = self._header(text)
        line += above.count(b"\n")
        blank = b"\r\n\t " + self.options.separator.encode()
        skipped, rest = list[int](), b""
        while part := text.read(self.size):
            if not part.endswith("\n"):
                part += self._line(text, line + rest.count(b"\n") + part.count("\n"))
            raw = rest + part.encode("utf-8", "surrogateescape")
            self.done = stream.tell()
            check_text(self.path, raw, line)
            # lines without a value below the last row come with the next one; at the end of the file, they are ignored
            filled = len(raw.rstrip(blank))
            stop = (raw.find(b"\n", filled) + 1 or len(raw)) if filled else 0
            raw, rest = raw[:stop], raw[stop:]
            if len(rest) > _MAX_LINE:
                raise self._too_long(line)
            if not raw:
                continue
            is_first = self._above is None
            cells = self._parse_lines(above + raw, line - (not is_first))
            if is_first:  # the first row tells how many fields a line has
                above += next(row for row in io.BytesIO(raw) if row.strip(blank))
            else:
                cells = replace(cells, frame=cells.frame.iloc[1:].reset_index(drop=True), first_line=line)
            skipped += cells.skipped
            yield cells, self.roles.resolve(str(self.path), list(cells.frame.columns))
            line += raw.count(b"\n")
        if self._above is None:
            raise DataError(f"{self.path}: a header and no rows")
        warn_of_skipped_lines(self.path, skipped)

    def _parse_lines(self, raw: bytes, first_line: int) -> Cells:
        """Parse the header and lines from `first_line` on. Raises DataError for a file that only training reads."""
        texts = [*self.texts, *self.roles.id_columns]
        try:
            header = read_header(self.path, raw, self.options)
            return parse_cells(self.path, raw, header, self.date_column, self.options, texts, first_line)
        except DataError as error:
            if not error.is_for_training:
                raise
            raise DataError(f"{error.problem}: a store needs a header with a column of dates") from None

    def _header(self, text: io.TextIOWrapper) -> bytes:
        """Read the first line, and further ones while a quote is open."""
        first_line = self.options.first_line
        header = self._line(text, first_line)
        while header.count('"') % 2 and (line := self._line(text, first_line)):
            header += line
        if "\0" in header:
            raise DataError(f"{self.path}: text in UTF-16, or none: set data.encoding=utf-16")
        if not header.strip():
            raise DataError(f"{self.path}: line {first_line} is empty, and should name the columns")
        raw = (header.removesuffix("\n") + "\n").encode("utf-8", "surrogateescape")
        check_text(self.path, raw, first_line)
        return raw

    def _line(self, text: io.TextIOWrapper, number: int) -> str:
        line = text.readline(_MAX_LINE)
        if len(line) == _MAX_LINE:
            raise self._too_long(number)
        return line

    def _too_long(self, number: int) -> DataError:
        return DataError(f"{self.path}, line {number}: longer than {_MAX_LINE >> 20} MiB: this is no table")


_READABLE = (  # types of the columns of values
    pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean, pa.types.is_dictionary,
    pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view,
)  # fmt: skip


class ParquetChunks(Chunks):
    """A Parquet file, or a folder of them, with a column of dates, typed or as text, and columns of numbers or text."""

    unit = " rows"

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(path, **options)
        with opened_parquet(path) as dataset:
            self.total = dataset.count_rows()

    def _cells(self) -> Iterator[tuple[Cells, ColumnRoles]]:
        with opened_parquet(self.path) as dataset:
            yield from self._cells_of(dataset)

    def _cells_of(self, dataset: ds.Dataset) -> Iterator[tuple[Cells, ColumnRoles]]:
        names = dataset.schema.names
        if len(set(names)) < len(names):
            raise DataError(f"{self.path}: two columns of one name: rename one")
        roles = self.roles.resolve(str(self.path), list_columns(dataset, self.roles))
        for name in roles.values:
            kind = dataset.schema.field(name).type
            if not any(is_kind(kind) for is_kind in _READABLE):
                problem = f"{self.path}: column {quote(name)} is of {kind}, not numbers or text"
                raise DataError(f"{problem}: set {write_setting('data.drop', [name])}")
        rows = max(1, self.size // (8 * len(roles.all)))
        options = {"batch_size": rows, "batch_readahead": 1, "fragment_readahead": 1, "use_threads": False}
        for batch in dataset.to_batches(columns=list(roles.all), **options):
            first, self.done = self.done + 1, self.done + len(batch)
            if len(batch):
                table = pa.Table.from_batches([batch])
                yield cells_of_arrow(self.path, table, roles.id_columns, self.options, first), roles
        if self._above is None:
            raise DataError(f"{self.path}: no rows")


# ---- the table on disk, and the store


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
