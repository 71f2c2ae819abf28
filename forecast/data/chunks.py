"""A CSV or Parquet file of any size as chunks of rows, each read as the whole file would be.

A chunk begins where the `position` of the one before says, so that reading may go on there another day.
"""

import codecs
import io
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
from jaxtyping import Float64

from forecast.data.csvfile import Cells, date_name, parse_cells, quote, read_numbers
from forecast.data.dates import dates_and_clock
from forecast.data.table import check_signs, choose_columns
from forecast.data.textfile import UNREADABLE, check_text, unpacked
from forecast.data.timezone import has_one_offset, is_days, warn_of_offsets, without_zone
from forecast.errors import ConfigError, DataError

_LONGEST_LINE = 1 << 24
_INDEX = re.compile(r"__index_level_\d+__")
"""What pandas calls an index without a name in a Parquet file."""


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows as the file has them; neither their order nor their grid is checked."""

    cells: Cells
    date_column: str
    names: list[str]
    dates: pd.DatetimeIndex
    clock: int | None  # minutes the dates are ahead of UTC, where that is known
    values: Float64[np.ndarray, "rows columns"]
    position: dict[str, Any]  # of the next chunk; plain values
    done: int  # of `total`


class Chunks(ABC):
    """A file in chunks. `total` counts what is to be read in units of `unit`; None: nobody knows."""

    unit: str
    total: int | None
    _offset_changes = False  # of dates that are no texts, from UTC, somewhere in the file

    def __init__(
        self,
        path: Path,
        *,
        date_column: str | Sequence[str],
        date_format: str | None,
        timezone: str | None,
        columns: Sequence[str] | None,
        size: int,
    ) -> None:
        """`size`: bytes of text, or of numbers, that are read at a time."""
        if type(size) is not int or size < 1:
            raise ConfigError(f"chunk={size} must be a whole number of bytes")
        self.path, self.columns, self.date_column, self.size = path, columns, date_column, size
        self._date_format, self._timezone = date_format, timezone

    @abstractmethod
    def read(self, position: dict[str, Any] | None) -> Iterator[Chunk]:
        """The chunks from a position on, None: the beginning. Raises DataError for what cannot be read."""

    def _dates(
        self, cells: Cells, column: str, anchors: Sequence[Sequence[str]]
    ) -> tuple[pd.DatetimeIndex, int | None]:
        """The dates of a chunk, read as those of the file's first row and of the row above the chunk were; their clock.

        `anchors` are the texts of these two and what they were read as; their format is the chunk's too.
        """
        texts = cells.frame[column]
        if pd.api.types.is_datetime64_any_dtype(texts.dtype):
            if texts.hasnans:
                raise cells.refuse("no date", row=int(texts.isna().argmax()), column=column)
            dates = pd.DatetimeIndex(texts)
            return without_zone(self.path, dates.tz_convert("UTC") if self._offset_changes else dates)
        known = pd.Series([text for text, _ in anchors], dtype=str)
        texts = pd.concat([known, texts.astype(str).where(texts.notna())], ignore_index=True)
        above = Cells(cells.path, pd.DataFrame({column: texts}), cells.first_line - len(anchors), cells.unit)
        dates, clock = dates_and_clock(above, column, self._date_format, self._timezone)
        if [str(date) for date in dates[: len(anchors)]] != [date for _, date in anchors]:
            raise cells.refuse(
                f"{quote(texts.iloc[len(anchors)])} and the dates above: one way to read them all is needed: set "
                "data.date_format, with %z for offsets from UTC that change, or give dates in UTC",
                row=0,
                column=column,
            )
        return dates[len(anchors) :], clock

    def _anchors(
        self, cells: Cells, column: str, dates: pd.DatetimeIndex, before: Sequence[Sequence[str]]
    ) -> list[list[str]]:
        texts = cells.frame[column]
        first, last = ([str(texts.iloc[row]), str(dates[row])] for row in (0, -1))
        return [list(before[0]) if before else first, last]


class CsvChunks(Chunks):
    """A CSV file, packed or not; the options are those of `forecast.data.table.read_table`."""

    unit = "B"

    def __init__(
        self, path: Path, *, separator: str, decimal: str, thousands: str | None, **options: Any
    ) -> None:
        super().__init__(path, **options)
        check_signs(separator, decimal, thousands)
        self._separator, self._decimal, self._thousands = separator, decimal, thousands
        with unpacked(path) as (stream, size):
            self.total = size if isinstance(stream, io.BufferedReader) else None

    def read(self, position: dict[str, Any] | None) -> Iterator[Chunk]:
        try:
            with unpacked(self.path) as (stream, _):
                yield from self._read(stream, position)
        except UNREADABLE as error:
            raise DataError(f"{self.path}: cannot be read: {error}") from None

    def _read(self, stream: io.BufferedIOBase, position: dict[str, Any] | None) -> Iterator[Chunk]:
        header = self._header(stream)
        start = {"offset": stream.tell(), "line": 1 + header.count(b"\n"), "blank": None, "anchors": []}
        first_row = self._line(stream, start["line"])
        at = position or start
        stream.seek(at["offset"])
        header = header.removeprefix(codecs.BOM_UTF8)
        column = date_name(self.date_column)
        while raw := self._lines(stream, at["line"]):
            after = {**at, "offset": at["offset"] + len(raw), "line": at["line"] + raw.count(b"\n")}
            check_text(self.path, raw, at["line"])
            filled = raw.rstrip(b"\r\n\t " + self._separator.encode())
            if not filled:
                at = {**after, "blank": at["blank"] or at["line"]}
                continue
            if at["blank"]:
                raise DataError(f"{self.path}, line {at['blank']}: an empty line: delete it")
            is_first = at["offset"] == start["offset"]
            cells = parse_cells(
                self.path,
                header + raw if is_first else header + first_row + raw,  # it tells how many fields a line has
                date_column=self.date_column,
                separator=self._separator,
                decimal=self._decimal,
                first_line=at["line"] - (not is_first),
            )
            if not is_first:
                cells = Cells(self.path, cells.frame.iloc[1:].reset_index(drop=True), at["line"])
            names = choose_columns(cells, column, self.columns)
            dates, clock = self._dates(cells, column, at["anchors"])
            signs = {"decimal": self._decimal, "thousands": self._thousands}
            values = np.stack([read_numbers(cells, name, **signs) for name in names], axis=1)
            ends = raw.count(b"\n", len(filled))
            after["blank"] = after["line"] - ends + 1 if ends > 1 else None
            after["anchors"] = self._anchors(cells, column, dates, at["anchors"])
            yield Chunk(cells, column, names, dates, clock, values, after, after["offset"])
            at = after
        if not at["anchors"]:
            raise DataError(f"{self.path}: a header and no rows")

    def _header(self, stream: io.BufferedIOBase) -> bytes:
        """The first line; more, where a quote is opened and not closed in it."""
        header = self._line(stream, 1)
        while header.count(b'"') % 2 and (line := self._line(stream, 1)):
            header += line
        if b"\0" in header:
            raise DataError(
                f"{self.path}: text in UTF-16, or none: save it as UTF-8 (iconv -f UTF-16 -t UTF-8)"
            )
        check_text(self.path, header)
        if b"\r" in header.rstrip(b"\r\n"):
            raise DataError(
                f"{self.path}: lines end in a carriage return alone: save the file with line feeds"
            )
        if not header.strip():
            raise DataError(f"{self.path}: line 1 is empty, and should name the columns")
        return header if header.endswith(b"\n") else header + b"\n"

    def _lines(self, stream: io.BufferedIOBase, first: int) -> bytes:
        raw = stream.read(self.size)
        return raw if raw.endswith(b"\n") or not raw else raw + self._line(stream, first + raw.count(b"\n"))

    def _line(self, stream: io.BufferedIOBase, number: int) -> bytes:
        line = stream.readline(_LONGEST_LINE)
        if len(line) == _LONGEST_LINE:
            raise DataError(
                f"{self.path}, line {number}: longer than {_LONGEST_LINE >> 20} MiB: this is no table"
            )
        return line


class ParquetChunks(Chunks):
    """A Parquet file: a column of dates, as dates or texts, and columns of numbers."""

    unit = " rows"

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(path, **options)
        try:
            self._file = pyarrow.parquet.ParquetFile(path)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{path}: no Parquet file that can be read: {_first_line(error)}") from None
        self.total = self._file.metadata.num_rows

    def read(self, position: dict[str, Any] | None) -> Iterator[Chunk]:
        at = position or {"row": 0, "anchors": []}
        column = date_name(self.date_column)
        wanted = self._wanted(column)
        self._offset_changes = self._has_offsets(column)
        if self._offset_changes:
            warn_of_offsets(self.path)
        group, skipped = 0, at["row"]  # rows of that group that were read before
        while group < self._file.num_row_groups and skipped >= self._file.metadata.row_group(group).num_rows:
            skipped -= self._file.metadata.row_group(group).num_rows
            group += 1
        batches = self._file.iter_batches(
            batch_size=max(1, self.size // (8 * len(wanted))),
            row_groups=range(group, self._file.num_row_groups),
            columns=wanted,
        )
        try:
            for batch in batches:
                if skipped >= len(batch):
                    skipped -= len(batch)
                    continue
                chunk = self._chunk(batch.slice(skipped), column, at)
                yield chunk
                at, skipped = chunk.position, 0
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{self.path}: cannot be read: {_first_line(error)}") from None
        if not at["anchors"]:
            raise DataError(f"{self.path}: no rows")

    def _has_offsets(self, column: str) -> bool:
        """Whether the dates are times of a zone whose offset from UTC changes among them; they alone are read."""
        kind = self._file.schema_arrow.field(column).type
        if not pa.types.is_timestamp(kind) or kind.tz is None:
            return False
        first, days, changes = pd.DatetimeIndex([], tz="UTC"), True, False
        try:
            for batch in self._file.iter_batches(batch_size=max(1, self.size // 8), columns=[column]):
                dates = pd.DatetimeIndex(batch.to_pandas(ignore_metadata=True)[column].dropna())
                first = first if len(first) else dates[:1]
                days = days and is_days(dates)
                changes = changes or not has_one_offset(pd.DatetimeIndex(first.append(dates)))
                if changes and not days:
                    return True
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{self.path}: cannot be read: {_first_line(error)}") from None
        return False

    def _wanted(self, column: str) -> list[str]:
        schema = self._file.schema_arrow
        if len(set(schema.names)) < len(schema.names):
            raise DataError(f"{self.path}: two columns of one name: rename one")
        if column not in schema.names:
            names = ", ".join(map(quote, schema.names[:8]))
            raise DataError(
                f"{self.path}: no column {quote(column)} ({names}): set data.date_column to the name of the dates"
            )
        empty = Cells(self.path, schema.empty_table().to_pandas(ignore_metadata=True))
        if self.columns is None:  # a DataFrame's index is none of its columns
            kept = [name for name in schema.names if name == column or not _INDEX.fullmatch(name)]
            empty = Cells(self.path, pd.DataFrame(empty.frame[kept]))
        names = choose_columns(empty, column, self.columns)
        for name in names:
            kind = schema.field(name).type
            if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
                raise DataError(
                    f"{self.path}: column {quote(name)} is of {kind}: choose the number columns (data.columns)"
                )
        return [column, *names]

    def _chunk(self, batch: pa.RecordBatch, column: str, at: dict[str, Any]) -> Chunk:
        frame = batch.to_pandas(ignore_metadata=True, date_as_object=False)
        cells = Cells(self.path, frame, first_line=at["row"] + 1, unit="row")
        names = choose_columns(cells, column, self.columns)
        dates, clock = self._dates(cells, column, at["anchors"])
        values = frame[names].to_numpy(dtype=np.float64, na_value=np.nan)
        after = {"row": at["row"] + len(frame), "anchors": self._anchors(cells, column, dates, at["anchors"])}
        return Chunk(cells, column, names, dates, clock, values, after, after["row"])


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def is_parquet(path: Path) -> bool:
    """Whether the file begins as Parquet does, whatever its name."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"
