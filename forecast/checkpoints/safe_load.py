"""Safe loading of checkpoint files: only tensors and plain values, without executing anything.

`torch.load(weights_only=True)` executes no code from the file, but it allows more than this project's checkpoints
contain, and it does not verify checksums. Therefore a file is read twice, the second time from the system's cache. The
first pass checks the CRC of every member of the zip archive and the names in the pickle. The second pass loads the
file. Then the loaded values are checked: a file may expand to far more values or bytes than it holds.
"""

import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from forecast.checkpoints.archive import find_unsafe_member, find_unsafe_value, load_checked


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
