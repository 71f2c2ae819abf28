"""Reading text files in bounded memory; compression and encoding are detected from the content, not from the name."""

import codecs
import io

from forecast.data.files.compressed import UNREADABLE, is_workbook, unpacked
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.workbook import sheet_as_csv
from forecast.system.errors import DataError
from forecast.system.location import Location, opened
from forecast.system.memory import available

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

    Raises:
        DataError: not text, not a regular file, or too large for the available memory.
    """
    try:
        with opened(path) as (file, size):
            if is_workbook(file):
                raw = sheet_as_csv(path, file, options)
            else:
                with unpacked(path, file) as stream:
                    raw = decode(path, _read_whole(path, file, stream, size), options.encoding)
    except UNREADABLE as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise DataError(f"{path}: cannot be read: {reason}") from None
    raw = raw.removeprefix(codecs.BOM_UTF8)
    check_text(path, raw)
    if raw.isspace() or not raw:
        raise DataError(f"{path}: empty")
    return raw


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
    if b"\0" in raw:
        raise _zero_byte(path, line_at(raw, raw.index(b"\0")) + first_line - 1)


def line_at(raw: bytes, position: int) -> int:
    """Return the number of the line that contains the byte at `position`, from 1."""
    end = b"\n" if b"\n" in raw else b"\r"
    return raw.count(end, 0, position) + 1


def quote(text: object) -> str:
    """Return a text of a file in quotes, shortened to 60 characters and escaped, for a message."""
    shown = repr(str(text))
    return shown if len(shown) <= 60 else f"{shown[:56]}...'"


def _read_whole(path: Location, file: io.BufferedIOBase, stream: io.BufferedIOBase, size: int) -> bytes:
    """Read the stream to its end. Stop early at content that no table has, so that no archive bomb is unpacked."""
    room, chunks, total = available(), [], 0
    at_once = max(_CHUNK, size) if stream is file and _TABLE_PER_TEXT * size <= room else _CHUNK
    while chunk := stream.read(at_once):
        if not chunks:
            has_zeros = _encoding(chunk[:4096]) != "utf-8"
        if not has_zeros and b"\0" in chunk:
            raise _zero_byte(path, _lines(chunks) + line_at(chunk, chunk.index(b"\0")))
        if len(chunk) >= _CHUNK and chunk.find(b"\n", 0, _CHUNK) < 0 and chunk.find(b"\r", 0, _CHUNK) < 0:
            line = _lines(chunks) + 1
            raise DataError(f"{path}, line {line}: longer than {_CHUNK >> 20} MiB: this is no table")
        chunks.append(chunk)
        total += len(chunk)
        if stream is not file and total > max(_BEFORE_RATIO, _MAX_RATIO * file.tell()):
            raise DataError(f"{path}: unpacks to over {_MAX_RATIO} times its size: this is no table")
        needed = _TABLE_PER_TEXT * max(size, total)
        if needed > room:
            raise DataError(
                f"{path}: needs some {needed / 2**30:,.1f} GiB of memory, and {room / 2**30:,.1f} GiB are free"
            )
    return b"".join(chunks)


def _lines(chunks: list[bytes]) -> int:
    """The number of line ends in these chunks."""
    return sum(line_at(chunk, len(chunk)) - 1 for chunk in chunks)


def _encoding(raw: bytes) -> str:
    """Detect UTF-16 by its byte-order mark, or by the zeros in every second byte of ASCII; else return `utf-8`."""
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    head = raw[:4096]
    even, odd = head[::2].count(0), head[1::2].count(0)
    if even == 0 and odd > len(head) // 4:
        return "utf-16-le"
    return "utf-16-be" if odd == 0 and even > len(head) // 4 else "utf-8"


def _zero_byte(path: Location, line: int) -> DataError:
    return DataError(f"{path}, line {line}: a zero byte: this is no text, or the file is damaged")
