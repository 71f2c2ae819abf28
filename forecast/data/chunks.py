"""CSV and Parquet files of any size as chunks of rows."""

import codecs
import io
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
from jaxtyping import Float64, Int32

from forecast.data.files.cells import Cells, date_name, parse_cells, read_numbers
from forecast.data.files.columns import ColumnRoles, IdColumn, find_booleans, list_id_columns, read_ids
from forecast.data.files.dates import has_one_offset, is_days, place_in_time, read_dates, without_zone
from forecast.data.files.header import read_header
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.table_rows import TableRows, read_targets
from forecast.data.files.text import (
    BOOLEANS,
    LIKE_A_NUMBER,
    MISSING,
    UNREADABLE,
    check_text,
    decode,
    is_workbook,
    no_line_below,
    quote,
    unpacked,
    warn_of_skipped_lines,
)
from forecast.data.utc_offset import UtcOffset
from forecast.system.errors import DataError, check_count
from forecast.system.location import opened

MAX_CATEGORIES = 100_000
"""Largest number of texts of a column. They are in memory during the conversion and in every training."""


class LateText(Exception):
    """A column without numbers in the chunks above turns out to be text; its empty cells need another code."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(", ".join(names))
        self.names = names


def strip(column: pd.Series, missing: Sequence[str]) -> pd.Series:
    """The texts of a column without spaces around them; NA where they are empty or one of `missing`."""
    plain = column.astype("string").str.strip()
    return plain.mask(plain.isin(["", *missing]))


def _kind(cells: Cells, name: str, options: ReadOptions, missing: Sequence[str]) -> str:
    """The type of the cells of a column in a chunk: `number`, `text`, or `undecided`."""
    column = pd.Series(cells.frame[name])
    if isinstance(column.dtype, pd.CategoricalDtype) and column.cat.categories.dtype.kind in "iufb":
        return "text"  # as in memory: numbers that pandas was told are categories
    if column.dtype.kind in "iuf":
        return "undecided" if column.isna().all() else "number"
    plain = strip(column, missing).dropna()
    if plain.str.lower().isin(list(BOOLEANS)).all():
        return "undecided"
    if plain.str.fullmatch(LIKE_A_NUMBER).any():
        return "number"
    try:
        read_numbers(Cells(cells.path, plain.to_frame(name)), name, options)
    except DataError:
        return "text"
    return "number"


class Chunks(ABC):
    """A file that is read in chunks.

    Attributes:
        total: the size of the file in units of `unit`; None if it is not known.
        done: how much of it is read.
        texts: by column of text, its texts so far, in order of appearance. The position of a text is its code.
    """

    unit: str
    total: int | None
    missing: Sequence[str] = ()  # texts of missing values, beside those of the options
    _offset_changes = False  # whether the UTC offset of typed dates changes in the file

    def __init__(
        self,
        path: Path,
        *,
        id_column: IdColumn,
        date_column: str | Sequence[str],
        columns: Sequence[str] | None,
        options: ReadOptions,
        size: int,
        drop: Sequence[str] = (),
        duplicates: str | None = None,
    ) -> None:
        """`size` is the number of bytes, of text or of numbers, in a chunk.

        Without `id_column`, the file holds one series. With `duplicates`, no chunk ends between rows of one date.
        """
        check_count("chunk", size, unit="bytes")
        self.path, self.date_column, self.size = path, date_column, size
        self.options, self.duplicates = options, duplicates
        self.roles = ColumnRoles(
            list_id_columns(id_column),
            date_name(date_column),
            None if columns is None else tuple(map(str, columns)),
            drop=tuple(map(str, drop)),
        )
        self.roles.check()

    @abstractmethod
    def _read(self) -> Iterator[TableRows]:
        """Yield the rows in chunks. Raises DataError for invalid content."""

    def read(self, texts: Sequence[str] = ()) -> Iterator[TableRows]:
        """Yield the rows in chunks, of which neither the order nor the grid is checked.

        Args:
            texts: columns that are text, also where the first chunks have only empty cells.

        Raises:
            LateText: another column turns out to be text.
            DataError: invalid content.
        """
        self.done, self.texts = 0, {name: [] for name in texts}
        self._numbers: set[str] = (
            set()
        )  # columns in which a number was found; one of true and false is undecided
        # the text, the parsed date and the series of the first row of the file and of the row above the chunk
        self._anchors: list[tuple[str, str, str]] = []
        held = None
        for rows in self._read():
            if self.duplicates is None:
                yield rows
                continue
            rows = rows if held is None else _join(held, rows)
            earlier = np.flatnonzero((rows.dates != rows.dates[-1]) | (rows.codes != rows.codes[-1]))
            ready = int(earlier[-1]) + 1 if len(earlier) else 0
            if ready:
                yield _slice(rows, 0, ready)
            held = _slice(rows, ready, len(rows))
        if held is not None:
            yield held

    def _find_texts(self, cells: Cells, names: Sequence[str], missing: Sequence[str]) -> list[str]:
        """The columns of a chunk that are text. Raises LateText for one that was not known to be text above."""
        found = {name: _kind(cells, name, self.options, missing) for name in names if name not in self.texts}
        new = [name for name, kind in found.items() if kind == "text" and name not in self._numbers]
        if new and self._anchors:
            raise LateText(new)
        self.texts |= {name: [] for name in new}
        self._numbers |= {name for name, kind in found.items() if kind == "number"}
        return [name for name in names if name in self.texts]

    def _encode(self, cells: Cells, name: str, missing: Sequence[str]) -> Float64[np.ndarray, " rows"]:
        """The codes of a column of text, −1 where a cell is empty. Raises DataError for a number or too many texts."""
        plain, known = strip(pd.Series(cells.frame[name]), missing), self.texts[name]
        numbers = plain.str.fullmatch(LIKE_A_NUMBER).fillna(False).to_numpy(dtype=bool)
        if numbers.any():
            row = int(numbers.argmax())
            other = f", such as {quote(known[0])}" if known else ""
            raise cells.error(
                f"{quote(plain.iloc[row])} is a number, and other cells are text{other}: correct it, or write text in "
                "every cell", row=row, column=name,
            )  # fmt: skip
        joined = pd.Index([*known, *plain.dropna().unique()]).drop_duplicates()
        if len(joined) > MAX_CATEGORIES:
            raise cells.error(
                f"more than {MAX_CATEGORIES:,} different texts: leave the column out (data.drop)", column=name
            )
        self.texts[name] = joined.astype(str).tolist()
        return joined.get_indexer(pd.Index(plain)).astype(np.float64)

    def _rows(self, cells: Cells, roles: ColumnRoles) -> TableRows:
        """The rows of a chunk: numbers as targets, codes of texts as past covariates."""
        missing = [*self.missing, *self.options.na_texts]
        series, ids = read_ids(cells, roles.id_columns)
        dates, utc_offset = self._dates(cells, series, ids)
        texts = self._find_texts(cells, roles.values, missing)
        numbers = tuple(name for name in roles.values if name not in texts)
        roles = replace(roles, targets=numbers, past=tuple(texts))
        codes = [self._encode(cells, name, missing) for name in texts]
        if utc_offset.stamp:
            self.options = self.options.of_rows_after(utc_offset)
        written = cells.frame[roles.date]
        ends = [(str(written.iloc[row]), str(dates[row]), str(ids[series[row]])) for row in (0, -1)]
        self._anchors = [*(self._anchors[:1] or ends[:1]), ends[1]]
        return TableRows(
            cells=cells,
            roles=roles,
            ids=ids,
            codes=series,
            dates=dates.to_numpy("datetime64[ns]"),
            values=np.column_stack([read_targets(cells, roles, self.options), *codes]),
            future=np.empty((len(cells.frame), 0)),
            static={},
            utc_offset=utc_offset,
            unit="ns" if dates.unit == "ns" else "us",
            texts={name: self.texts[name] for name in texts},
            booleans=find_booleans(cells, roles.values),
        )

    def _dates(
        self, cells: Cells, codes: Int32[np.ndarray, " rows"], ids: pd.Index
    ) -> tuple[pd.DatetimeIndex, UtcOffset]:
        """Parse the dates of a chunk in the format of the rows above it, and return them with their UTC offset."""
        column = self.roles.date
        texts, anchors = cells.frame[column], self._anchors
        if pd.api.types.is_datetime64_any_dtype(texts.dtype):
            if texts.hasnans:
                raise cells.error("no date", row=int(texts.isna().argmax()), column=column)
            plain, utc_offset = without_zone(dates := pd.DatetimeIndex(texts))
            if dates.tz is not None and self._offset_changes:
                plain, utc_offset = dates.tz_convert(None), UtcOffset(0, str(dates.tz))
            return place_in_time(cells, column, plain, utc_offset, self.options, codes)
        known = pd.Series([text for text, _, _ in anchors], dtype=str)
        series, _ = pd.factorize(
            np.concatenate([[series for _, _, series in anchors], ids[codes]]).astype(object)
        )
        texts = pd.concat([known, texts.astype(str).where(texts.notna())], ignore_index=True)
        above = replace(
            cells, frame=pd.DataFrame({column: texts}), first_line=cells.first_line - len(anchors)
        )
        dates, utc_offset = read_dates(above, column, self.options, series.astype(np.int32))
        if [str(date) for date in dates[: len(anchors)]] != [date for _, date, _ in anchors]:
            raise cells.error(
                f"{quote(texts.iloc[len(anchors)])} and the dates above have no format in common: set "
                "data.date_format, with %z for offsets from UTC that change, or give dates in UTC",
                row=0,
                column=column,
            )
        return dates[len(anchors) :], utc_offset


def _slice(rows: TableRows, first: int, stop: int) -> TableRows:
    """The rows `first` … `stop` − 1 of a chunk."""
    return replace(
        rows,
        cells=replace(rows.cells, first_line=rows.cells.first_line + first),
        codes=rows.codes[first:stop],
        dates=rows.dates[first:stop],
        values=rows.values[first:stop],
        future=rows.future[first:stop],
    )


def _join(above: TableRows, below: TableRows) -> TableRows:
    """The rows of two chunks that follow each other."""
    ids = above.ids.append(below.ids.difference(above.ids, sort=False))
    codes = np.concatenate([above.codes, ids.get_indexer(below.ids)[below.codes].astype(np.int32)])
    parts = {name: (getattr(above, name), getattr(below, name)) for name in ("dates", "values", "future")}
    joined = {name: np.concatenate(pair) for name, pair in parts.items()}
    booleans, cells = above.booleans | below.booleans, above.cells
    between = range(cells.number(len(above) - 1) + 1, below.cells.number(0))
    cells = replace(cells, skipped=(*cells.skipped, *between, *below.cells.skipped))
    return replace(above, cells=cells, ids=ids, codes=codes, texts=below.texts, booleans=booleans, **joined)


_MAX_LINE = 1 << 24


class CsvChunks(Chunks):
    """A CSV file, compressed or not, with the options of `forecast.data.files.sources.FileSource`."""

    unit = "B"
    missing = MISSING

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(path, **options)
        with opened(path) as (file, size):
            if is_workbook(file):
                raise DataError(
                    f"{path}: an Excel workbook, which needs no store: use data=csv data.path={path}"
                )
            with unpacked(path, file) as stream:
                self.total = size if stream is file else None

    def _read(self) -> Iterator[TableRows]:
        try:
            with opened(self.path) as (file, _), unpacked(self.path, file) as stream:
                yield from self._parse(stream)
        except UNREADABLE as error:
            raise DataError(f"{self.path}: cannot be read: {error}") from None

    def _parse(self, stream: io.BufferedIOBase) -> Iterator[TableRows]:
        for number in range(1, self.options.first_line):
            above = self._line(stream, number)
            self._check_line_end(above)
            if not above:
                raise no_line_below(self.path, self.options)
        header, line = self._header(stream), self.options.first_line
        above, line = self._as_utf8(header, line).removeprefix(codecs.BOM_UTF8), line + header.count(b"\n")
        blank = b"\r\n\t " + self.options.separator.encode()
        skipped = empty = (
            0,
            0,
        )  # number of lines without a value, and the first one; `empty` follow the last chunk
        while raw := self._lines(stream, line):
            self.done, first_line = self.done + len(raw), line
            line += raw.count(b"\n")
            raw = self._as_utf8(raw, first_line)
            filled = raw.rstrip(blank)
            if not filled:  # the end of the file, or lines to be skipped
                empty = _add(empty, raw.count(b"\n"), first_line)
                continue
            is_first = not self._anchors
            cells = self._cells(above + raw, first_line - (not is_first))
            if is_first:  # the first row tells how many fields a line has
                above += next(row for row in io.BytesIO(raw) if row.strip(blank))
            else:
                below = cells.frame.iloc[1:].reset_index(drop=True)
                cells = replace(cells, frame=below, first_line=first_line)
            yield self._rows(cells, self.roles.resolve(str(self.path), list(cells.frame.columns)))
            skipped = _add(_add(skipped, *empty), len(cells.skipped), next(iter(cells.skipped), 0))
            ends = raw.count(b"\n", len(filled))
            empty = (ends - 1, line - ends + 1) if ends > 1 else (0, 0)
        if not self._anchors:
            raise DataError(f"{self.path}: a header and no rows")
        warn_of_skipped_lines(self.path, *skipped)

    def _cells(self, text: bytes, first_line: int) -> Cells:
        """Parse the header and lines from `first_line` on. Raises DataError for a file that only training reads."""
        texts = [*self.texts, *self.roles.id_columns]
        try:
            header = read_header(self.path, text, self.options)
            return parse_cells(
                self.path, text, self.date_column, self.options, texts, header=header, first_line=first_line
            )
        except DataError as error:
            if not error.is_for_training:
                raise
            raise DataError(f"{error.problem}: a store needs a header with a column of dates") from None

    def _as_utf8(self, raw: bytes, line: int) -> bytes:
        """Return the text from this line on as UTF-8. Raises DataError if it is not in the encoding of the options."""
        if self.options.encoding is not None:
            raw = decode(self.path, raw, self.options.encoding)
        check_text(self.path, raw, line)
        return raw

    def _header(self, stream: io.BufferedIOBase) -> bytes:
        """Read the first line, and further ones while a quote is open."""
        first_line = self.options.first_line
        header = self._line(stream, first_line)
        while header.count(b'"') % 2 and (line := self._line(stream, first_line)):
            header += line
        if b"\0" in header:
            raise DataError(
                f"{self.path}: text in UTF-16, or none: save it as UTF-8 (iconv -f UTF-16 -t UTF-8)"
            )
        self._check_line_end(header)
        if not header.strip():
            raise DataError(f"{self.path}: line {first_line} is empty, and should name the columns")
        return header if header.endswith(b"\n") else header + b"\n"

    def _check_line_end(self, line: bytes) -> None:
        """Raise DataError for a line that ends in a carriage return alone."""
        if b"\r" in line.rstrip(b"\r\n"):
            raise DataError(
                f"{self.path}: lines end in a carriage return alone: save the file with line feeds"
            )

    def _lines(self, stream: io.BufferedIOBase, first: int) -> bytes:
        raw = stream.read(self.size)
        return raw if raw.endswith(b"\n") or not raw else raw + self._line(stream, first + raw.count(b"\n"))

    def _line(self, stream: io.BufferedIOBase, number: int) -> bytes:
        line = stream.readline(_MAX_LINE)
        if len(line) == _MAX_LINE:
            raise DataError(
                f"{self.path}, line {number}: longer than {_MAX_LINE >> 20} MiB: this is no table"
            )
        return line


def _add(found: tuple[int, int], count: int, first: int) -> tuple[int, int]:
    """A number of lines and the first one, with `count` more lines from `first` on."""
    return found[0] + count, found[1] if found[0] else first


_INDEX = re.compile(r"__index_level_\d+__")
"""pandas' name in a Parquet file for an index without a name."""


class ParquetChunks(Chunks):
    """A Parquet file with a column of dates, typed or as text, and columns of numbers or text."""

    unit = " rows"

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(path, **options)
        try:
            self._file = pyarrow.parquet.ParquetFile(path)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{path}: no Parquet file that can be read: {_first_line(error)}") from None
        self.total = self._file.metadata.num_rows

    def _read(self) -> Iterator[TableRows]:
        roles = self._resolve_roles()
        self._offset_changes = self._has_offsets(self.roles.date)
        for batch in self._batches(roles.all):
            frame = batch.to_pandas(ignore_metadata=True, date_as_object=False)
            for name in roles.values:
                if isinstance(frame[name].dtype, pd.StringDtype) or frame[name].dtype == object:
                    frame[name] = strip(frame[name], self.options.na_texts)
            frame = frame.astype(dict.fromkeys(roles.id_columns, "string"))
            cells = Cells(self.path, frame, first_line=self.done + 1, unit="row")
            self.done += len(frame)
            yield self._rows(cells, roles)
        if not self._anchors:
            raise DataError(f"{self.path}: no rows")

    def _batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns of the file, about `size` bytes of numbers at a time."""
        try:
            yield from self._file.iter_batches(max(1, self.size // (8 * len(columns))), columns=list(columns))
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{self.path}: cannot be read: {_first_line(error)}") from None

    def _has_offsets(self, column: str) -> bool:
        """Return whether the UTC offset of the dates changes in the file, reading only their column."""
        kind = self._file.schema_arrow.field(column).type
        if not pa.types.is_timestamp(kind) or kind.tz is None:
            return False
        first, days, changes = pd.DatetimeIndex([], tz="UTC"), True, False
        for batch in self._batches([column]):
            dates = pd.DatetimeIndex(batch.to_pandas(ignore_metadata=True)[column].dropna())
            first = first if len(first) else dates[:1]
            days = days and is_days(dates)
            changes = changes or not has_one_offset(pd.DatetimeIndex(first.append(dates)))
            if changes and not days:
                return True
        return False

    def _resolve_roles(self) -> ColumnRoles:
        """The roles with the targets by name. Raises DataError for a column that is missing, or of another type."""
        schema = self._file.schema_arrow
        if len(set(schema.names)) < len(schema.names):
            raise DataError(f"{self.path}: two columns of one name: rename one")
        asked = self.roles.all
        kept = [name for name in schema.names if name in asked or not _INDEX.fullmatch(name)]
        roles = self.roles.resolve(str(self.path), kept)
        for name in roles.values:
            kind = schema.field(name).type
            if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
                    or pa.types.is_boolean(kind) or pa.types.is_dictionary(kind) or _is_text(kind)):  # fmt: skip
                raise DataError(
                    f"{self.path}: column {quote(name)} is of {kind}, not numbers or text: leave it out (data.drop)"
                )
        return roles


def _is_text(kind: pa.DataType) -> bool:
    """Whether a column of a Parquet file is of strings, dictionary-encoded or not."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
