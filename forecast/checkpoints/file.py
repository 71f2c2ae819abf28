"""Checkpoint files: read and write them. Reading executes nothing, and writing is atomic."""

import warnings
from pathlib import Path
from typing import Any

import torch

from forecast.checkpoints.archive import check_written_here
from forecast.checkpoints.safe_load import safe_load
from forecast.system.errors import CheckpointError
from forecast.system.files import atomic_file


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
