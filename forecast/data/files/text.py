"""Reading text files in bounded memory; compression and encoding are detected from the content, not from the name."""

import codecs
import gzip
import io
import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from forecast.system.errors import DataError
from forecast.system.memory import available

_CHUNK = 2**24
"""Bytes read at a time; the upper limit of a line."""

_MAX_RATIO = 200
"""Highest accepted compression ratio. Tables reach 3 to 20, rarely 100; gzip reaches 1,030 on a repeated byte."""

_BEFORE_RATIO = 2**26
"""Unpacked bytes from which the ratio is checked."""

_TABLE_PER_TEXT = 4
"""Bytes of memory that reading a table needs per byte of its text."""

_OTHER_KINDS = {
    b"PAR1": "a Parquet file",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"ARROW1": "an Arrow file",
    b"\x89HDF": "an HDF5 file",
    b"SQLite format 3": "an SQLite database",
    b"\x93NUMPY": "a NumPy array",
    b"%PDF": "a PDF",
    b"\x89PNG": "a picture",
    b"BZh": "packed by bzip2",
    b"\xfd7zXZ": "packed by xz",
    b"\x28\xb5\x2f\xfd": "packed by zstd",
    b"7z\xbc\xaf": "packed by 7-Zip",
}
UNREADABLE = (OSError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError)


def read_text(path: Path, encoding: str | None = None) -> bytes:
    """Return the text of a file as UTF-8 without a byte-order mark; gzip, zip and UTF-16 are detected and decoded.

    `encoding` replaces the detection of UTF-8 and UTF-16.

    Raises:
        DataError: not text, not a regular file, or too large for the available memory.
    """
    try:
        with _opened(path) as file, _unpacked(path, file) as stream:
            raw = _read_whole(path, file, stream)
    except UNREADABLE as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise DataError(f"{path}: cannot be read: {reason}") from None
    found = encoding or _encoding(raw)
    if found != "utf-8":
        try:
            raw = raw.decode(found).encode()
        except UnicodeError:
            advice = "save it as UTF-8" if encoding is None else "give another data.encoding"
            raise DataError(f"{path}: looks like {found.upper()}, and is not: {advice}") from None
    raw = raw.removeprefix(codecs.BOM_UTF8)
    check_text(path, raw)
    if not raw.strip():
        raise DataError(f"{path}: empty")
    return raw


def check_text(path: Path, raw: bytes, first_line: int = 1) -> None:
    """Raise DataError if the bytes are not UTF-8 text; `first_line` is the line of the file at which they begin."""
    try:
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


@contextmanager
def unpacked(path: Path) -> Iterator[tuple[io.BufferedIOBase, int]]:
    """Yield a stream of the unpacked bytes, and the size of the file on disk in bytes."""
    with _opened(path) as file, _unpacked(path, file) as stream:
        yield stream, os.fstat(file.fileno()).st_size


@contextmanager
def _opened(path: Path) -> Iterator[io.BufferedReader]:
    if not path.exists():
        raise DataError(f"{path}: no such file" + (": a broken link" if path.is_symlink() else ""))
    if not path.is_file():
        kind = "folder" if path.is_dir() else "device"
        raise DataError(f"{path}: not a file but a {kind}: give a CSV file")
    if path.stat().st_size == 0:  # a file of /proc too, which might never end
        raise DataError(f"{path}: empty")
    with open(path, "rb") as file:
        yield file


@contextmanager
def _unpacked(path: Path, file: io.BufferedReader) -> Iterator[io.BufferedIOBase]:
    head = file.read(16)
    file.seek(0)
    if head.startswith(b"\x1f\x8b"):
        with gzip.GzipFile(fileobj=file) as stream:
            yield stream
    elif head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        with zipfile.ZipFile(file) as archive, archive.open(_only_member(path, archive)) as stream:
            yield cast(io.BufferedIOBase, stream)
    else:
        for mark, kind in _OTHER_KINDS.items():
            if head.startswith(mark):
                advice = "save the table as CSV (.gz and .zip are unpacked)"
                raise DataError(f"{path}: {kind}, not CSV: {advice}")
        yield file


def _only_member(path: Path, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    files = [file for file in archive.infolist() if not file.filename.startswith("__MACOSX/")]
    if any(file.filename == "[Content_Types].xml" for file in files):
        raise DataError(f"{path}: an Excel workbook, not CSV: save the sheet as CSV UTF-8")
    if len(files) != 1:
        raise DataError(f"{path}: {len(files)} files in the archive, where one is expected")
    if files[0].flag_bits & 1:
        raise DataError(f"{path}: the archive is encrypted: unpack it first")
    return files[0]


def _read_whole(path: Path, file: io.BufferedReader, stream: io.BufferedIOBase) -> bytes:
    """Read the stream to its end. Stop early at content that no table has, so that no archive bomb is unpacked."""
    room, size = available(), os.fstat(file.fileno()).st_size
    whole, lines = io.BytesIO(), 1
    while chunk := stream.read(_CHUNK):
        if whole.tell() == 0:
            has_zeros = _encoding(chunk[:4096]) != "utf-8"
        if not has_zeros and b"\0" in chunk:
            raise _zero_byte(path, lines + line_at(chunk, chunk.index(b"\0")) - 1)
        if len(chunk) == _CHUNK and b"\n" not in chunk and b"\r" not in chunk:
            raise DataError(f"{path}, line {lines}: longer than {_CHUNK >> 20} MiB: this is no table")
        lines += line_at(chunk, len(chunk)) - 1
        whole.write(chunk)
        if stream is not file and whole.tell() > max(_BEFORE_RATIO, _MAX_RATIO * file.tell()):
            raise DataError(f"{path}: unpacks to over {_MAX_RATIO} times its size: this is no table")
        needed = _TABLE_PER_TEXT * max(size, whole.tell())
        if needed > room:
            raise DataError(
                f"{path}: needs some {needed / 2**30:,.1f} GiB of memory, and {room / 2**30:,.1f} GiB are free"
            )
    return whole.getvalue()


def _encoding(raw: bytes) -> str:
    """Detect UTF-16 by its byte-order mark, or by the zeros in every second byte of ASCII; else return `utf-8`."""
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    head = raw[:4096]
    even, odd = head[::2].count(0), head[1::2].count(0)
    if even == 0 and odd > len(head) // 4:
        return "utf-16-le"
    return "utf-16-be" if odd == 0 and even > len(head) // 4 else "utf-8"


def _zero_byte(path: Path, line: int) -> DataError:
    return DataError(f"{path}, line {line}: a zero byte: this is no text, or the file is damaged")
