"""A CSV file of any size as chunks of rows."""

import codecs
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from forecast.data.files.cells import MISSING, Cells, parse_cells
from forecast.data.files.compressed import UNREADABLE, is_workbook, unpacked
from forecast.data.files.empty_lines import warn_of_skipped_lines
from forecast.data.files.find_date_column import DEFAULT_NAMES
from forecast.data.files.header import read_header
from forecast.data.files.remedies import write_settings
from forecast.data.files.series_in_rows import refuse_series_in_rows
from forecast.data.files.table_rows import TableRows
from forecast.data.files.text import check_text, decode, no_line_below
from forecast.data.store.chunks import Chunk, Chunks
from forecast.system.arguments import quote_for_shell
from forecast.system.errors import DataError, SeriesInRows
from forecast.system.location import opened

_MAX_LINE = 1 << 24


class CsvChunks(Chunks):
    """A CSV file, compressed or not, with the options of `forecast.data.files.file_source.FileSource`."""

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
