"""Checkpoint files: written whole, read as data."""

import warnings
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from forecast.checkpoints.contents import check_written_here, find_unsafe_value, load_checked
from forecast.system.errors import CheckpointError
from forecast.system.files import atomic_file


def safe_load(path: Path) -> Any:
    """Load the file's content onto the CPU; see `load_checked`."""
    return load_checked(path, _load)


def _load(file: BinaryIO, archive: zipfile.ZipFile, size: int) -> tuple[Any, str]:
    if damaged := archive.testzip():
        raise zipfile.BadZipFile(f"the CRC of {damaged} does not match")
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

    Raises CheckpointError: the file is damaged, unsafe, or was not written by this project.
    """
    return check_written_here(path, safe_load(path))


def load_newest(folder: Path, name: str = "last") -> tuple[Path, dict[str, Any]] | None:
    """Load the newest readable state in a run folder: `<name>.ckpt`, or the state before it, `<name>-1.ckpt`.

    Returns its path and content, or None if the folder has neither. If the newest is damaged, a warning says so.

    Raises CheckpointError: neither file is readable.
    """
    newest, before = (folder / "checkpoints" / f"{name}{end}.ckpt" for end in ("", "-1"))
    if newest.is_file():
        try:
            return newest, load_checkpoint(newest)
        except CheckpointError as error:
            if not before.is_file():
                raise
            warnings.warn(f"{error}; resuming from {before.name} instead", stacklevel=2)
    return (before, load_checkpoint(before)) if before.is_file() else None


def save_checkpoint(content: Any, path: Path) -> None:
    """Write `content` with torch.save; the file appears whole or not at all.

    Raises CheckpointError: the file cannot be written, for example on a full disk. A former file at `path` is kept.
    """
    try:
        with atomic_file(path) as temporary, temporary.open("wb") as file:
            torch.save(content, file)
    except (OSError, RuntimeError) as error:
        raise CheckpointError(
            f"{path}: cannot be written: {system_reason(error)}; earlier checkpoints are intact: "
            "free some disk space, then repeat the command with resume=auto"
        ) from error


def system_reason(error: BaseException | None) -> str:
    """Return the message of the system error behind `error`, which torch.save hides behind its own."""
    while not isinstance(error, OSError) and error is not None:
        error = error.__context__
    return (error and error.strerror) or "unknown reason"
