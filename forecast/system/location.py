"""Locations of files, folders of YAML files, and the classes that they name."""

import importlib
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from forecast.system.errors import CONF, ConfigError, DataError, user_path

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


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
    try:
        fsspec = importlib.import_module("fsspec")
        file: Any = fsspec.open(location.url, "rb").open()
        return file if isinstance(file, io.BufferedIOBase) else io.BufferedReader(file)
    except ImportError as error:  # fsspec names the package of a protocol
        raise ConfigError(f"{location}: a package is not installed: {error}") from None
    except FileNotFoundError:
        raise DataError(f"{location}: no such file") from None
    except Exception as error:  # each file system has errors of its own
        if isinstance(error, ValueError) and "Protocol not known" in str(error):
            raise ConfigError(f"{location}: fsspec knows no protocol {location.protocol}://") from None
        raise DataError(f"{location}: cannot be opened: {type(error).__name__}: {error}") from None


GROUPS_OF_ATTENTION = ("attention", "encoder", "decoder", "cross", "variables")
"""The groups whose options are the files of the folder `attention`."""


def conf_folders() -> list[Path]:
    """The folders of YAML files: that of this package, and that of the environment variable FORECAST_CONF.

    A user's folder has the same folders, such as `attention` and `model`, with options of their own.
    Raises ConfigError if it is no folder.
    """
    own = os.environ.get("FORECAST_CONF")
    if not own:
        return [CONF]
    folder = user_path(own).absolute()
    if not folder.is_dir():
        raise ConfigError(f"FORECAST_CONF={own}: no such folder: name one with YAML files, or unset the variable")
    return [CONF, folder]


def folder_of_group(group: str) -> str:
    return "attention" if group in GROUPS_OF_ATTENTION else group


def conf_files(group: str) -> list[Path]:
    """The YAML files of the options of a group, by name; of two of one name, that of the package."""
    places = [folder / folder_of_group(group) for folder in conf_folders()[::-1]]
    files = {path.stem: path for place in places for path in place.glob("*.yaml")}
    return [files[name] for name in sorted(files)]


def known_targets(*groups: str) -> frozenset[str]:
    """Return the targets in the files of these configuration groups, or of all groups without arguments.

    The environment variable FORECAST_TARGETS adds targets, separated by colons.
    """
    all_groups = [folder.name for folder in CONF.iterdir() if folder.is_dir()]
    places = [folder / group for group in groups or all_groups for folder in conf_folders()]
    files = [path for place in (*places, *([] if groups else [CONF])) for path in place.rglob("*.yaml")]
    named = {name for path in files for name in re.findall(r"_target_: *([\w.]+)", path.read_text("utf-8"))}
    added = os.environ.get("FORECAST_TARGETS", "").split(":")
    return frozenset(named) | frozenset(filter(None, added))
