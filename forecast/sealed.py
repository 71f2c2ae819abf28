"""Checkpoint files that carry the hash of their own content, as the comment of the zip archive that they are."""

import hashlib
import os
import re
from pathlib import Path
from typing import Any, BinaryIO

import torch

from forecast.errors import CheckpointError
from forecast.files import whole_file

SEAL = re.compile(rb"sha256:[0-9a-f]{64}")
SEAL_LENGTH = 71
END_SIGNATURE, END_LENGTH = b"PK\5\6", 22
"""Of the record that ends a zip archive; its last two bytes say how long the comment after it is."""
CHUNK = 1 << 20


def save_sealed(content: Any, path: Path) -> None:
    """Write `content` by torch.save, its hash inside; the file appears whole or not at all.

    Raises:
        CheckpointError: it cannot be written, as on a full disk; what was at `path` stays.
    """
    try:
        with whole_file(path) as temporary, temporary.open("w+b") as file:
            torch.save(content, file)
            end = file.seek(-2, os.SEEK_END)  # the length of the archive's comment, 0 so far
            seal = b"sha256:" + digest(file, end).encode()
            file.seek(end)
            file.write(len(seal).to_bytes(2, "little") + seal)
    except (OSError, RuntimeError) as error:
        raise CheckpointError(
            f"{path}: cannot be written: {reason(error)}; the checkpoints before it are whole: "
            "make room, then repeat the command with resume=auto"
        ) from error


def reason(error: BaseException) -> str:
    """The system's word for it: torch.save may raise an error of its own after the system's."""
    known: BaseException | None = error
    while known is not None and not (isinstance(known, OSError) and known.strerror):
        known = known.__context__
    return known.strerror if isinstance(known, OSError) and known.strerror else " ".join(str(error).split())


def is_damaged(path: Path) -> bool:
    """Whether the file's content is not what its hash says; of a file without a hash that cannot be told."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        start = max(0, size - END_LENGTH - SEAL_LENGTH)
        file.seek(start)
        tail = file.read()
        end = tail.rfind(END_SIGNATURE) + END_LENGTH
        if end < END_LENGTH:
            return False  # no archive, or one that is cut: nobody can read it
        seal = tail[end:]
        if int.from_bytes(tail[end - 2 : end], "little") != len(seal):
            return True
        is_sealed = SEAL.fullmatch(seal) is not None
        return is_sealed and seal != b"sha256:" + digest(file, start + end - 2).encode()


def digest(file: BinaryIO, end: int) -> str:
    """SHA-256 of the file's first `end` bytes."""
    found = hashlib.sha256()
    file.seek(0)
    while end > 0 and (part := file.read(min(CHUNK, end))):
        found.update(part)
        end -= len(part)
    return found.hexdigest()
