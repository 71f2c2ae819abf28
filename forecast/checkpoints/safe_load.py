"""Safe loading of checkpoint files: only tensors and plain values, without executing anything.

`torch.load(weights_only=True)` executes no code from the file, but it allows more than this project's checkpoints
contain, and it does not verify checksums. Therefore a file is read twice, the second time from the system's cache. The
first pass checks the CRC of every member of the zip archive and the names in the pickle. The second pass loads the
file. Then the loaded values are checked: a file may expand to far more values or bytes than it holds.
"""

import pickletools
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

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


def safe_load(path: Path) -> Any:
    """Load the file's content onto the CPU.

    Raises:
        CheckpointError: the file cannot be read, is damaged, is not a checkpoint, or contains more than data.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            problem = find_unsafe_member(file, size)
            if not problem:
                file.seek(0)
                content = torch.load(file, map_location="cpu", weights_only=True)
                problem = find_unsafe_value(content, size)
    except Exception as error:  # a damaged file can fail anywhere
        if isinstance(error, OSError) and error.strerror:
            raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from error
        raise CheckpointError(f"{path}: the file is damaged, or it is not a checkpoint") from error
    if problem:
        raise CheckpointError(
            f"{path}: not a checkpoint of this project: it contains {problem}; nothing was executed"
        )
    return content


def find_unsafe_member(file: BinaryIO, size: int) -> str:
    """Check the file before it is loaded; return the unsafe part of its archive or its pickle, or "".

    Raises:
        zipfile.BadZipFile: the file is no zip archive, or the CRC of a member does not match.
    """
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            return "compressed members"
        if sum(member.file_size for member in members) > size:
            return "members larger than the file"
        if damaged := archive.testzip():
            raise zipfile.BadZipFile(f"the CRC of {damaged} does not match")
        (pickled,) = (member for member in members if member.filename.split("/")[1:] == ["data.pkl"])
        for opcode, argument, _ in pickletools.genops(archive.read(pickled)):
            if opcode.name in UNSAFE_OPCODES:
                return f"a pickle with {opcode.name}"
            if opcode.name == "GLOBAL" and argument not in SAFE_NAMES:
                return str(argument).replace(" ", ".")
    return ""


def find_unsafe_value(content: Any, size: int) -> str:
    """Return the first loaded value that is neither plain nor a tensor stored in a file of `size` bytes, or ""."""
    waiting, n_values, n_bytes, storages = [content], 0, 0, set()
    while waiting:
        value = waiting.pop()
        n_values += 1
        if n_values > MAX_VALUES:
            return f"more than {MAX_VALUES:,} values"
        if type(value) in (dict, OrderedDict):
            waiting += [*value, *value.values()]
        elif type(value) in (list, tuple):
            waiting += value
        elif type(value) is Tensor:
            if value.layout != torch.strided or value.device.type != "cpu" or value.is_quantized:
                return f"a tensor of {value.layout} on {value.device}"
            storage = value.untyped_storage()
            n_bytes += 0 if storage.data_ptr() in storages else storage.nbytes()
            storages.add(storage.data_ptr())
            if value.numel() * value.element_size() > storage.nbytes() or n_bytes > size:
                return "a tensor larger than the file"
        elif type(value) not in (str, int, float, bool, type(None)):
            return f"a {type(value).__name__}"
    return ""
