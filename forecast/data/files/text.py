"""Text of files: encoding and compression detected from the content, Excel sheets as text."""

import bz2
import codecs
import csv
import gzip
import io
import lzma
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import pyarrow as pa

from forecast.data.files.read_options import ReadOptions
from forecast.system.errors import DataError, NotInstalled
from forecast.system.formatting import plural
from forecast.system.location import Location, opened
from forecast.system.memory import available

UNREADABLE = (
    OSError, EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, NotImplementedError,
)  # fmt: skip
_OTHER_KINDS = {
    b"PAR1": "a Parquet file",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"ARROW1": "an Arrow file",
    b"\x89HDF": "an HDF5 file",
    b"SQLite format 3": "an SQLite database",
    b"\x93NUMPY": "a NumPy array",
    b"%PDF": "a PDF",
    b"\x89PNG": "a picture",
    b"7z\xbc\xaf": "packed by 7-Zip",
}
_ZIP = b"PK\x03\x04"


class _Zstd(io.RawIOBase):
    """The content of a zstd file, as a stream that `io.BufferedReader` takes."""

    def __init__(self, file: io.BufferedIOBase) -> None:
        self._stream, self._at = pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd"), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        content = self._stream.read(len(buffer))
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)

    def tell(self) -> int:
        return self._at


_UNPACK: dict[bytes, Callable] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": lambda file: io.BufferedReader(_Zstd(file)),
}
"""By the first bytes of a packed file, what opens its content."""


@contextmanager
def unpacked(location: Location, file: io.BufferedIOBase) -> Iterator[io.BufferedIOBase]:
    """Yield the content of an open file: of gzip, bzip2, xz, zstd and zip without the compression, else the file.

    Raises DataError for a file of another kind, and for an archive of several files.
    """
    head = file.read(16)
    file.seek(0)
    for mark, kind in _OTHER_KINDS.items():
        if head.startswith(mark):
            raise DataError(f"{location}: {kind}, not CSV: save the table as CSV, Parquet or .xlsx")
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
    unpack = next((unpack for mark, unpack in _UNPACK.items() if head.startswith(mark)), None)
    if unpack is None:
        yield file
        return
    with unpack(file) as stream:
        yield stream


def is_workbook(file: io.BufferedIOBase) -> bool:
    """Return whether an open file is an Excel workbook (.xlsx)."""
    head = file.read(4)
    file.seek(0)
    if head != _ZIP:
        return False
    with zipfile.ZipFile(file) as archive:
        found = "[Content_Types].xml" in archive.namelist()
    file.seek(0)
    return found


_MEMORY_PER_BYTE = 2
"""Bytes of memory that reading a sheet needs per byte of its XML."""


def _sheet_as_csv(location: Location, file: io.BufferedIOBase, options: ReadOptions) -> bytes:
    """The rows of the sheet `options.sheet` (None: the only one) as lines of CSV; row n of the sheet is line n.

    Formulas count as the values that Excel saved with them. Raises DataError for a sheet that is not there, for several
    sheets, and for a workbook that is damaged or too large; NotInstalled without openpyxl.
    """

    def write_cell(value: object) -> str:  # numbers with the decimal sign of the options, dates in ISO 8601
        if not isinstance(value, float):
            return "" if value is None else str(value)
        is_whole = value.is_integer() and abs(value) < 1e15
        return (str(int(value)) if is_whole else repr(value)).replace(".", options.decimal_sign)

    with zipfile.ZipFile(file) as archive:
        _check_memory(location, _MEMORY_PER_BYTE * sum(member.file_size for member in archive.infolist()))
    file.seek(0)
    try:
        import openpyxl
    except ModuleNotFoundError:
        raise NotInstalled(f"{location}, an Excel workbook", "excel", "openpyxl") from None
    try:
        with warnings.catch_warnings(action="ignore"):  # of styles and extensions, which do not matter here
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            names, wanted = book.sheetnames, options.sheet
            if wanted is None and len(names) != 1:
                raise DataError(
                    f"{location}: {len(names)} sheets: set data.sheet to one of {', '.join(names)}"
                )
            if wanted is not None and str(wanted) not in names:
                there = ", ".join(names)
                raise DataError(f"{location}: no sheet {str(wanted)!r} (data.sheet); there are {there}")
            sheet = book[names[0] if wanted is None else str(wanted)]
            rows = [[write_cell(cell) for cell in row] for row in sheet.values]
    except DataError:
        raise
    except Exception as error:  # whatever a damaged part of the XML causes
        reason = " ".join(str(error).split())
        raise DataError(f"{location}: cannot be read as an Excel workbook: {reason}") from None
    text = io.StringIO()
    csv.writer(text, delimiter=options.separator, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _check_memory(location: Location, needed: int) -> None:
    """Raise DataError for more bytes than there is free memory."""
    if needed > available():
        raise DataError(
            f"{location}: needs some {needed / 2**30:,.1f} GiB of memory, and {available() / 2**30:,.1f} GiB are free"
        )


_CHUNK = 2**24
"""Bytes read at a time; the upper limit of a line."""

_MAX_RATIO = 200
"""Highest accepted compression ratio. Tables reach 3 to 20, rarely 100; gzip reaches 1,030 on a repeated byte."""

_BEFORE_RATIO = 2**26
"""Unpacked bytes from which the ratio is checked."""

_TABLE_PER_TEXT = 4
"""Bytes of memory that reading a table needs per byte of its text."""


def read_text(path: Location, options: ReadOptions) -> bytes:
    """Return the text of a file as UTF-8 without a byte-order mark; compression and UTF-16 are detected and decoded.

    A sheet of an Excel workbook is written as CSV. `options.encoding` replaces the detection of UTF-8 and UTF-16.
    Raises DataError for what is no text or no regular file, or too large for the available memory.
    """
    try:
        with opened(path) as (file, size):
            if is_workbook(file):
                raw = _sheet_as_csv(path, file, options)
            else:
                with unpacked(path, file) as stream:
                    raw = decode(path, _read_whole(path, file, stream, size), options.encoding)
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
    chunks, total, line = [], 0, 1
    while chunk := stream.read(_CHUNK):
        if not chunks:
            is_utf_8 = _encoding(chunk) == "utf-8"
        if is_utf_8:
            _refuse_zero(path, chunk, line)
        if len(chunk) == _CHUNK and b"\n" not in chunk and b"\r" not in chunk:
            raise DataError(f"{path}, line {line}: longer than {_CHUNK >> 20} MiB: this is no table")
        chunks.append(chunk)
        total, line = total + len(chunk), line + line_at(chunk, len(chunk)) - 1
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


def _encoding(raw: bytes) -> str:
    """Detect UTF-16 by its byte-order mark, or by the zeros in every second byte of ASCII; else return `utf-8`."""
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    head = raw[:4096]
    even, odd = head[::2].count(0), head[1::2].count(0)
    if even == 0 and odd > len(head) // 4:
        return "utf-16-le"
    return "utf-16-be" if odd == 0 and even > len(head) // 4 else "utf-8"


def decode(path: Location, raw: bytes, encoding: str | None) -> bytes:
    """Return text as UTF-8. Raises DataError if it is not in `encoding`, or in UTF-16 where it begins so."""
    found = encoding or _encoding(raw)
    if found == "utf-8":
        return raw
    try:
        return raw.decode(found).encode()
    except UnicodeError:
        advice = "save it as UTF-8" if encoding is None else "give another data.encoding"
        raise DataError(f"{path}: looks like {found.upper()}, and is not: {advice}") from None


def check_text(path: Location, raw: bytes, first_line: int = 1) -> None:
    """Raise DataError if the bytes are not UTF-8 text; `first_line` is the line of the file at which they begin."""
    try:
        if not raw.isascii():  # which is ten times faster than decoding
            raw.decode()
    except UnicodeDecodeError as error:
        line = line_at(raw, error.start) + first_line - 1
        advice = "set data.encoding, such as latin-1 or cp1252, or save the file as UTF-8"
        raise DataError(f"{path}, line {line}: not text in UTF-8: {advice}") from None
    _refuse_zero(path, raw, first_line)


def _refuse_zero(path: Location, raw: bytes, first_line: int) -> None:
    if b"\0" in raw:
        line = line_at(raw, raw.index(b"\0")) + first_line - 1
        raise DataError(f"{path}, line {line}: a zero byte: this is no text, or the file is damaged")


def line_at(raw: bytes, position: int) -> int:
    """Return the number of the line that contains the byte at `position`, from 1."""
    return raw.count(b"\n" if b"\n" in raw else b"\r", 0, position) + 1


def quote(text: object) -> str:
    """Return a text of a file in quotes, shortened to 60 characters and escaped, for a message."""
    shown = repr(str(text))
    return shown if len(shown) <= 60 else f"{shown[:56]}...'"


def warn_of_skipped_lines(path: Location, count: int, first: int) -> None:
    """Warn of a number of skipped lines, of which `first` is the first."""
    if count:
        first_of = f"line {first}" if count == 1 else f"the first is line {first}"
        warnings.warn(f"{path}: skipped {plural(count, 'line')} without a value: {first_of}", stacklevel=3)
