"""Atomic writing: a file or folder appears complete or not at all."""

import json
import math
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from forecast.system.errors import ConfigError, user_path


def output_file(output: object, *suffixes: str) -> Path:
    """The file that the setting `output` names. Raises ConfigError unless its name ends in one of `suffixes`."""
    path = user_path(str(output))
    if path.suffix not in suffixes:
        raise ConfigError(f"output={output}: give a name that ends in {', '.join(suffixes)}")
    return path


def check_output_files(*paths: Path, overwrite: bool) -> None:
    """Raise ConfigError if one of the paths exists and may not be overwritten."""
    for path in paths:
        if path.is_dir() or (path.exists() and not overwrite):
            advice = "give another output" + ("" if path.is_dir() else ", or overwrite=true")
            raise ConfigError(f"{path}: already exists: {advice}")


@contextmanager
def named_in_errors(path: Path, *hidden: Path) -> Iterator[None]:
    """Give an OSError of the block the name of the file that is written, where it has none or one of `hidden`."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename in (None, *map(str, hidden)):
            error.filename = str(path)
        raise


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` to write to. On success rename it to `path`, else delete it.

    The content is synced to the disk before the rename, so that even a power failure leaves no partial file at `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        with named_in_errors(path, temporary):
            yield temporary
            sync(temporary)
            os.replace(temporary, path)
            sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until the content of a file, or the entries of a folder, are on the disk."""
    if os.name == "nt" and path.is_dir():  # Windows opens no folders
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check_output_folder(path: Path, *, marks: set[str], suffix: str | tuple[str, ...], overwrite: bool) -> None:
    """Raise ConfigError if `path` exists and may not be replaced.

    An empty folder may be replaced. With `overwrite`, so may a folder that contains the files `marks` and otherwise
    only files whose names end in `suffix` (one of them, if there are several).
    """
    if not path.is_dir():
        check_output_files(path, overwrite=False)
        return
    there = {entry.name for entry in path.iterdir()}
    ours = marks <= there and all(name.endswith(suffix) for name in there - marks)
    if there and not (ours and overwrite):
        advice = "give another output" + (", or overwrite=true" if ours else ": it holds other things")
        raise ConfigError(f"{path}: already exists: {advice}")


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path` to fill. On success it replaces `path`, else it is deleted."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary, former = (path.with_name(f".{path.name}.{os.getpid()}{end}") for end in ("", ".former"))
    temporary.mkdir()
    try:
        with named_in_errors(path):
            yield temporary
        if path.exists():
            path.rename(former)
        temporary.rename(path)
    finally:
        for folder in (temporary, former):
            shutil.rmtree(folder, ignore_errors=True)


def write_json(path: Path, content: Any) -> None:
    """Write `content` as indented JSON. NaN and infinity, which JSON lacks, become null."""
    with atomic_file(path) as temporary:
        temporary.write_text(json.dumps(without_nan(content), indent=2, allow_nan=False) + "\n")


def without_nan(content: Any) -> Any:
    """Return nested dicts and lists with None in place of every float that is not finite."""
    if isinstance(content, dict):
        return {key: without_nan(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [without_nan(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
