"""Unpacking of files whose compression is detected from the content, not from the name."""

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import pyarrow as pa

from forecast.system.errors import DataError
from forecast.system.location import Location

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
UNREADABLE = (
    OSError, EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, NotImplementedError,
)  # fmt: skip


@contextmanager
def unpacked(location: Location, file: io.BufferedIOBase) -> Iterator[io.BufferedIOBase]:
    """Yield the content of an open file: of gzip, bzip2, xz, zstd and zip without the compression, else the file.

    Raises DataError for a file of another kind, and for an archive of several files.
    """
    head = file.read(16)
    file.seek(0)
    if head.startswith(b"\x1f\x8b"):
        with gzip.GzipFile(fileobj=file) as stream:
            yield stream
    elif head.startswith(b"BZh"):
        with bz2.BZ2File(file) as stream:
            yield stream
    elif head.startswith(b"\xfd7zXZ"):
        with lzma.LZMAFile(file) as stream:  # type: ignore[arg-type]
            yield stream
    elif head.startswith(b"\x28\xb5\x2f\xfd"):
        with io.BufferedReader(_Zstd(file)) as stream:
            yield stream
    elif head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        with zipfile.ZipFile(file) as archive, archive.open(_only_member(location, archive)) as stream:
            yield cast(io.BufferedIOBase, stream)
    else:
        for mark, kind in _OTHER_KINDS.items():
            if head.startswith(mark):
                raise DataError(f"{location}: {kind}, not CSV: save the table as CSV, Parquet or .xlsx")
        yield file


def is_workbook(file: io.BufferedIOBase) -> bool:
    """Return whether an open file is an Excel workbook (.xlsx)."""
    head = file.read(4)
    file.seek(0)
    if head != b"PK\x03\x04":
        return False
    with zipfile.ZipFile(file) as archive:
        found = "[Content_Types].xml" in archive.namelist()
    file.seek(0)
    return found


def _only_member(location: Location, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    files = [file for file in archive.infolist() if not file.filename.startswith("__MACOSX/")]
    if len(files) != 1:
        raise DataError(f"{location}: {len(files)} files in the archive, where one is expected")
    if files[0].flag_bits & 1:
        raise DataError(f"{location}: the archive is encrypted: unpack it first")
    return files[0]


class _Zstd(io.RawIOBase):
    """The content of a zstd file; a seek backwards begins again."""

    def __init__(self, file: io.BufferedIOBase) -> None:
        self._file = file
        self._begin()

    def _begin(self) -> None:
        self._file.seek(0)
        self._stream, self._at = pa.CompressedInputStream(pa.PythonFile(self._file, "r"), "zstd"), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        content = self._stream.read(len(buffer))
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        target = offset + (self._at if whence == io.SEEK_CUR else 0)
        if target < self._at:
            self._begin()
        while self._at < target and self.readinto(memoryview(bytearray(min(1 << 20, target - self._at)))):
            pass
        return self._at

    def tell(self) -> int:
        return self._at
