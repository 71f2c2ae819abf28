"""Hints on a header that is missing or unlikely: the likely cause, and the setting that helps."""

import difflib
import re
from collections import Counter
from collections.abc import Sequence

from forecast.data.files.date_columns import find_part
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.text import quote
from forecast.system.formatting import shorten

_NUMBER = re.compile(r"[-+]?[0-9]*[.,]?[0-9]+(e[-+]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}([^0-9.].*)?|(19|20)[0-9]{6}([T: ]?[0-9]{4,6})?")
_NO_NAME = re.compile(r"[-+]?[0-9.,]*|-|(?i:na|nan|n/a|null|none)")
_SEPARATORS = ";\t,|"
_HEAD, _MAX_PREAMBLE = 1 << 16, 100
"""Bytes of a file that are looked at, and lines above a header."""


def hint_on_names(names: Sequence[str], raw: bytes, wanted: str, options: ReadOptions) -> tuple[str, str]:
    """Return the end of the message for a missing date column: the likely cause, and what to set in training alone.

    Args:
        names: the columns.
        raw: the text from the header on.
        wanted: the name of the date column.
        options: how the text was read.
    """
    line = options.first_line
    where = "in line 1" if line == 1 else f"in line {line}, where data.skip_rows={line - 1} places the header"
    if names and names[0][:1] in ("{", "[", "<"):
        return f"{where}, which looks like JSON or HTML: give a CSV file", ""
    if len(list(filter(None, names))) == 1 and names[0].lower().startswith("sep="):
        sign = names[0][4:]
        settings = f"data.skip_rows={line} 'data.separator={sign}'"
        return f"{where}, which names a separator: set {settings}", ""
    if advice := hint_on_preamble(raw, options, wanted):
        return f"{where}: {advice}", ""
    if len(list(filter(None, names))) == 1:
        for other in _SEPARATORS:
            if other != options.separator and other in names[0]:
                row = raw[:_HEAD].decode(errors="replace").splitlines()[1:2]
                advice = _advice_on_separator(other, "".join(row))
                return f"{where}, which looks separated by {other!r}: {advice}", ""
    named = shorten(list(map(quote, names)), 20)
    if any(_NUMBER.fullmatch(name) for name in names):
        return f"{where} ({named})", ": for a file without a header set data.header=none"
    parts = list(filter(find_part, names))
    if len(parts) > 1:
        return f"{where} ({named}): set data.date_column=[{','.join(parts)}]", ""
    if near := difflib.get_close_matches(wanted, names, n=1):
        return f"{where} ({named}): did you mean data.date_column={near[0]}?", ""
    dates = "set data.date_column to the name of the dates"
    return f"{where} ({named}): {dates}", ", or data.start=2010-01-01 data.freq=D if there are none"


def hint_on_preamble(raw: bytes, options: ReadOptions, wanted: str | None = None) -> str:
    """Advise `data.skip_rows` if the header seems to stand below other lines; else an empty text.

    It is a line with the name `wanted`, or else one that `_is_header`. Lines above it of as many fields, none of them a
    number, may belong to the header, such as names above units: then nothing is advised.
    """
    lines = raw[:_HEAD].decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for separator in dict.fromkeys((options.separator, *_SEPARATORS)):
        rows = [
            [field.strip(" \"'") for field in line.split(separator)] for line in lines[: _MAX_PREAMBLE + 3]
        ]
        above = _find_header(rows, wanted)
        if above is None:
            continue
        if all(len(fields) == len(rows[above]) and not _has_number(fields) for fields in rows[:above]):
            return ""
        setting = f"data.skip_rows={above + options.first_line - 1}"
        if separator != options.separator:
            setting += f" {_advice_on_separator(separator, lines[above + 1]).removeprefix('set ')}"
        return f"the header seems to be line {above + options.first_line}: set {setting}"
    return ""


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


def _has_number(fields: Sequence[str]) -> bool:
    return any(map(_NUMBER.fullmatch, fields))


def _is_header(fields: Sequence[str], below: Sequence[str], next_below: Sequence[str]) -> bool:
    """Whether a line has names alone, and the two below as many fields with a date in one, or numbers in all."""
    if not 1 < len(fields) == len(below) == len(next_below):
        return False
    if any(_DATE.fullmatch(name) or _NO_NAME.fullmatch(name) for name in fields):
        return False
    return all(
        any(map(_DATE.fullmatch, row)) or all(map(_NO_NAME.fullmatch, row)) for row in (below, next_below)
    )


def _advice_on_separator(separator: str, row: str) -> str:
    """The settings of a separator, and of the decimal comma where the line `row` below the header has one."""
    if separator == "\t":
        return "set data.separator"
    has_commas = any(re.fullmatch(r"[-+]?\d+,\d+", field) for field in row.split(separator))
    return f"set 'data.separator={separator}'" + (
        " data.decimal=," if has_commas and separator != "," else ""
    )
