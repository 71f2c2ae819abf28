"""Malicious and damaged checkpoints: each runs code or exhausts memory when it is read without checks."""

import os
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

Content = dict[str, Any]


class Calls:
    """Is pickled as a call, which whoever reads the pickle makes."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call


def target(ran: Path) -> Content:
    """A part of a configuration from which Hydra would make the file `ran`, Python's own `copy` and not on any list."""
    return {"_target_": "shutil.copyfile", "src": __file__, "dst": str(ran)}


def calling(content: Content, path: Path, value: Any, protocol: int = 2) -> None:
    torch.save({**content, "calibration": value}, path, pickle_protocol=protocol)


def in_settings(*keys: str) -> Callable[[Content, Path, Path], None]:
    """A `_target_` in place of the setting at `keys`."""

    def make(content: Content, path: Path, ran: Path) -> None:
        below = content["hyper_parameters"]
        for key in keys[:-1]:
            below = below[key]
        below[keys[-1]] = target(ran)
        torch.save(content, path)

    return make


def nested(content: Content, path: Path, ran: Path) -> None:
    """Reads another file, which is a pickle that calls something."""
    inner = path.with_suffix(".inner")
    with inner.open("wb") as file:
        pickle.dump(Calls(os.system, f"touch {ran}"), file)
    calling(content, path, Calls(pd.read_pickle, str(inner)))


def plain_pickle(content: Content, path: Path, ran: Path) -> None:
    with path.open("wb") as file:
        pickle.dump({**content, "state_dict": Calls(os.system, f"touch {ran}")}, file)


def repacked(content: Content, path: Path, change: Callable[[str, bytes], bytes], pack: int) -> None:
    torch.save(content, path.with_suffix(".plain"))
    with zipfile.ZipFile(path.with_suffix(".plain")) as plain, zipfile.ZipFile(path, "w", pack) as archive:
        for name in plain.namelist():
            archive.writestr(name, change(name, plain.read(name)))


def packed_bomb(content: Content, path: Path, ran: Path) -> None:
    """64 MiB of zeros where 1 KiB of weights is expected, packed to 64 KiB."""
    first = torch.zeros(1 << 24)
    repacked({**content, "more": first}, path, lambda name, part: part, zipfile.ZIP_DEFLATED)


def tampered_storage(content: Content, path: Path, ran: Path) -> None:
    repacked(content, path, lambda name, part: part[:8] if "/data/" in name else part, zipfile.ZIP_STORED)


def huge_view(content: Content, path: Path, ran: Path) -> None:
    """One number, said to be a trillion."""
    torch.save({**content, "more": torch.zeros(1).expand(10**12)}, path)


def no_storage(content: Content, path: Path, ran: Path) -> None:
    """Weights without numbers, as large as anyone likes."""
    name, state = next(iter(content["state_dict"])), content["state_dict"]
    torch.save({**content, "state_dict": {**state, name: torch.empty(10**9, device="meta")}}, path)


def repeated(content: Content, path: Path, ran: Path) -> None:
    """Fifty lists, each holding the one before twice: 2^50 values to whoever looks at all of them."""
    lists: list[Any] = ["x"]
    for _ in range(50):
        lists = [lists, lists]
    content["hyper_parameters"]["levels"] = lists
    torch.save(content, path)


def deep(content: Content, path: Path, ran: Path) -> None:
    """Lists in lists, deeper than Python can go."""
    levels: list[Any] = []
    for _ in range(300):
        levels = [levels]
    content["hyper_parameters"]["model"]["dropout"] = levels
    torch.save(content, path)


def wide_model(content: Content, path: Path, ran: Path) -> None:
    """Settings that would allocate terabytes before any weight is looked at."""
    content["hyper_parameters"]["model"]["d_ff"] = 10**12
    torch.save(content, path)


CALLS: dict[str, Callable[[Content, Path, Path], object]] = {
    "os.system": lambda content, path, ran: calling(content, path, Calls(os.system, f"touch {ran}")),
    "getattr": lambda content, path, ran: calling(content, path, Calls(getattr, Calls(Path, str(ran)), "touch")),
    "pandas.read_pickle": nested,
    "by a name on the stack": lambda content, path, ran: calling(
        content, path, Calls(os.system, f"touch {ran}"), protocol=4
    ),
    "no archive": plain_pickle,
}
"""Would run something where pickles are loaded."""

TARGETS: dict[str, Callable[[Content, Path, Path], object]] = {
    "model": in_settings("model"),
    "attention": in_settings("model", "attention", "encoder"),
    "dropout": in_settings("model", "dropout"),
    "data": in_settings("data"),
    "data.fill": in_settings("data", "scaler"),
}
"""Would run something where every `_target_` is made."""

OTHERS: dict[str, Callable[[Content, Path, Path], object]] = {
    "numpy": lambda content, path, ran: calling(content, path, np.float64(1)),
    "a sparse tensor": lambda content, path, ran: calling(content, path, torch.eye(2).to_sparse()),
    "packed": packed_bomb,
    "cut short": tampered_storage,
    "a view": huge_view,
    "no storage": no_storage,
    "repeated": repeated,
    "deep": deep,
    "wide": wide_model,
    "text": lambda content, path, ran: path.write_bytes(b"no checkpoint"),
    "empty": lambda content, path, ran: path.write_bytes(b""),
    "no settings": lambda content, path, ran: torch.save({"forecast_version": "1"}, path),
    "other settings": lambda content, path, ran: torch.save({**content, "hyper_parameters": [1]}, path),
    "other weights": lambda content, path, ran: torch.save({**content, "state_dict": OrderedDict()}, path),
}
"""Must be refused in a line too."""

ALL = {**CALLS, **{f"{name} as a target": make for name, make in TARGETS.items()}, **OTHERS}
