"""The header of a CSV file: names of columns, the column of dates, and hints where they are missing."""

import csv
import difflib
import io
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from forecast.data.files.patterns import DATE_OF_DIGITS, DATE_OF_NUMBERS, NUMBER, find_parts, is_date, matches
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.text import quote
from forecast.system.errors import DataError, Remedy
from forecast.system.formatting import plural, shorten
from forecast.system.location import Location

DEFAULT_NAMES = ("date", "ds")
"""Names of the date column where the user gives none."""

UNNAMED = "Unnamed: 0"
"""The name that pandas gives to a first column without one, which is the index that `DataFrame.to_csv` writes."""

_UNNAMED_AGAIN = "Unnamed: 0.1"
"""Its name in a file that pandas has written twice."""

SAMPLED = 50
"""Cells of a column that are looked at for dates."""

_MAX_COLUMNS, _MAX_SAMPLE, _MAX_PREAMBLE = 100_000, 1 << 20, 100
"""Columns of a file, bytes that are looked at for advice, and lines above a header."""

_SEPARATORS = ";\t,| "
_NO_NAME = r"[-+]?[0-9.,]*|-+|(?i:na|nan|n/a|null|none)"
_DATES = (DATE_OF_NUMBERS, DATE_OF_DIGITS)


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


def read_records(text: Iterable[str], separator: str, *, strict: bool = False) -> Any:
    """A csv.reader of lines; several spaces separate as one does."""
    return csv.reader(text, delimiter=separator, skipinitialspace=separator == " ", strict=strict)


def is_unnamed(name: str) -> bool:
    """Whether a column had no name where the file was written."""
    return name in (UNNAMED, _UNNAMED_AGAIN)


def read_header(path: Location, raw: bytes, options: ReadOptions) -> Header:
    """Read the header of a file from its text without the lines above it (`data.skip_rows`).

    Raises DataError for too many columns, an unclosed quote, or a name that is not printable or appears twice.
    """
    line = options.first_line
    lines = io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8")  # which may end in carriage returns alone
    for number in (line, line + 1):
        fields = lines.readline().count(options.separator) + 1
        if fields > _MAX_COLUMNS:
            raise DataError(f"{path}, line {number}: {fields:,} columns; at most {_MAX_COLUMNS:,} are read")
    text = io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8", newline="")
    records = read_records(text, options.separator, strict=True)
    bad = line
    try:
        names, n_lines, bad = next(records, []), records.line_num, line + 1
        row = next(records, [])
    except csv.Error as error:
        raise DataError(f"{path}, line {bad}: {error}: is a quote never closed?") from None
    width = max(len(names), len(row))
    if options.given_names is not None:
        given = list(options.given_names)
        if given and len(given) != width:
            what = f"{width} fields, and data.names has {plural(len(given), 'name')}"
            raise DataError(f"{path}, line {line}: {what}: give one for each")
        names, n_lines = given or [f"column_{number}" for number in range(1, width + 1)], 0
    else:  # line ends and hard spaces in names become spaces
        names = [
            name.strip() if name.strip().isprintable() else " ".join(name.split()) for name in map(str, names)
        ]
        if len(names) > 1:
            names[0] = names[0] or (_UNNAMED_AGAIN if UNNAMED in names else UNNAMED)
    _check_names(f"{path}, line {line}", names, raw, options)
    return Header(names, n_lines, width, line)


def _check_names(place: str, names: Sequence[str], raw: bytes, options: ReadOptions) -> None:
    """Raise DataError for a name that is not printable or appears twice."""
    seen: dict[str, int] = {}
    for number, name in enumerate(names, start=1):
        if not name.isprintable():
            what = f"the name of field {number}, {quote(name)}, has characters that cannot be shown"
            raise DataError(f"{place}: {what}: rename it")
        if name and name in seen:
            problem = f"{place}: column {quote(name)} appears twice (fields {seen[name]} and {number})"
            if found := find_preamble(raw, options):
                raise DataError(f"{problem}: {found[0]}", remedies=[found[1]])
            if matches(NUMBER, name):
                advice = ": for a file without a header set data.header=none"
                raise DataError(problem, advice, [Remedy({"header": "none"})])
            raise DataError(f"{problem}: rename one")
        seen[name] = number


def choose_date_column(path: Location, wanted: str, present: Sequence[str], dates: Sequence[str]) -> str:
    """The date column: `wanted`, or if that is a default name and missing, the only one of `dates`, with a warning.

    Raises DataError if there are several.
    """
    if wanted not in DEFAULT_NAMES or wanted in present or not dates:
        return wanted
    missing = f"{path}: no column {quote(wanted)}"
    if len(dates) > 1:
        raise DataError(
            f"{missing}, and several look like dates ({', '.join(dates)})",
            remedies=[
                Remedy({"date_column": name, "drop": [other for other in dates if other != name]})
                for name in dates
            ],
            fallback=": set data.date_column to one of them",
        )
    used = f"{quote(dates[0])} looks like dates and is used (data.date_column)"
    warnings.warn(f"{missing}: {used}", stacklevel=2)
    return dates[0]


def find_date_columns(raw: bytes, options: ReadOptions, header: Sequence[str]) -> list[str]:
    """The names of the columns of a CSV file whose first cells look like dates.

    Those that repeat fewest cells come first: of days, and of days with times, the latter.
    """
    head = raw[:_MAX_SAMPLE].decode(errors="ignore")
    try:
        rows = list(islice(read_records(io.StringIO(head, newline=""), options.separator), SAMPLED + 1))
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


def refuse_names(
    path: Location, names: Sequence[str], raw: bytes, wanted: str, options: ReadOptions
) -> DataError:
    """The error of a file `path` without the date column `wanted`, with likely remedies.

    `names` are its columns, and `raw` is its text from the header on.
    """
    line, named = options.first_line, list(filter(None, names))
    where = "in line 1" if line == 1 else f"in line {line}, where data.skip_rows={line - 1} places the header"
    problem = f"{path}: no column {quote(wanted)} {where}"
    if names and names[0][:1] in ("{", "[", "<"):
        return DataError(f"{problem}, which looks like JSON or HTML: give a CSV file")
    if len(named) == 1 and names[0].lower().startswith("sep="):
        settings = {"skip_rows": line} | ({"separator": names[0][4:]} if names[0][4:] else {})
        return DataError(f"{problem}, which names a separator", remedies=[Remedy(settings)])
    if found := find_preamble(raw, options, wanted):
        return DataError(f"{problem}: {found[0]}", remedies=[found[1]])
    if len(named) == 1:
        first = raw[:_MAX_SAMPLE].decode(errors="replace").splitlines()[0]  # a name has no tabs
        present = [sign for sign in _SEPARATORS if sign in first and (sign != " " or "  " in first)]
        others = sorted((sign for sign in present if sign != options.separator), key=first.count)[::-1]
        if others:
            remedies = [Remedy({"separator": sign}) for sign in others]
            return DataError(f"{problem}, which looks separated by {others[0]!r}", remedies=remedies)
    shown = shorten(list(map(quote, names)), 20)
    if any(matches(NUMBER, name) for name in names):
        advice = ": for a file without a header set data.header=none"
        problem += f", which looks like a row of values ({shown})"
        return DataError(problem, advice, [Remedy({"header": "none"})])
    parts = [name for name, part in zip(names, find_parts(names), strict=True) if part]
    near = difflib.get_close_matches(wanted, names, n=1)
    dated = [parts] if len(parts) > 1 else [*near, *parts, *find_date_columns(raw, options, names)]
    if (
        options.given_names is not None and not dated
    ):  # columns of the year, the month and the day, without names
        dated = [names[:2], names[:3]]
    advice = (
        ": set data.date_column to the name of the dates; rows without dates need data.start and data.freq"
    )
    remedies = [Remedy({"date_column": name}) for name in dated]  # invented dates would read any file
    return DataError(f"{problem} ({shown})", "" if dated else advice, remedies=remedies)


def find_preamble(raw: bytes, options: ReadOptions, wanted: str | None = None) -> tuple[str, Remedy] | None:
    """Where the header, or the first row, seems to stand below other lines, and the settings that say so; else None.

    The header is a line with the name `wanted`, or else one that `_is_header`. Lines above it of as many fields, none
    of them a number, may belong to the header, such as names above units: then nothing is found. Rows of numbers
    between spaces need no header.
    """
    lines = raw[:_MAX_SAMPLE].decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for separator in dict.fromkeys((options.separator, *_SEPARATORS)):
        rows = [
            [field.strip(" \"'") for field in line.split(None if separator == " " else separator)]
            for line in lines[: _MAX_PREAMBLE + 3]
        ]
        what, settings, above = "header", {}, _find_header(rows, wanted)
        if above is None and separator == " " and options.given_names is None:
            are_numbers = [len(row) > 1 and all(matches(_NO_NAME, one) for one in row) for row in rows]
            firsts = (n for n in range(1, len(rows) - 2) if all(are_numbers[n : n + 3]))
            what, settings, above = "first row", {"header": "none"}, next(firsts, None)
        elif above is not None and all(
            len(row) == len(rows[above]) and any(row) and not any(matches(NUMBER, one) for one in row)
            for row in rows[:above]
        ):
            return None
        if above is not None:
            skipped = above + options.first_line - 1
            settings = {"skip_rows": skipped, **settings}
            if separator != options.separator:
                settings["separator"] = separator
            return f"the {what} seems to be line {skipped + 1}", Remedy(settings)
    return None


def _find_header(rows: Sequence[Sequence[str]], wanted: str | None) -> int | None:
    """The number of lines above the header, which has as many fields as most lines; None if no line seems to be one."""
    named = [number for number, fields in enumerate(rows) if len(fields) > 1 and wanted in fields]
    width = Counter(map(len, rows)).most_common(1)[0][0]
    likely = (n for n in range(len(rows) - 2) if len(rows[n]) == width and _is_header(*rows[n : n + 3]))
    return named[0] if named else next(likely, None)


def _is_header(fields: Sequence[str], *below: Sequence[str]) -> bool:
    """Whether a line has names alone, and each line below as many fields with a date in one, or numbers in all."""
    if len(fields) < 2 or any(len(row) != len(fields) for row in below):
        return False
    if any(matches((*_DATES, _NO_NAME), name) for name in fields):
        return False
    return all(
        any(matches(_DATES, one) for one in row) or all(matches(_NO_NAME, one) for one in row)
        for row in below
    )
