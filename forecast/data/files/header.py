"""The header of a CSV file: names of columns, the column of dates, and hints where they are missing."""

import csv
import io
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from forecast.data.files.read_options import ReadOptions
from forecast.data.files.text import NUMBER, VALUES, find_parts, is_date, matches, names_period, quote
from forecast.system.errors import DataError
from forecast.system.formatting import plural, shorten, write_setting
from forecast.system.location import Location

DEFAULT_NAMES = ("date", "ds")  # names of the date column where the user gives none

UNNAMED = "Unnamed: 0"
"""The name that pandas gives to a first column without one, which is the index that `DataFrame.to_csv` writes."""

SAMPLED = 50  # cells of a column that are looked at for dates

_MAX_COLUMNS, _MAX_SAMPLE, _MAX_PREAMBLE = 100_000, 1 << 20, 100
"""Columns of a file, bytes that are looked at for advice, and lines above a header."""

_SEPARATORS = ";\t,| "

MIN_DATES, MIN_NUMBERS = 4, 10
"""Fewest dates, and fewest numbered names such as d_1, d_2, ..., in a header that may be one of steps."""

NUMBERED = re.compile(r"(.*?)(\d{1,6})")


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
    """Whether a column had no name where the file was written; pandas gives names to indices in Parquet files."""
    return name == UNNAMED or re.fullmatch(r"__index_level_\d+__", name) is not None


def read_header(path: Location, raw: bytes, options: ReadOptions) -> Header:
    """Read the header of a file from its text without the lines above it (`data.skip_rows`).

    Raises DataError for too many columns, an unclosed quote, or a name that is not printable or appears twice.
    """
    line = options.first_line
    text = io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8", newline="")
    records = read_records(text, options.separator, strict=True)
    bad = line
    try:
        names, n_lines, bad = next(records, []), records.line_num, line + 1
        row = next(records, [])
    except csv.Error as error:
        raise DataError(f"{path}, line {bad}: {error}: is a quote never closed?") from None
    width = max(len(names), len(row))
    if width > _MAX_COLUMNS:
        raise DataError(f"{path}: {width:,} columns; at most {_MAX_COLUMNS:,} are read")
    if options.given_names is not None:
        given = list(options.given_names)
        if given and len(given) != width:
            what = f"{width} fields, and data.names has {plural(len(given), 'name')}"
            raise DataError(f"{path}, line {line}: {what}: give one for each")
        names, n_lines = given or [f"column_{number}" for number in range(1, width + 1)], 0
    else:  # line ends and hard spaces in names become spaces
        names = [name.strip() for name in names]
        names = [name if name.isprintable() else " ".join(name.split()) for name in names]
        if len(names) > 1:
            names[0] = names[0] or UNNAMED
    _check_names(f"{path}, line {line}", names)
    return Header(names, n_lines, width, line)


def _check_names(place: str, names: Sequence[str]) -> None:
    """Raise DataError for a name that is not printable or appears twice."""
    seen: dict[str, int] = {}
    for number, name in enumerate(names, start=1):
        if not name.isprintable():
            what = f"the name of field {number}, {quote(name)}, has characters that cannot be shown"
            raise DataError(f"{place}: {what}: rename it")
        if name and name in seen:
            problem = f"{place}: column {quote(name)} appears twice (fields {seen[name]} and {number})"
            raise DataError(f"{problem}: rename one") if not matches(NUMBER, name) else _no_header(problem)
        seen[name] = number


def _no_header(problem: str) -> DataError:
    return DataError(problem, ": for a file without a header set data.header=none", is_for_training=True)


def choose_date_column(path: Location, wanted: str, present: Sequence[str], dates: Sequence[str]) -> str:
    """The date column: `wanted`, or if that is a default name and missing, the only one of `dates`, with a warning.

    Raises DataError if there are several.
    """
    if wanted not in DEFAULT_NAMES or wanted in present or not dates:
        return wanted
    missing = f"{path}: no column {quote(wanted)}"
    if len(dates) > 1:
        problem = f"{missing}, and several look like dates ({', '.join(map(quote, dates))})"
        raise DataError(problem, ": set data.date_column to one of them")
    first = quote(dates[0])
    warnings.warn(f"{missing}: {first} looks like dates and is used (data.date_column)", stacklevel=2)
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
        if any(map(is_date, rows[0])) or sum(map(names_period, rows[0])) >= MIN_DATES:  # no header, or steps
            return []
        rows = rows[1:]
    if len(head) >= _MAX_SAMPLE:
        rows = rows[:-1]  # which may be cut
    columns = {name: [row[i] for row in rows if i < len(row)] for i, name in enumerate(header)}
    found = [name for name, cells in columns.items() if name and cells and all(map(is_date, cells))]
    return sorted(found, key=lambda name: -len(set(columns[name])))


def refuse_names(path: Location, header: Header, raw: bytes, wanted: str, options: ReadOptions) -> DataError:
    """The error of a file without the date column `wanted`, with likely settings; `raw` begins with the header."""
    names = header.names
    shown = shorten(list(map(quote, filter(None, names))), 12)
    problem = f"{path}: no column {quote(wanted)} in line {options.first_line} ({shown})"
    if settings := _guess_layout(raw, wanted, options):
        named = " ".join(write_setting(f"data.{key}", value) for key, value in settings.items())
        above, sign = settings.get("skip_rows"), settings.get("separator")
        found = [] if above is None else [f"the header seems to be line {above + 1}"]
        found += [] if sign is None else [f"it looks separated by {sign!r}"]
        return DataError(problem, f": {' and '.join(found)}: set {named}")
    steps, are_dates = find_steps(names)
    if len(steps) >= (MIN_DATES if are_dates else MIN_NUMBERS):  # a row may be a series
        numbered = "numbered steps need data.start and data.freq too"
        advice = f": a file with one series per row needs data=long data.melt=true and data.id_column; {numbered}"
        return DataError(problem, advice, is_for_training=True)
    if any(matches(NUMBER, name) for name in names):
        return _no_header(problem)
    parts = [name for name, part in zip(names, find_parts(names), strict=True) if part]
    if len(parts) > 1:
        return DataError(problem, f": set {write_setting('data.date_column', parts)}")
    without = "rows without dates need data.start and data.freq"
    advice = f": set data.date_column to the name of the dates; {without}"
    return DataError(problem, advice, is_for_training=True)


def find_steps(names: Sequence[str]) -> tuple[list[str], bool]:
    """The names that are dates, or the most names that differ in their numbers only, and whether they are dates."""
    dates = [name for name in names if names_period(name)]
    alike: dict[str, list[str]] = {}
    for name in names:
        if NUMBERED.fullmatch(name):
            alike.setdefault(re.sub(r"\d+", "0", name), []).append(name)
    numbered = max(alike.values(), key=len, default=[])
    return (dates, True) if len(dates) >= len(numbered) else (numbered, False)


def _guess_layout(raw: bytes, wanted: str, options: ReadOptions) -> dict[str, Any]:
    """The separator, and the number of lines above the header, if they seem to be others than those of `options`.

    Most lines have the same number of fields. The header is the first of them that has names alone, or the first line
    with the name `wanted`.
    """
    lines = re.split(r"\r\n|\r|\n", raw[:_MAX_SAMPLE].decode(errors="replace"))[:_MAX_PREAMBLE]
    most, separator, rows, width = 0, options.separator, [], 0
    for sign in dict.fromkeys((options.separator, *_SEPARATORS)):
        fields = [[one.strip(" \"'") for one in line.split(None if sign == " " else sign)] for line in lines]
        found = Counter(len(row) for row in fields if len(row) > 1).most_common(1)
        if found and found[0][1] > max(most, 1):
            (width, most), separator, rows = found[0], sign, fields

    def is_header(row: list[str]) -> bool:
        has_names = len(row) == width and all(row) and not any(matches(VALUES, one) for one in row)
        return has_names or (wanted in row and len(row) > 1)

    above = next((number for number, row in enumerate(rows) if is_header(row)), 0)
    settings: dict[str, Any] = {"skip_rows": above + options.first_line - 1} if above else {}
    return settings | ({"separator": separator} if separator != options.separator else {})
