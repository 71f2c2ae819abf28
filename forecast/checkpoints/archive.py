"""The archive of a checkpoint file: checks before it is loaded, and its plain values without tensors. Imports no torch.

A checkpoint is a zip archive of a pickle, `data.pkl`, and the bytes of its tensors.
"""

import io
import pickle
import pickletools
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from forecast.system.errors import CheckpointError

TYPES = ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool")
SAFE_NAMES = {
    "collections OrderedDict",
    "torch._utils _rebuild_tensor_v2",
    *(f"torch {name}Storage" for name in TYPES),
}
"""Global names that a checkpoint's pickle may contain."""

UNSAFE_OPCODES = {"STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4"}
"""Pickle operations that can name or create any other object."""

MAX_VALUES = 1_000_000


def read_plain(path: Path) -> dict[str, Any]:
    """Read a checkpoint with None in place of each tensor.

    Raises:
        CheckpointError: the file is damaged, unsafe, or was not written by this project.
    """
    return check_written_here(path, load_checked(path, _unpickle_plain))


def check_written_here(path: Path, content: Any) -> dict[str, Any]:
    """Return the content of a checkpoint. Raises CheckpointError if another program wrote it."""
    if not isinstance(content, dict) or "forecast_version" not in content:
        raise CheckpointError(f"{path}: this checkpoint was not written by forecast.train")
    return content


def load_checked(path: Path, load: Callable[[BinaryIO, int], tuple[Any, str]]) -> Any:
    """Load a file with `load(file, size)`, which returns its content and what is unsafe in it, or "".

    Raises:
        CheckpointError: the file cannot be read, is damaged, is not a checkpoint, or contains more than data.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            content, problem = load(file, size)
    except Exception as error:  # a damaged file can fail anywhere
        if isinstance(error, OSError) and error.strerror:
            raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from error
        raise CheckpointError(f"{path}: the file is damaged, or it is not a checkpoint") from error
    if problem:
        raise CheckpointError(
            f"{path}: not a checkpoint of this project: it contains {problem}; nothing was executed"
        )
    return content


def find_unsafe_member(archive: zipfile.ZipFile, size: int) -> str:
    """Return the unsafe part of the archive or of its pickle, or "", before anything is loaded."""
    members = archive.infolist()
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        return "compressed members"
    if sum(member.file_size for member in members) > size:
        return "members larger than the file"
    for opcode, argument, _ in pickletools.genops(read_pickle(archive)):
        if opcode.name in UNSAFE_OPCODES:
            return f"a pickle with {opcode.name}"
        if opcode.name == "GLOBAL" and argument not in SAFE_NAMES:
            return str(argument).replace(" ", ".")
    return ""


def read_pickle(archive: zipfile.ZipFile) -> bytes:
    """The bytes of `data.pkl`. Raises zipfile.BadZipFile if its CRC does not match."""
    (pickled,) = (m for m in archive.infolist() if m.filename.split("/")[1:] == ["data.pkl"])
    return archive.read(pickled)


def find_unsafe_value(content: Any, check_other: Callable[[Any], str]) -> str:
    """Return the first unsafe one of the loaded values, or "".

    `check_other` is called with each value that is not plain; it returns what is unsafe in it, or "".
    """
    waiting, n_values = [content], 0
    while waiting:
        value = waiting.pop()
        n_values += 1
        if n_values > MAX_VALUES:
            return f"more than {MAX_VALUES:,} values"
        if type(value) in (dict, OrderedDict):
            waiting += [*value, *value.values()]
        elif type(value) in (list, tuple):
            waiting += value
        elif type(value) not in (str, int, float, bool, type(None)) and (problem := check_other(value)):
            return problem
    return ""


class _PlainUnpickler(pickle.Unpickler):
    """Creates ordered dicts, and None for every tensor."""

    def find_class(self, module: str, name: str) -> Any:
        return OrderedDict if (module, name) == ("collections", "OrderedDict") else _make_none

    def persistent_load(self, pid: Any) -> None:
        """The bytes of a tensor are not read."""


def _make_none(*_: Any) -> None:
    """Placeholders for the functions and classes of tensors."""


def _unpickle_plain(file: BinaryIO, size: int) -> tuple[Any, str]:
    with zipfile.ZipFile(file) as archive:
        problem = find_unsafe_member(archive, size)
        content = None if problem else _PlainUnpickler(io.BytesIO(read_pickle(archive))).load()
    return content, problem or find_unsafe_value(content, lambda value: f"a {type(value).__name__}")
