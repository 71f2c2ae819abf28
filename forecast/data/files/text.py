"""Text of files: its encoding and compression, sheets of Excel as text, and patterns of cells and names."""

import bz2
import codecs
import gzip
import io
import lzma
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import cast

import pandas as pd
import pyarrow as pa
from pandas.tseries.api import guess_datetime_format

from forecast.data.files.read_options import ReadOptions
from forecast.system.errors import DataError, NotInstalled
from forecast.system.formatting import plural
from forecast.system.location import Location, opened
from forecast.system.memory import available

# NotImplementedError, of an unknown compression, is a RuntimeError
UNREADABLE = (OSError, EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError)
_ZIP = b"PK\x03\x04"
_UNPACK: dict[bytes, Callable] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": lambda file: io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd")),
}
"""By the first bytes of a packed file, what opens its content."""


@contextmanager
def unpacked(location: Location, file: io.BufferedIOBase) -> Iterator[io.BufferedIOBase]:
    """Yield the content of an open file: of gzip, bzip2, xz, zstd and zip without the compression, else the file.

    Raises DataError for an archive of several files, and for one that is encrypted.
    """
    head = file.read(16)
    file.seek(0)
    if head.startswith((_ZIP, b"PK\x05\x06")):
        with zipfile.ZipFile(file) as archive:
            members = [one for one in archive.infolist() if not one.filename.startswith("__MACOSX/")]
            if len(members) != 1:
                raise DataError(f"{location}: {len(members)} files in the archive, where one is expected")
            if members[0].flag_bits & 1:
                raise DataError(f"{location}: the archive is encrypted: unpack it first")
            with archive.open(members[0]) as stream:
                yield cast(io.BufferedIOBase, stream)
        return
    unpack = next((unpack for mark, unpack in _UNPACK.items() if head.startswith(mark)), nullcontext)
    with unpack(file) as stream:
        yield stream


def is_workbook(file: io.BufferedIOBase) -> bool:
    """Whether an open file is an Excel workbook (.xlsx)."""
    found = file.read(4) == _ZIP
    if found:
        with zipfile.ZipFile(file) as archive:
            found = "[Content_Types].xml" in archive.namelist()
    file.seek(0)
    return found


SHEET_ROWS = 20_000
"""Rows that are read of a sheet, or of another file that is no text, where only the first ones are needed."""

_MEMORY_PER_BYTE = 2  # bytes of memory that reading a sheet needs per byte of its XML


def _sheet_as_csv(location: Location, file: io.BufferedIOBase, options: ReadOptions, n_rows: int | None) -> bytes:
    """The first rows of the sheet `options.sheet` (None: the only one) as lines of CSV; row n of the sheet is line n.

    Formulas count as the values that Excel saved with them. Raises DataError for a sheet that is not there, for several
    sheets, and for a workbook that is damaged or too large; NotInstalled without openpyxl.
    """
    with zipfile.ZipFile(file) as archive:
        _check_memory(location, _MEMORY_PER_BYTE * sum(member.file_size for member in archive.infolist()))
    file.seek(0)
    try:
        with warnings.catch_warnings(action="ignore"):  # of styles and extensions, which do not matter here
            book = pd.ExcelFile(file, engine="openpyxl")
            names = list(map(str, book.sheet_names))
            sheet = str(options.sheet) if options.sheet is not None else names[0]
            if sheet not in names or (options.sheet is None and len(names) > 1):
                raise DataError(f"{location}: sheets {', '.join(names)}: set data.sheet to one of them")
            cells = pd.DataFrame(book.parse(sheet, header=None, dtype=object, na_filter=False, nrows=n_rows))
    except ImportError:
        raise NotInstalled(f"{location}, an Excel workbook", "excel", "openpyxl") from None
    except DataError:
        raise
    except Exception as error:  # whatever a damaged part of the XML causes
        reason = " ".join(str(error).split())
        raise DataError(f"{location}: cannot be read as an Excel workbook: {reason}") from None
    sign = options.decimal_sign
    cells = cells.map(lambda cell: repr(cell).replace(".", sign) if type(cell) is float else cell)
    return cells.to_csv(sep=options.separator, header=False, index=False).encode()


def _check_memory(location: Location, needed: int) -> None:
    """Raise DataError for more bytes than there is free memory."""
    free = available()
    if needed > free:
        size = f"{needed / 2**30:,.1f} GiB of memory, and {free / 2**30:,.1f} GiB are free"
        raise DataError(f"{location}: needs some {size}")


_CHUNK = 2**24  # bytes read at a time; the upper limit of a line

_MAX_RATIO = 200
"""Highest accepted compression ratio. Tables reach 3 to 20, rarely 100; gzip reaches 1,030 on a repeated byte."""

_BEFORE_RATIO = 2**26  # unpacked bytes from which the ratio is checked
_TABLE_PER_TEXT = 4  # bytes of memory that reading a table needs per byte of its text


def read_text(path: Location, options: ReadOptions, limit: int | None = None) -> bytes:
    """Return the text of a file as UTF-8 without a byte-order mark; compression and UTF-16 are detected and decoded.

    A sheet of an Excel workbook is written as CSV. `options.encoding` replaces the detection of UTF-8 and UTF-16.
    With `limit`, only the first lines are returned: those within so many bytes, or `SHEET_ROWS` rows of a sheet.
    Raises DataError for what is no text or no regular file, or too large for the available memory.
    """
    try:
        with opened(path) as (file, size):
            if is_workbook(file):
                raw = _sheet_as_csv(path, file, options, limit and SHEET_ROWS)
            else:
                with unpacked(path, file) as stream:
                    raw = _read_whole(path, file, stream, size) if limit is None else stream.read(limit)
                raw = decode(path, raw, options.encoding, is_whole=limit is None)
                raw = raw if limit is None else raw[: raw.rfind(b"\n") + 1] or raw
    except UNREADABLE as error:
        raise DataError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    raw = raw.removeprefix(codecs.BOM_UTF8)
    check_text(path, raw)
    if raw.isspace() or not raw:
        raise DataError(f"{path}: empty")
    return raw


def _read_whole(path: Location, file: io.BufferedIOBase, stream: io.BufferedIOBase, size: int) -> bytes:
    """Read the stream to its end. Stop early at content that no table has, so that no archive bomb is unpacked."""
    _check_memory(path, _TABLE_PER_TEXT * size)
    chunks, total = [], 0
    while chunk := stream.read(_CHUNK):
        if len(chunk) == _CHUNK and b"\n" not in chunk and b"\r" not in chunk:
            raise DataError(f"{path}: a line of more than {_CHUNK >> 20} MiB: this is no table")
        chunks.append(chunk)
        total += len(chunk)
        if stream is not file and total > max(_BEFORE_RATIO, _MAX_RATIO * file.tell()):
            raise DataError(f"{path}: unpacks to over {_MAX_RATIO} times its size: this is no table")
        if total > size:
            _check_memory(path, _TABLE_PER_TEXT * total)
    return b"".join(chunks)


def cut_preamble(path: Location, raw: bytes, options: ReadOptions) -> bytes:
    """The text without the lines that `options.skip_rows` counts. Raises DataError if nothing is below them."""
    end, begin = b"\n" if b"\n" in raw else b"\r", 0
    for _ in range(1, options.first_line):
        begin = raw.find(end, begin) + 1
        if not begin or begin == len(raw):
            raise no_line_below(path, options)
    return raw[begin:] if begin else raw


def no_line_below(path: Location, options: ReadOptions) -> DataError:
    """The error of a file that ends above the line with which reading begins."""
    return DataError(f"{path}: data.skip_rows={options.skip_rows}: the file has no line below them")


def decode(path: Location, raw: bytes, encoding: str | None, *, is_whole: bool = True) -> bytes:
    """Return text as UTF-8. Raises DataError if it is not in `encoding`, or in UTF-16 where it begins so.

    Text that is not whole may end within a character, which is left out.
    """
    found = encoding or ("utf-16" if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8")
    if found == "utf-8":
        return raw
    try:
        return codecs.getincrementaldecoder(found)().decode(raw, final=is_whole).encode()
    except UnicodeError:
        looks = f"looks like {found.upper()}, and is not"
        raise DataError(f"{path}: {looks}: give another data.encoding") from None


def check_text(path: Location, raw: bytes, first_line: int = 1) -> None:
    """Raise DataError if the bytes are not UTF-8 text; `first_line` is the line of the file at which they begin."""
    bad, problem = raw.find(b"\0"), "a zero byte: this is no text in UTF-8"
    advice = "set data.encoding, such as utf-16-le, or save the table as CSV, Parquet or .xlsx"
    try:
        if not raw.isascii():  # which is ten times faster than decoding
            raw.decode()
    except UnicodeDecodeError as error:
        bad, problem = error.start, "not text in UTF-8"
        advice = "set data.encoding, such as latin-1 or cp1252, or save the file as UTF-8"
    if bad >= 0:
        line = first_line + raw.count(b"\n" if b"\n" in raw else b"\r", 0, bad)
        raise DataError(f"{path}, line {line}: {problem}: {advice}")


def quote(text: object) -> str:
    """A text of a file in quotes, shortened to 60 characters and escaped, for a message."""
    shown = repr(str(text))
    return shown if len(shown) <= 60 else f"{shown[:56]}...'"


def strip(column: pd.Series, missing: Sequence[str]) -> pd.Series:
    """The texts of a column without spaces around them; NA where they are empty or one of `missing`."""
    plain = column.astype("string").str.strip()
    return plain.mask(plain.isin(["", *missing]))


def warn_of_skipped_lines(path: Location, lines: Sequence[int]) -> None:
    """Warn of these lines, which are no rows."""
    if lines:
        first = f"line {lines[0]}" if len(lines) == 1 else f"the first is line {lines[0]}"
        warnings.warn(f"{path}: skipped {plural(len(lines), 'line')} without a value: {first}", stacklevel=3)


SIGNS_ALIKE = {" ": " \xa0\u2009\u202f", "'": "'\u2019"}
"""By thousands separator, the characters that are read as it: kinds of spaces and of apostrophes."""

SIGNS = f".,{''.join(SIGNS_ALIKE.values())}"  # signs before decimals and between groups of digits

NUMBER = rf"[-+]?(\d{{1,3}}([{SIGNS}]\d{{3}})+|\d*)([.,]?\d+|\d[.,])([eE][-+]?\d+)?"
SIGNED_DIGITS = rf"[-+]?\d[\d{SIGNS}]*"
"""Texts of digits and `SIGNS`, which are numbers if the signs are those of the file."""

LIKE_A_NUMBER = r"[^\w.]{0,2}[-+]?[0-9][0-9.,:'\s]*[^\w.]{0,2}"
"""Texts that were probably meant as numbers, such as 98%, €98.50 and 12:30."""

MISSING = [
    "", " ", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
]  # fmt: skip
"""Texts of missing values: the default of pandas, which it does not export."""

BOOLEANS = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
"""Texts that are numbers where a column has no others."""

_YEAR, _YEAR_AFTER = r"(?:(?P<year>\d{4})[ -]?)?", r"(?:[ -]?(?P<year_after>\d{4}))?"
WEEK = rf"{_YEAR}[Ww](?P<week>\d{{1,2}})(?:[ -]?(?P<day>[1-7]))?{_YEAR_AFTER}"
"""A week of ISO 8601, such as 2016-W01, perhaps with the number of its day."""

QUARTER = rf"{_YEAR}[Qq](?P<quarter>[1-4]){_YEAR_AFTER}"
MONTHS = {
    r"[A-Za-z]{3}([ -])\d{4}": "%b{}%Y",
    r"[A-Za-z]{4,}([ -])\d{4}": "%B{}%Y",
    r"\d{1,2}([/.])\d{4}": "%m{}%Y",
    r"\d{4}(, ?)\d{1,2}": "%Y{}%m",
}
"""Patterns of months and years that pandas does not guess, and their formats."""

SHORT_YEAR = r"^(0?[1-9]\d?([-/.])0?[1-9]\d?\2)(\d{2})(?!\d)(.*)"
"""A date whose year has two digits, such as 1/12/17, or that begins with such a year."""

DATE_OF_NUMBERS = r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([^\d.].*)?|(1[6-9]|2[0-2])\d\d-(0[1-9]|1[0-2])"
VALUES = (NUMBER, DATE_OF_NUMBERS, r"(19|20)\d{6}([T: ]?\d{4,6})?")
"""Numbers and dates, which are no names of columns."""

_WITH_MONTH = r".*[A-Za-z]{3}.*\d.*"


def matches(patterns: str | Sequence[str], text: str) -> bool:
    """Whether one of the patterns matches a whole text."""
    patterns = [patterns] if isinstance(patterns, str) else patterns
    return any(re.fullmatch(pattern, text) for pattern in patterns)


def is_week(text: str) -> bool:
    """Whether a text is a week with its year."""
    return matches(WEEK, text) and re.search(r"\d{4}", text) is not None


def is_date(text: str) -> bool:
    """Whether a cell, or the name of a column, looks like a date."""
    text = text.strip().replace(" 24:", " 00:")
    if matches(WEEK, text) or not matches((DATE_OF_NUMBERS, _WITH_MONTH), text):
        return is_week(text)
    with warnings.catch_warnings(action="ignore"):
        guesses = (guess_datetime_format(text, dayfirst=order) for order in (False, True))
        return matches(SHORT_YEAR, text) or any(guesses)


def names_period(text: str) -> bool:
    """Whether the name of a column is a date, or a year, quarter or month: 1960, 1980Q1, Jan 2005, 01/2005."""
    text = text.strip()
    return matches((r"(1[6-9]|20|21)\d\d", QUARTER, *MONTHS), text) or is_date(text)


_PARTS = {
    "year": ("year", "yr", "yyyy"),
    "quarter": ("quarter", "qtr", "q"),
    "month": ("month", "mon", "mnth"),
    "week": ("week", "wk", "weekno", "weeknumber", "weekofyear", "isoweek"),
    "day": ("day", "dayofmonth", "dy"),
    "hour": ("hour", "hours", "hr", "hourofday"),
    "minute": ("minute", "minutes"),
    "second": ("second", "seconds"),
}
"""By part of a date, the names of a column of its number, in lower case and without signs."""


def find_part(name: str) -> str | None:
    """The part of a date that a column of this name holds; None: not known."""
    plain = re.sub("[^a-z]", "", name.lower())
    return next((part for part, names in _PARTS.items() if plain in names), None)


def find_parts(names: Sequence[str]) -> list[str | None]:
    """The part of a date that each of several columns holds; beside a year, mm is a month unless it follows an hour."""
    parts = [find_part(name) for name in names]
    for number, name in enumerate(names):
        if name.lower() == "mm" and "year" in parts and "month" not in parts and "hour" not in parts[:number]:
            parts[number] = "month"
    return parts
