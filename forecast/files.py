"""Files that appear whole or not at all."""

import json
import math
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from forecast.errors import ConfigError


def check_free(*paths: Path, overwrite: bool) -> None:
    """Refuse to write over files. Raises ConfigError naming the first that is there."""
    for path in paths:
        if path.is_dir() or (path.exists() and not overwrite):
            advice = "give another output" + ("" if path.is_dir() else ", or overwrite=true")
            raise ConfigError(f"{path}: is there already: {advice}")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a temporary name beside `path` to write to; on success it becomes `path`, else it goes.

    It lies on the disk before it has its name, so that not even a power failure leaves half of it under that name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield temporary
        sync(temporary)
        os.replace(temporary, path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until the file, or the names in the folder, are on the disk."""
    if os.name == "nt" and path.is_dir():  # Windows opens no folders
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check_free_folder(path: Path, *, marks: set[str], suffix: str, overwrite: bool) -> None:
    """Refuse to write a folder where something is. What `overwrite` may replace holds the files `marks`, and beside
    them only files that end in `suffix`. Raises ConfigError.
    """
    if not path.is_dir():
        check_free(path, overwrite=False)
        return
    there = {entry.name for entry in path.iterdir()}
    ours = marks <= there and all(name.endswith(suffix) for name in there - marks)
    if there and not (ours and overwrite):
        advice = "give another output" + (", or overwrite=true" if ours else ": it holds other things")
        raise ConfigError(f"{path}: is there already: {advice}")


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Give a temporary folder beside `path` to fill; on success it becomes `path`, in place of a folder there, else
    it goes.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary, former = (path.with_name(f".{path.name}.{os.getpid()}{end}") for end in ("", ".former"))
    temporary.mkdir()
    try:
        yield temporary
        if path.exists():
            path.rename(former)
        temporary.rename(path)
    finally:
        for folder in (temporary, former):
            shutil.rmtree(folder, ignore_errors=True)


def write_json(path: Path, content: Any) -> None:
    """Write `content` as indented JSON; NaN, which JSON lacks, becomes null."""
    with whole_file(path) as temporary:
        temporary.write_text(json.dumps(without_nan(content), indent=2, allow_nan=False) + "\n")


def without_nan(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: without_nan(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [without_nan(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
