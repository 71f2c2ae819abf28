"""The header of a CSV file: the names of the columns, checked, and hints on a name that is missing."""

import csv
import difflib
import io
import re
from collections.abc import Sequence
from typing import NamedTuple

from forecast.data.files.text import quote
from forecast.system.errors import DataError
from forecast.system.formatting import plural, shorten
from forecast.system.location import Location

_NUMBER = re.compile(r"[-+]?[0-9]*[.,]?[0-9]+(e[-+]?[0-9]+)?")
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
    """

    names: list[str]
    n_lines: int
    width: int

    @property
    def all_names(self) -> list[str]:
        """The name of every column; empty for those without one."""
        return self.names + [""] * (self.width - len(self.names))


def read_header(path: Location, raw: bytes, separator: str, given: Sequence[str] | None = None) -> Header:
    """Read the header of a file.

    `given` has the names of a file without a header, and is empty for column_1, column_2, ...; None: there is a header.
    Raises DataError for too many columns, an unclosed quote, or a name that is not printable or appears twice.
    """
    begin = 0
    for line in (1, 2):
        end = raw.find(b"\n" if b"\n" in raw else b"\r", begin)
        fields = raw.count(separator.encode(), begin, end if end >= 0 else len(raw)) + 1
        if fields > _MAX_COLUMNS:
            raise DataError(f"{path}, line {line}: {fields:,} columns; at most {_MAX_COLUMNS:,} are read")
        begin = end + 1 if end >= 0 else len(raw)
    records = csv.reader(
        io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8", newline=""), delimiter=separator, strict=True
    )
    line = 1
    try:
        header = [_one_line(name) for name in next(records, [])]
        lines, line = records.line_num, 2
        row = next(records, [])
        width = max(len(header), len(row))
    except csv.Error as error:
        raise DataError(f"{path}, line {line}: {error}: is a quote never closed?") from None
    if given is not None:
        header, lines = _check_names(path, given, width), 0
    elif len(header) > 1:
        header[0] = header[0] or (_UNNAMED_AGAIN if UNNAMED in header else UNNAMED)
    seen: dict[str, int] = {}
    for number, name in enumerate(header, start=1):
        if not name.isprintable():
            what = f"the name of field {number}, {quote(name)}, has characters that cannot be shown"
            raise DataError(f"{path}, line 1: {what}: rename it")
        if name and name in seen:
            both = f"fields {seen[name]} and {number}"
            raise DataError(f"{path}, line 1: column {quote(name)} appears twice ({both}): rename one")
        seen[name] = number
    return Header(header, lines, width)


def is_unnamed(name: str) -> bool:
    """Whether a column had no name where the file was written."""
    return name in (UNNAMED, _UNNAMED_AGAIN)


def _check_names(path: Location, given: Sequence[str], width: int) -> list[str]:
    """The names of the columns of a file without a header. Raises DataError for too many or too few names."""
    if given and len(given) != width:
        raise DataError(
            f"{path}, line 1: {width} fields, and data.names has {plural(len(given), 'name')}: give one for each"
        )
    return [str(name) for name in given] or [f"column_{number}" for number in range(1, width + 1)]


def _one_line(name: str) -> str:
    """Strip a column name and replace line ends and hard spaces in it by spaces."""
    return name.strip() if name.strip().isprintable() else " ".join(name.split())


def hint_on_names(header: list[str], raw: bytes, wanted: str, separator: str) -> tuple[str, str]:
    """Return the end of the message for a missing date column: the likely cause, and what to set in training alone."""
    if header and header[0][:1] in ("{", "[", "<"):
        return "in line 1, which looks like JSON or HTML: give a CSV file", ""
    if len(list(filter(None, header))) == 1:
        if header[0].lower().startswith("sep="):
            sign = header[0][4:]
            return f"in line 1, which names a separator: delete that line and set data.separator={sign}", ""
        for other in ";\t,|":
            if other != separator and other in header[0]:
                return (
                    f"in line 1, which looks separated by {other!r}: {_advice_on_separator(other, raw)}",
                    "",
                )
    for number, line in enumerate(raw[:65_536].decode(errors="replace").splitlines()[1:], start=2):
        if wanted in [name.strip(" \"'") for name in line.split(separator)]:
            return f"in line 1, but in line {number}: delete the lines above the header", ""
    names = shorten(list(map(quote, header)), 20)
    if any(_NUMBER.fullmatch(name) for name in header):
        return f"in line 1 ({names})", ": for a file without a header set data.header=none"
    parts = [name for name in header if name.lower() in ("year", "month", "day", "hour")]
    if len(parts) > 1:
        return f"in line 1 ({names}): set data.date_column=[{','.join(parts)}]", ""
    if near := difflib.get_close_matches(wanted, header, n=1):
        return f"in line 1 ({names}): did you mean data.date_column={near[0]}?", ""
    dates = "set data.date_column to the name of the dates"
    return f"in line 1 ({names}): {dates}", ", or data.start=2010-01-01 data.freq=D if there are none"


def _advice_on_separator(separator: str, raw: bytes) -> str:
    """The settings of a separator, and of the decimal comma where line 2 has one."""
    if separator == "\t":
        return "set data.separator"
    row = raw[:65_536].decode(errors="replace").splitlines()[1:2]
    has_commas = any(re.fullmatch(r"[-+]?\d+,\d+", field) for field in "".join(row).split(separator))
    return f"set 'data.separator={separator}'" + (
        " data.decimal=," if has_commas and separator != "," else ""
    )
