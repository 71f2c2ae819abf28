"""Hints on a header in which the column of the dates is missing: the likely cause, and the setting that helps."""

import difflib
import re
from collections.abc import Sequence
from itertools import pairwise

from forecast.data.files.read_options import ReadOptions
from forecast.data.files.text import quote
from forecast.system.formatting import shorten

_NUMBER = re.compile(r"[-+]?[0-9]*[.,]?[0-9]+(e[-+]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}([^0-9].*)?")
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
    where = f"in line {options.first_line}"
    if names and names[0][:1] in ("{", "[", "<"):
        return f"{where}, which looks like JSON or HTML: give a CSV file", ""
    if len(list(filter(None, names))) == 1 and names[0].lower().startswith("sep="):
        sign = names[0][4:]
        return f"{where}, which names a separator: delete that line and set data.separator={sign}", ""
    if advice := hint_on_preamble(raw, options, wanted):
        return f"{where}: {advice}", ""
    if len(list(filter(None, names))) == 1:
        for other in _SEPARATORS:
            if other != options.separator and other in names[0]:
                return f"{where}, which looks separated by {other!r}: {_advice_on_separator(other, raw)}", ""
    named = shorten(list(map(quote, names)), 20)
    if any(_NUMBER.fullmatch(name) for name in names):
        return f"{where} ({named})", ": for a file without a header set data.header=none"
    parts = [name for name in names if name.lower() in ("year", "month", "day", "hour")]
    if len(parts) > 1:
        return f"{where} ({named}): set data.date_column=[{','.join(parts)}]", ""
    if near := difflib.get_close_matches(wanted, names, n=1):
        return f"{where} ({named}): did you mean data.date_column={near[0]}?", ""
    dates = "set data.date_column to the name of the dates"
    return f"{where} ({named}): {dates}", ", or data.start=2010-01-01 data.freq=D if there are none"


def hint_on_preamble(raw: bytes, options: ReadOptions, wanted: str | None = None) -> str:
    """Advise `data.skip_rows` if the header seems to stand below other lines; else an empty text.

    A header has as many fields as the line below it, which has a date where the header has none. A line with the name
    `wanted` is a header too.
    """
    lines = raw[:_HEAD].decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for separator in dict.fromkeys((options.separator, *_SEPARATORS)):
        rows = [
            [field.strip(" \"'") for field in line.split(separator)] for line in lines[: _MAX_PREAMBLE + 2]
        ]
        found = [
            number
            for number, (fields, below) in enumerate(pairwise(rows))
            if _is_header(fields, below) or (wanted in fields and separator == options.separator)
        ]
        if found and found[0] > 0:
            setting = f"data.skip_rows={found[0] + options.first_line - 1}"
            if separator != options.separator:
                setting += f" {_advice_on_separator(separator, raw, found[0] + 1).removeprefix('set ')}"
            return f"the header seems to be line {found[0] + options.first_line}: set {setting}"
        if found:
            return ""
    return ""


def _is_header(fields: Sequence[str], below: Sequence[str]) -> bool:
    """Whether a line of names stands above one with a date."""
    if len(fields) < 2 or len(fields) != len(below) or any(map(_DATE.fullmatch, fields)):
        return False
    return any(name and _DATE.fullmatch(cell) for name, cell in zip(fields, below, strict=True))


def _advice_on_separator(separator: str, raw: bytes, line: int = 1) -> str:
    """The settings of a separator, and of the decimal comma where the line below the header has one."""
    if separator == "\t":
        return "set data.separator"
    row = raw[:_HEAD].decode(errors="replace").splitlines()[line : line + 1]
    has_commas = any(re.fullmatch(r"[-+]?\d+,\d+", field) for field in "".join(row).split(separator))
    return f"set 'data.separator={separator}'" + (
        " data.decimal=," if has_commas and separator != "," else ""
    )
