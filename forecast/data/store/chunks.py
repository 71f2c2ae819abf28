"""CSV and Parquet files of any size as chunks of rows."""

import codecs
import io
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64

from forecast.data.files.advice import write_settings
from forecast.data.files.cells import Cells, date_name, parse_cells, read_numbers
from forecast.data.files.columns import ColumnRoles, IdColumn, find_booleans, list_id_columns, read_ids
from forecast.data.files.dates import read_dates
from forecast.data.files.header import DEFAULT_NAMES, read_header
from forecast.data.files.patterns import BOOLEANS, LIKE_A_NUMBER, MISSING
from forecast.data.files.read import refuse_series_in_rows
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.table_rows import TableRows, read_targets
from forecast.data.files.text import (
    UNREADABLE,
    check_text,
    decode,
    is_workbook,
    no_line_below,
    quote,
    unpacked,
    warn_of_skipped_lines,
)
from forecast.data.files.timezone import place_in_time, without_zone
from forecast.data.utc_offset import UtcOffset
from forecast.system.errors import DataError, SeriesInRows, check_count
from forecast.system.formatting import quote_for_shell
from forecast.system.location import opened

MAX_CATEGORIES = 100_000
"""Largest number of texts of a column. They are in memory during the conversion and in every training."""


class LateText(Exception):
    """A column without numbers in the chunks above turns out to be text; its empty cells need another code."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(", ".join(names))
        self.names = names


@dataclass
class ColumnKinds:
    """The kinds of the columns in the chunks read so far, as JSON values.

    Attributes:
        texts: by column of text, its texts in order of appearance. The position of a text is its code.
        numbers: columns in which a number was found. A column of true and false alone is undecided.
        is_begun: whether a chunk was read.
    """

    texts: dict[str, list[str]] = field(default_factory=dict)
    numbers: list[str] = field(default_factory=list)
    is_begun: bool = False

    def find_texts(
        self, cells: Cells, names: Sequence[str], options: ReadOptions, missing: Sequence[str]
    ) -> list[str]:
        """The columns of a chunk that are text; `missing` texts stand for a missing value.

        Raises LateText for one that was not known to be text above.
        """
        found = {name: _kind(cells, name, options, missing) for name in names if name not in self.texts}
        new = [name for name, kind in found.items() if kind == "text" and name not in self.numbers]
        if new and self.is_begun:
            raise LateText(new)
        self.texts |= {name: [] for name in new}
        self.numbers += [n for n, kind in found.items() if kind == "number" and n not in self.numbers]
        self.is_begun = True
        return [name for name in names if name in self.texts]

    def encode(self, cells: Cells, name: str, missing: Sequence[str]) -> Float64[np.ndarray, " rows"]:
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


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of the file. Neither their order nor their grid is checked."""

    rows: TableRows
    position: dict[str, Any]  # of the next chunk, as JSON values
    done: int  # so far, out of `total`


class Chunks(ABC):
    """A file in chunks. `total` is its size in units of `unit`, or None if it is not known."""

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
        self.kinds = ColumnKinds()  # of the columns in the chunks read so far
        self.roles = ColumnRoles(
            list_id_columns(id_column),
            date_name(date_column),
            None if columns is None else tuple(map(str, columns)),
            drop=tuple(map(str, drop)),
        )
        self.roles.check()

    @abstractmethod
    def _read(self, position: dict[str, Any] | None) -> Iterator[Chunk]:
        """Yield the chunks from a position on, or from the beginning for None. Raises DataError for invalid content."""

    def read(self, position: dict[str, Any] | None) -> Iterator[Chunk]:
        """Yield the chunks from a position on, or from the beginning for None. Raises DataError for invalid content."""
        return self._read(position) if self.duplicates is None else self._read_whole_dates(position)

    def _read_whole_dates(self, position: dict[str, Any] | None) -> Iterator[Chunk]:
        """Yield the chunks of `_read`, with the rows of the last date of each chunk moved to the next chunk.

        A position is the position of a chunk of `_read` and the number of its rows to skip.
        """
        part, skip = (None, 0) if position is None else (position["chunk"], position["skip"])
        begin, held, done = {"chunk": part, "skip": skip}, None, 0
        for chunk in self._read(part):
            new = _slice(chunk.rows, skip, len(chunk.rows))
            rows = new if held is None else _join(held, new)
            earlier = np.flatnonzero((rows.dates != rows.dates[-1]) | (rows.codes != rows.codes[-1]))
            ready = int(earlier[-1]) + 1 if len(earlier) else 0
            if len(rows) - ready <= len(new):
                begin = {"chunk": part, "skip": len(chunk.rows) - (len(rows) - ready)}
            if ready:
                yield Chunk(_slice(rows, 0, ready), begin, chunk.done)
            held, part, skip, done = _slice(rows, ready, len(rows)), chunk.position, 0, chunk.done
        if held is not None:
            yield Chunk(held, {"chunk": part, "skip": 0}, done)

    @abstractmethod
    def sort_command(self, rows: TableRows, columns: Sequence[str]) -> str | None:
        """A command that sorts the file by these columns on disk; None if there is none. `rows` are of the file."""

    def _rows(self, cells: Cells, roles: ColumnRoles, dates: tuple[pd.DatetimeIndex, UtcOffset]) -> TableRows:
        """The rows of a chunk: numbers as targets, codes of texts as past covariates.

        `dates` come with their UTC offset.
        """
        missing = [*self.missing, *self.options.na_texts]
        texts = self.kinds.find_texts(cells, roles.values, self.options, missing)
        numbers = [name for name in roles.values if name not in texts]
        roles = replace(roles, targets=tuple(numbers), past=tuple(texts))
        codes = [self.kinds.encode(cells, name, missing) for name in texts]
        series, ids = read_ids(cells, roles.id_columns)
        if dates[1].stamp:
            self.options = self.options.of_rows_after(dates[1])
        return TableRows(
            cells=cells,
            roles=roles,
            ids=ids,
            codes=series,
            dates=dates[0].to_numpy("datetime64[ns]"),
            values=np.column_stack([read_targets(cells, roles, self.options), *codes]),
            future=np.empty((len(cells.frame), 0)),
            static={},
            utc_offset=dates[1],
            unit="ns" if dates[0].unit == "ns" else "us",
            texts={name: self.kinds.texts[name] for name in texts},
            booleans=find_booleans(cells, roles.values),
        )

    def _dates(
        self, cells: Cells, column: str, anchors: Sequence[Sequence[str]]
    ) -> tuple[pd.DatetimeIndex, UtcOffset]:
        """Parse the dates of a chunk in the format of the rows above it, and return them with their UTC offset.

        `anchors` are the texts, the parsed dates and the series of the file's first row and of the row above the chunk.
        """
        texts, codes, ids = cells.frame[column], *read_ids(cells, self.roles.id_columns)
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

    def _anchors(
        self, cells: Cells, column: str, dates: pd.DatetimeIndex, before: Sequence[Sequence[str]]
    ) -> list[list[str]]:
        texts, codes, ids = cells.frame[column], *read_ids(cells, self.roles.id_columns)
        first, last = ([str(texts.iloc[row]), str(dates[row]), str(ids[codes[row]])] for row in (0, -1))
        return [list(before[0]) if before else first, last]


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

    def _read(self, position: dict[str, Any] | None) -> Iterator[Chunk]:
        try:
            with opened(self.path) as (file, _), unpacked(self.path, file) as stream:
                yield from self._parse(stream, position)
        except UNREADABLE as error:
            raise DataError(f"{self.path}: cannot be read: {error}") from None

    def _parse(self, stream: io.BufferedIOBase, position: dict[str, Any] | None) -> Iterator[Chunk]:
        for line in range(1, self.options.first_line):
            above = self._line(stream, line)
            self._check_line_end(above)
            if not above:
                raise no_line_below(self.path, self.options)
        header = self._header(stream)
        line = self.options.first_line
        start = {"offset": stream.tell(), "line": line + header.count(b"\n"), "empty": [0, 0], "anchors": []}
        start |= {"skipped": start["empty"]}  # number of lines without a value, and the first one
        blank = b"\r\n\t " + self.options.separator.encode()
        while (first_row := self._line(stream, start["line"])) and not first_row.strip(blank):
            pass
        at = start | (position or {})
        stream.seek(at["offset"])
        header, first_row = (
            self._as_utf8(header, line).removeprefix(codecs.BOM_UTF8),
            self._as_utf8(first_row, start["line"]),
        )
        column = self.roles.date
        while raw := self._lines(stream, at["line"]):
            after = {**at, "offset": at["offset"] + len(raw), "line": at["line"] + raw.count(b"\n")}
            raw = self._as_utf8(raw, at["line"])
            filled = raw.rstrip(blank)
            if not filled:  # the end of the file, or lines to be skipped
                at = {**after, "empty": _add(at["empty"], raw.count(b"\n"), at["line"])}
                continue
            is_first = at["offset"] == start["offset"]
            text = (
                header + raw if is_first else header + first_row + raw
            )  # it tells how many fields a line has
            cells = self._cells(text, at["line"] - (not is_first))
            if not is_first:
                below = cells.frame.iloc[1:].reset_index(drop=True)
                cells = replace(cells, frame=below, first_line=at["line"])
            roles = self.roles.resolve(str(self.path), list(cells.frame.columns))
            dates = self._dates(cells, column, at["anchors"])
            rows = self._rows(cells, roles, dates)
            skipped = _add(at["skipped"], *at["empty"])
            after["skipped"] = _add(skipped, len(cells.skipped), next(iter(cells.skipped), 0))
            ends = raw.count(b"\n", len(filled))
            after["empty"] = [ends - 1, after["line"] - ends + 1] if ends > 1 else [0, 0]
            after["anchors"] = self._anchors(cells, column, dates[0], at["anchors"])
            yield Chunk(rows, after, after["offset"])
            at = after
        if not at["anchors"]:
            raise DataError(f"{self.path}: a header and no rows")
        warn_of_skipped_lines(self.path, *at["skipped"])

    def _cells(self, text: bytes, first_line: int) -> Cells:
        """Parse the header and lines from `first_line` on. Raises DataError for a file that only training reads."""
        texts = [*self.kinds.texts, *self.roles.id_columns]
        try:
            header = read_header(self.path, text, self.options)
            if self.date_column in DEFAULT_NAMES and self.date_column not in header.names:
                refuse_series_in_rows(self.path, text, self.options.separator, header)
            return parse_cells(
                self.path, text, self.date_column, self.options, texts, header=header, first_line=first_line
            )
        except SeriesInRows as error:
            settings = write_settings({"path": str(self.path), **error.remedy.settings})
            typed = f"python -m forecast.train {settings}"
            raise DataError(f"{error.problem}, which no store holds: train on the file: {typed}") from None
        except DataError as error:
            if error.problem == str(error):
                raise
            raise DataError(f"{error.problem}: a store needs a header with a column of dates") from None

    def sort_command(self, rows: TableRows, columns: Sequence[str]) -> str | None:
        """See `Chunks.sort_command`; None for a packed file, and for dates that are not sorted as texts."""
        names, first = rows.cells.frame.columns.tolist(), str(rows.cells.frame[self.roles.date].iloc[0])
        if (
            self.total is None
            or self.date_column != self.roles.date
            or not re.match(r"\d{4}-\d\d-\d\d", first)
        ):
            return None
        file, sign = quote_for_shell(str(self.path)), quote_for_shell(self.options.separator)
        keys = " ".join(f"-k{number},{number}" for number in (names.index(name) + 1 for name in columns))
        line = self.options.first_line
        return f"(head -n {line} {file}; tail -n +{line + 1} {file} | LC_ALL=C sort -s -t {sign} {keys}) > sorted.csv"

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


def _add(found: list[int], count: int, first: int) -> list[int]:
    """A number of lines and the first one, with `count` more lines from `first` on."""
    return [found[0] + count, found[1] if found[0] else first]
