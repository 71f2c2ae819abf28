"""The location of a file: a path on disk, or a URL such as s3://bucket/load.csv, which fsspec opens."""

import importlib
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from forecast.system.errors import ConfigError, DataError
from forecast.system.paths import user_path

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_PACKAGES = {
    "s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs", "abfss": "adlfs",
    "http": "requests aiohttp", "https": "requests aiohttp", "sftp": "paramiko", "ssh": "paramiko",
    "hf": "huggingface_hub",
}  # fmt: skip
"""The packages that fsspec needs for a protocol."""


class RemoteFile:
    """A file at a URL; it has those attributes of a path that readers use."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.password:
            raise ConfigError(
                f"data.path={parts.scheme}://...: leave the password out, which would be saved with the run: give it "
                "to the file system's own settings"
            )
        self.url, self.protocol = url, parts.scheme.lower()
        self.name = PurePosixPath(parts.path).name or parts.netloc
        self.suffix = PurePosixPath(self.name).suffix

    def __str__(self) -> str:
        return self.url

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteFile) and self.url == other.url

    def __hash__(self) -> int:
        return hash(self.url)


Location = Path | RemoteFile


def locate(path: object) -> Location:
    """The location that a user's text names."""
    text = str(path)
    return RemoteFile(text) if _URL.match(text) else user_path(text)


def is_folder(location: Location) -> bool:
    return isinstance(location, Path) and os.path.isdir(location)


def check_exists(location: Path) -> None:
    """Raise DataError unless something has this path."""
    try:
        exists = location.exists()
    except OSError as error:  # such as a name that is too long
        raise DataError(f"{location}: cannot be read: {error.strerror}") from None
    if not exists:
        raise DataError(f"{location}: no such file" + (": a broken link" if location.is_symlink() else ""))


@contextmanager
def opened(location: Location) -> Iterator[tuple[io.BufferedIOBase, int]]:
    """Yield the file, open for reading and seeking, and its size in bytes.

    Raises:
        DataError: there is no such file, it is empty or no regular file, or the file system gives an error.
        ConfigError: a package for the protocol is not installed.
    """
    if isinstance(location, RemoteFile):
        with _open_remote(location) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            if not size:
                raise DataError(f"{location}: empty")
            yield file, size
        return
    check_exists(location)
    if not location.is_file():
        kind = "folder" if location.is_dir() else "device"
        raise DataError(f"{location}: not a file but a {kind}: give a CSV file")
    if location.stat().st_size == 0:  # a file of /proc too, which might never end
        raise DataError(f"{location}: empty")
    with open(location, "rb") as file:
        yield file, os.fstat(file.fileno()).st_size


def _open_remote(location: RemoteFile) -> io.BufferedIOBase:
    """The file as fsspec opens it."""
    needed = _PACKAGES.get(location.protocol, "")
    try:
        fsspec = importlib.import_module("fsspec")
        file: Any = fsspec.open(location.url, "rb").open()
        return file if isinstance(file, io.BufferedIOBase) else io.BufferedReader(file)
    except ImportError:
        packages = " ".join(filter(None, ("fsspec", needed)))
        raise ConfigError(f"{location}: a package is not installed: pip install {packages}") from None
    except FileNotFoundError:
        raise DataError(f"{location}: no such file") from None
    except Exception as error:  # each file system has errors of its own
        if isinstance(error, ValueError) and "Protocol not known" in str(error):
            raise ConfigError(f"{location}: fsspec knows no protocol {location.protocol}://") from None
        raise DataError(f"{location}: cannot be opened: {type(error).__name__}: {error}") from None
