"""The header of a CSV file: the names of the columns, checked."""

import csv
import io
from collections.abc import Sequence
from typing import NamedTuple

from forecast.data.files.header_hints import describe_preamble, find_preamble
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.text import quote
from forecast.system.errors import DataError
from forecast.system.formatting import plural
from forecast.system.location import Location

_MAX_COLUMNS = 100_000
UNNAMED = "Unnamed: 0"
"""The name that pandas gives to a first column without one, which is the index that `DataFrame.to_csv` writes."""
_UNNAMED_AGAIN = "Unnamed: 0.1"
"""Its name in a file that pandas has written twice."""


class Header(NamedTuple):
    """The header of a file.

    Attributes:
        names: the column names.
        n_lines: the number of lines that it takes.
        width: the number of columns: that of the header or of the first row below it, whichever is larger.
        line: its first line in the file.
    """

    names: list[str]
    n_lines: int
    width: int
    line: int = 1

    @property
    def all_names(self) -> list[str]:
        """The name of every column; empty for those without one."""
        return self.names + [""] * (self.width - len(self.names))


def read_header(path: Location, raw: bytes, options: ReadOptions) -> Header:
    """Read the header of a file from its text without the lines above it (`data.skip_rows`).

    Raises DataError for too many columns, an unclosed quote, or a name that is not printable or appears twice.
    """
    separator, begin, first_line = options.separator, 0, options.first_line
    for line in (first_line, first_line + 1):
        end = raw.find(b"\n" if b"\n" in raw else b"\r", begin)
        fields = raw.count(separator.encode(), begin, end if end >= 0 else len(raw)) + 1
        if fields > _MAX_COLUMNS:
            raise DataError(f"{path}, line {line}: {fields:,} columns; at most {_MAX_COLUMNS:,} are read")
        begin = end + 1 if end >= 0 else len(raw)
    records = csv.reader(
        io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8", newline=""), delimiter=separator, strict=True
    )
    line = first_line
    try:
        header = [_one_line(name) for name in next(records, [])]
        lines, line = records.line_num, first_line + 1
        row = next(records, [])
        width = max(len(header), len(row))
    except csv.Error as error:
        raise DataError(f"{path}, line {line}: {error}: is a quote never closed?") from None
    if options.given_names is not None:
        header, lines = _check_names(path, options.given_names, width, first_line), 0
    elif len(header) > 1:
        header[0] = header[0] or (_UNNAMED_AGAIN if UNNAMED in header else UNNAMED)
    seen: dict[str, int] = {}
    for number, name in enumerate(header, start=1):
        if not name.isprintable():
            what = f"the name of field {number}, {quote(name)}, has characters that cannot be shown"
            raise DataError(f"{path}, line {first_line}: {what}: rename it")
        if name and name in seen:
            both = f"fields {seen[name]} and {number}"
            problem = f"{path}, line {first_line}: column {quote(name)} appears twice ({both})"
            if remedy := find_preamble(raw, options):
                raise DataError(f"{problem}: {describe_preamble(remedy)}", remedies=[remedy])
            raise DataError(f"{problem}: rename one")
        seen[name] = number
    return Header(header, lines, width, first_line)


def is_unnamed(name: str) -> bool:
    """Whether a column had no name where the file was written."""
    return name in (UNNAMED, _UNNAMED_AGAIN)


def _check_names(path: Location, given: Sequence[str], width: int, line: int) -> list[str]:
    """The names of the columns of a file without a header. Raises DataError for too many or too few names."""
    if given and len(given) != width:
        raise DataError(
            f"{path}, line {line}: {width} fields, and data.names has {plural(len(given), 'name')}: give one for each"
        )
    return [str(name) for name in given] or [f"column_{number}" for number in range(1, width + 1)]


def _one_line(name: str) -> str:
    """Strip a column name and replace line ends and hard spaces in it by spaces."""
    return name.strip() if name.strip().isprintable() else " ".join(name.split())
