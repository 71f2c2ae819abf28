"""Checkpoint files: written whole, read as data."""

import warnings
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from forecast.checkpoints.settings import (
    check_written_here,
    find_unsafe_member,
    find_unsafe_value,
    load_checked,
)
from forecast.system.errors import CheckpointError
from forecast.system.files import atomic_file


def safe_load(path: Path) -> Any:
    """Load the file's content onto the CPU.

    Raises:
        CheckpointError: the file cannot be read, is damaged, is not a checkpoint, or contains more than data.
    """
    return load_checked(path, _load)


def _load(file: BinaryIO, size: int) -> tuple[Any, str]:
    with zipfile.ZipFile(file) as archive:
        problem = find_unsafe_member(archive, size)
        if not problem and (damaged := archive.testzip()):
            raise zipfile.BadZipFile(f"the CRC of {damaged} does not match")
    if problem:
        return None, problem
    file.seek(0)
    content = torch.load(file, map_location="cpu", weights_only=True)
    return content, find_unsafe_value(content, UnsafeTensors(size))


class UnsafeTensors:
    """Finds the first value that is no tensor stored in a file of `size` bytes."""

    def __init__(self, size: int) -> None:
        self.size, self.n_bytes = size, 0
        self.storages: set[int] = set()

    def __call__(self, value: Any) -> str:
        if type(value) is not Tensor:
            return f"a {type(value).__name__}"
        if value.layout != torch.strided or value.device.type != "cpu" or value.is_quantized:
            return f"a tensor of {value.layout} on {value.device}"
        storage = value.untyped_storage()
        self.n_bytes += 0 if storage.data_ptr() in self.storages else storage.nbytes()
        self.storages.add(storage.data_ptr())
        if value.numel() * value.element_size() > storage.nbytes() or self.n_bytes > self.size:
            return "a tensor larger than the file"
        return ""


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Load the checkpoint onto the CPU: tensors and plain values only.

    Raises:
        CheckpointError: the file is damaged, unsafe, or was not written by this project.
    """
    return check_written_here(path, safe_load(path))


def load_newest(folder: Path, name: str = "last") -> tuple[Path, dict[str, Any]] | None:
    """Load the newest readable state in a run folder: `<name>.ckpt`, or the state before it, `<name>-1.ckpt`.

    Returns its path and content, or None if the folder has neither. A damaged file is skipped with a warning.

    Raises:
        CheckpointError: neither file is readable.
    """
    paths = [path for end in ("", "-1") if (path := folder / "checkpoints" / f"{name}{end}.ckpt").is_file()]
    for number, path in enumerate(paths):
        try:
            return path, load_checkpoint(path)
        except CheckpointError as error:
            if number + 1 == len(paths):
                raise
            warnings.warn(f"{error}; resuming from {paths[number + 1].name} instead", stacklevel=2)
    return None


def save_checkpoint(content: Any, path: Path) -> None:
    """Write `content` with torch.save; the file appears whole or not at all.

    Raises:
        CheckpointError: the file cannot be written, for example on a full disk. A former file at `path` is kept.
    """
    try:
        with atomic_file(path) as temporary, temporary.open("wb") as file:
            torch.save(content, file)
    except (OSError, RuntimeError) as error:
        raise CheckpointError(
            f"{path}: cannot be written: {reason(error)}; earlier checkpoints are intact: "
            "free some disk space, then repeat the command with resume=auto"
        ) from error


def reason(error: BaseException) -> str:
    """Return the message of the system error behind `error`, which torch.save hides behind its own."""
    cause: BaseException | None = error
    while cause is not None and not (isinstance(cause, OSError) and cause.strerror):
        cause = cause.__context__
    return cause.strerror if isinstance(cause, OSError) and cause.strerror else " ".join(str(error).split())
