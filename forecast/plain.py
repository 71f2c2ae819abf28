"""Read a checkpoint file as data: tensors and plain values, and nothing that is called, unpacked or repeated.

`torch.load(weights_only=True)` runs no code of the file's choosing; what it may make is still more than a checkpoint
of ours holds. So the pickle is looked at first, against the names in `SAFE`, and what comes out is looked at again.
"""

import pickletools
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from forecast.errors import CheckpointError

TYPES = ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool")
SAFE = {
    "collections OrderedDict",
    "torch._utils _rebuild_tensor_v2",
    *(f"torch {name}Storage" for name in TYPES),
}
"""What the pickle of a checkpoint may name."""

UNSAFE_CODES = {"STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4"}
"""Operations by which a pickle would name or make anything else."""

MOST_VALUES = 1_000_000


def read_plain(path: Path) -> Any:
    """The file's content on the CPU.

    Raises:
        CheckpointError: damaged, something else, or holding more than data; nothing was run.
    """
    try:
        found = check_archive(path)
        if not found:
            content = torch.load(path, map_location="cpu", weights_only=True)
            found = check_values(content, path.stat().st_size)
    except Exception as error:  # a damaged file can fail anywhere
        if isinstance(error, OSError) and error.strerror:
            raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from error
        raise CheckpointError(
            f"{path}: cannot be read as a checkpoint; it is damaged or something else"
        ) from error
    if found:
        raise CheckpointError(
            f"{path}: cannot be read as a checkpoint: it holds {found}, which none of ours does; nothing was run"
        )
    return content


def check_archive(path: Path) -> str:
    """What is wrong with the file before anything of it is loaded, or nothing: names in its pickle, packed parts."""
    with zipfile.ZipFile(path) as archive:
        parts = archive.infolist()
        if any(part.compress_type != zipfile.ZIP_STORED for part in parts):
            return "packed parts"
        if sum(part.file_size for part in parts) > path.stat().st_size:
            return "parts that are larger than the file"
        (pickled,) = (part for part in parts if part.filename.split("/")[1:] == ["data.pkl"])
        for code, argument, _ in pickletools.genops(archive.read(pickled)):
            if code.name in UNSAFE_CODES:
                return f"a pickle with {code.name}"
            if code.name == "GLOBAL" and argument not in SAFE:
                return str(argument).replace(" ", ".")
    return ""


def check_values(content: Any, size: int) -> str:
    """What of the content is no plain value, or nothing. `size` is the file's: no content can be larger."""
    waiting, seen, held, storages = [content], 0, 0, set()
    while waiting:
        value = waiting.pop()
        seen += 1
        if seen > MOST_VALUES:
            return "values that repeat themselves"
        if type(value) in (dict, OrderedDict):
            waiting += [*value, *value.values()]
        elif type(value) in (list, tuple):
            waiting += value
        elif type(value) is Tensor:
            if value.layout != torch.strided or value.device.type != "cpu" or value.is_quantized:
                return f"a tensor of {value.layout} on {value.device}"
            storage = value.untyped_storage()
            held += 0 if storage.data_ptr() in storages else storage.nbytes()
            storages.add(storage.data_ptr())
            if value.numel() * value.element_size() > storage.nbytes() or held > size:
                return "a tensor larger than the file"
        elif type(value) not in (str, int, float, bool, type(None)):
            return f"a {type(value).__name__}"
    return ""


def is_equal(one: Any, other: Any) -> bool:
    """Of nested values with tensors among them."""
    if isinstance(one, Tensor):
        return isinstance(other, Tensor) and torch.equal(one, other)
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(is_equal(one[k], other[k]) for k in one)
        )
    return one == other
