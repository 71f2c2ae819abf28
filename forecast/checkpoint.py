"""Checkpoints read as data: nothing in them is run."""

import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch

from forecast.errors import CheckpointError


def find_checkpoint(path: str | Path, prefer: str = "best") -> Path:
    """The checkpoint that `path` means: a file, or the `prefer`red one of a run folder ("best" or "last").

    Raises:
        CheckpointError: there is none.
    """
    path = Path(path).expanduser()
    if path.is_dir():
        candidate = path / "checkpoints" / f"{prefer}.ckpt"
        if not candidate.is_file():
            raise CheckpointError(
                f"{path}: this folder has no checkpoints/{prefer}.ckpt; give a run folder or a file"
            )
        return candidate
    if not path.is_file():
        raise CheckpointError(f"{path}: there is no such checkpoint file or run folder")
    return path


def load_checkpoint(path: Path) -> dict[str, Any]:
    """The checkpoint's content on the CPU: tensors and plain values only (`weights_only`).

    Raises:
        CheckpointError: truncated, not a checkpoint, holding code, or not written by this project.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, OSError, KeyError, zipfile.BadZipFile, pickle.UnpicklingError) as error:
        raise CheckpointError(
            f"{path}: cannot be read as a checkpoint; it is damaged or something else"
        ) from error
    if not isinstance(content, dict) or "forecast_version" not in content:
        raise CheckpointError(f"{path}: this checkpoint was not written by forecast.train")
    return content


def check_same_model(path: Path, content: dict[str, Any], config: dict[str, Any]) -> None:
    """Refuse to go on from a checkpoint whose model or data is another than the configured one.

    Raises:
        CheckpointError: naming the first setting that differs.
    """
    saved = content["hyper_parameters"]
    for group in ("model", "features", "seq_len", "label_len", "pred_len"):
        key, old, new = first_difference(group, saved.get(group), config.get(group))
        if key:
            raise CheckpointError(
                f"{path}: it was trained with {key}={old}, this run has {key}={new}; make them equal"
            )


def first_difference(key: str, old: Any, new: Any) -> tuple[str, Any, Any]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in {**old, **new}:
            found = first_difference(f"{key}.{name}", old.get(name), new.get(name))
            if found[0]:
                return found
        return "", None, None
    return (key, old, new) if old != new else ("", None, None)
