"""Hints on a header that is missing or unlikely: the likely cause, and the setting that helps."""

import csv
import difflib
import io
import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice

from forecast.data.files.date_columns import is_date
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.text import quote
from forecast.system.errors import DataError, Remedy
from forecast.system.formatting import shorten
from forecast.system.location import Location

_NUMBER = re.compile(r"[-+]?[0-9]*[.,]?[0-9]+(e[-+]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}([^0-9.].*)?|(19|20)[0-9]{6}([T: ]?[0-9]{4,6})?")
_NO_NAME = re.compile(r"[-+]?[0-9.,]*|-|(?i:na|nan|n/a|null|none)")
_SEPARATORS = ";\t,|"
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
        settings = {"skip_rows": line, "separator": names[0][4:]}
        return DataError(f"{problem}, which names a separator", remedies=[Remedy(settings)])
    if remedy := find_preamble(raw, options, wanted):
        return DataError(f"{problem}: {describe_preamble(remedy)}", remedies=[remedy])
    if len(named) == 1:
        first = raw[:_HEAD].decode(errors="replace").splitlines()[0]  # a name has no tabs
        others = [sign for sign in _SEPARATORS if sign != options.separator and sign in first]
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
    parts = [name for name in names if name.lower() in ("year", "month", "day", "hour", "minute", "second")]
    near = difflib.get_close_matches(wanted, names, n=1)
    dated = [parts] if len(parts) > 1 else [*near, *find_date_columns(raw, options, names)]
    remedies = [Remedy({"date_column": name}) for name in dated]
    if not remedies:
        problem += ": set data.date_column to the name of the dates"
        remedies = [Remedy({"start": "2010-01-01", "freq": "D"}, " if there are no dates")]
    return DataError(problem, "", remedies, ", or " if not dated else ": ")


def find_preamble(raw: bytes, options: ReadOptions, wanted: str | None = None) -> Remedy | None:
    """`data.skip_rows` if the header seems to stand below other lines; else None.

    It is a line with the name `wanted`, or else one that `_is_header`. Lines above it of as many fields, none of them a
    number, may belong to the header, such as names above units: then nothing is found.
    """
    lines = raw[:_HEAD].decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for separator in dict.fromkeys((options.separator, *_SEPARATORS)):
        rows = [
            [field.strip(" \"'") for field in line.split(separator)] for line in lines[: _MAX_PREAMBLE + 3]
        ]
        above = _find_header(rows, wanted)
        if above is None:
            continue
        if all(_may_name(fields, rows[above]) for fields in rows[:above]):
            return None
        settings = {"skip_rows": above + options.first_line - 1}
        return Remedy(settings if separator == options.separator else {**settings, "separator": separator})
    return None


def describe_preamble(remedy: Remedy) -> str:
    """Say where the header seems to be."""
    return f"the header seems to be line {remedy.settings['skip_rows'] + 1}"


def find_date_columns(raw: bytes, options: ReadOptions, header: Sequence[str]) -> list[str]:
    """The names of the columns of a CSV file whose first cells look like dates.

    Those that repeat fewest cells come first: of days, and of days with times, the latter.
    """
    head = raw[:_MAX_SAMPLE].decode(errors="ignore")
    records = csv.reader(io.StringIO(head, newline=""), delimiter=options.separator)
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
