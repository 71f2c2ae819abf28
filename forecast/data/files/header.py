"""The header of a CSV file: names of columns, checked, and hints where it is missing."""

import csv
import difflib
import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from forecast.data.files.date_columns import find_parts, is_date
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.text import quote
from forecast.system.errors import DataError, Remedy
from forecast.system.formatting import plural, shorten
from forecast.system.location import Location

_NUMBER = re.compile(r"[-+]?[0-9]*[.,]?[0-9]+(e[-+]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}([^0-9.].*)?|(19|20)[0-9]{6}([T: ]?[0-9]{4,6})?")
_NO_NAME = re.compile(r"[-+]?[0-9.,]*|-+|(?i:na|nan|n/a|null|none)")
_SEPARATORS = ";\t,| "
_HEAD, _MAX_PREAMBLE = 1 << 16, 100
"""Bytes of a file that are looked at, and lines above a header."""

SAMPLED, _MAX_SAMPLE = 50, 1 << 20
"""Cells of a column, and bytes of a file, that are looked at for dates."""


def refuse_names(
    path: Location, names: Sequence[str], raw: bytes, wanted: str, options: ReadOptions
) -> DataError:
    """The error of a missing date column, with likely remedies.

    Args:
        path: the file.
        names: its columns.
        raw: the text from the header on.
        wanted: the name of the date column.
        options: how the text was read.
    """
    line = options.first_line
    where = "in line 1" if line == 1 else f"in line {line}, where data.skip_rows={line - 1} places the header"
    problem, named = f"{path}: no column {quote(wanted)} {where}", list(filter(None, names))
    if names and names[0][:1] in ("{", "[", "<"):
        return DataError(f"{problem}, which looks like JSON or HTML: give a CSV file")
    if len(named) == 1 and names[0].lower().startswith("sep="):
        settings = {"skip_rows": line} | ({"separator": names[0][4:]} if names[0][4:] else {})
        return DataError(f"{problem}, which names a separator", remedies=[Remedy(settings)])
    if remedy := find_preamble(raw, options, wanted):
        return DataError(f"{problem}: {describe_preamble(remedy)}", remedies=[remedy])
    if len(named) == 1:
        first = raw[:_HEAD].decode(errors="replace").splitlines()[0]  # a name has no tabs
        present = [sign for sign in _SEPARATORS if sign in first and (sign != " " or "  " in first)]
        others = [sign for sign in present if sign != options.separator]
        others.sort(key=first.count, reverse=True)
        if others:
            remedies = [Remedy({"separator": sign}) for sign in others]
            return DataError(f"{problem}, which looks separated by {others[0]!r}", remedies=remedies)
    shown = shorten(list(map(quote, names)), 20)
    if any(_NUMBER.fullmatch(name) for name in names):
        problem += f", which looks like a row of values ({shown})"
        return DataError(
            problem, ": for a file without a header set data.header=none", [Remedy({"header": "none"})]
        )
    problem += f" ({shown})"
    parts = [name for name, part in zip(names, find_parts(names), strict=True) if part]
    near = difflib.get_close_matches(wanted, names, n=1)
    dated = [parts] if len(parts) > 1 else [*near, *parts, *find_date_columns(raw, options, names)]
    if (
        options.given_names is not None and not dated
    ):  # columns of the year, the month and the day, without names
        dated = [names[:2], names[:3]]
    remedies = [Remedy({"date_column": name}) for name in dated]
    if not remedies:  # invented dates would read any file
        problem += ": set data.date_column to the name of the dates; rows without dates need data.start and data.freq"
    return DataError(problem, remedies=remedies)


def find_preamble(raw: bytes, options: ReadOptions, wanted: str | None = None) -> Remedy | None:
    """`data.skip_rows` if the header seems to stand below other lines; else None.

    It is a line with the name `wanted`, or else one that `_is_header`. Lines above it of as many fields, none of them a
    number, may belong to the header, such as names above units: then nothing is found.
    """
    lines = raw[:_HEAD].decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for separator in dict.fromkeys((options.separator, *_SEPARATORS)):
        rows = [
            [field.strip(" \"'") for field in line.split(None if separator == " " else separator)]
            for line in lines[: _MAX_PREAMBLE + 3]
        ]
        above, named = _find_header(rows, wanted), {}
        if above is None and separator == " " and options.given_names is None:
            above, named = _find_numbers(rows), {"header": "none"}
        if above is None:
            continue
        if not named and all(_may_name(fields, rows[above]) for fields in rows[:above]):
            return None
        settings = {"skip_rows": above + options.first_line - 1, **named}
        return Remedy(settings if separator == options.separator else {**settings, "separator": separator})
    return None


def describe_preamble(remedy: Remedy) -> str:
    """Say where the header seems to be, or the first row of a file whose header has other fields than the rows."""
    what = "first row" if "header" in remedy.settings else "header"
    return f"the {what} seems to be line {remedy.settings['skip_rows'] + 1}"


def find_date_columns(raw: bytes, options: ReadOptions, header: Sequence[str]) -> list[str]:
    """The names of the columns of a CSV file whose first cells look like dates.

    Those that repeat fewest cells come first: of days, and of days with times, the latter.
    """
    head = raw[:_MAX_SAMPLE].decode(errors="ignore")
    records = read_records(io.StringIO(head, newline=""), options.separator)
    try:
        rows = list(islice(records, SAMPLED + 1))
    except csv.Error:  # of a field too long
        return []
    if options.given_names is None:
        if any(map(is_date, rows[0])):  # no header
            return []
        rows = rows[1:]
    if len(head) >= _MAX_SAMPLE:
        rows = rows[:-1]  # which may be cut
    columns = {name: [row[i] for row in rows if i < len(row)] for i, name in enumerate(header)}
    found = [name for name, cells in columns.items() if name and cells and all(map(is_date, cells))]
    return sorted(found, key=lambda name: -len(set(columns[name])))


def _find_header(rows: Sequence[Sequence[str]], wanted: str | None) -> int | None:
    """The number of lines above the header, which has as many fields as most lines; None if no line seems to be one."""
    named = [number for number, fields in enumerate(rows) if len(fields) > 1 and wanted in fields]
    width = Counter(map(len, rows)).most_common(1)[0][0]
    likely = [
        number
        for number in range(len(rows) - 2)
        if len(rows[number]) == width and _is_header(*rows[number : number + 3])
    ]
    return next(iter([*named, *likely]), None)


def _find_numbers(rows: Sequence[Sequence[str]]) -> int | None:
    """The number of lines, if any, above the first three of which all fields are numbers."""
    are_numbers = [len(fields) > 1 and all(map(_NO_NAME.fullmatch, fields)) for fields in rows]
    first = next((n for n in range(len(rows) - 2) if all(are_numbers[n : n + 3])), 0)
    return first or None


def _may_name(fields: Sequence[str], header: Sequence[str]) -> bool:
    """Whether a line above a header may belong to it: it has as many fields, and texts alone."""
    return len(fields) == len(header) and any(fields) and not any(map(_NUMBER.fullmatch, fields))


def _is_header(fields: Sequence[str], below: Sequence[str], next_below: Sequence[str]) -> bool:
    """Whether a line has names alone, and the two below as many fields with a date in one, or numbers in all."""
    if not 1 < len(fields) == len(below) == len(next_below):
        return False
    if any(_DATE.fullmatch(name) or _NO_NAME.fullmatch(name) for name in fields):
        return False
    return all(
        any(map(_DATE.fullmatch, row)) or all(map(_NO_NAME.fullmatch, row)) for row in (below, next_below)
    )


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
    records = read_records(
        io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8", newline=""), separator, strict=True
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
            if _NUMBER.fullmatch(name):
                without = "for a file without a header set data.header=none"
                raise DataError(problem, f": {without}", [Remedy({"header": "none"})])
            raise DataError(f"{problem}: rename one")
        seen[name] = number
    return Header(header, lines, width, first_line)


def read_records(text: Iterable[str], separator: str, *, strict: bool = False) -> Any:
    """A csv.reader of lines; several spaces separate as one does."""
    return csv.reader(text, delimiter=separator, skipinitialspace=separator == " ", strict=strict)


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
