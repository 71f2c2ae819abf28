"""The models of a server by name, and the files of each model that is exported for it. Imports no torch."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forecast import __version__
from forecast.checkpoints.settings import check_exists, find_run
from forecast.system.errors import CheckpointError, ConfigError

FORMAT = 2
"""Version of the content of the files."""


def find_models(paths: Sequence[str]) -> dict[str, Path]:
    """Find the models at these paths: run folders, checkpoint files, or folders of run folders.

    A model has the name of its run folder.

    Raises:
        CheckpointError: there is no model at a path.
        ConfigError: no path is given, or two models have the same name.
    """
    if not paths:
        raise ConfigError("models=[]: name a run folder, as in forecast serve runs/MY_RUN")
    found: dict[str, Path] = {}
    for text in paths:
        path = find_run(text).absolute()  # a link keeps its name, and is followed again when it has moved
        check_exists(path)
        for name, place in list_models(path).items():
            if found.setdefault(name, place) != place:
                raise ConfigError(f"{found[name]} and {place} have the same name: rename one of the folders")
    return found


def list_models(path: Path) -> Mapping[str, Path]:
    """The models at a path by name. Raises CheckpointError if there is none."""
    if path.is_file():
        folder = path.parent.parent if path.parent.name == "checkpoints" else path
        return {folder.stem if folder == path else folder.name: path}
    if has_checkpoint(path):
        return {path.name: path}
    found = {run.name: run for run in sorted(path.iterdir()) if has_checkpoint(run)}
    if not found:
        raise CheckpointError(
            f"{path}: neither this folder nor a folder in it has checkpoints/best.ckpt: give a run folder"
        )
    return found


def has_checkpoint(folder: Path) -> bool:
    """Whether a folder is a run folder with a model."""
    return any((folder / "checkpoints" / f"{name}.ckpt").is_file() for name in ("refit", "best"))


def graph_file(checkpoint: Path) -> Path:
    """The file that ONNX Runtime runs."""
    return checkpoint.with_suffix(".onnx")


def facts_file(checkpoint: Path) -> Path:
    """The JSON file with what else an answer needs."""
    return checkpoint.with_suffix(".onnx.json")


def file_state(file: Path) -> dict[str, Any]:
    """A key that changes if the file or this program changes."""
    stat = file.stat()
    return {
        "size": stat.st_size,
        "modified": stat.st_mtime_ns,
        "forecast_version": __version__,
        "format": FORMAT,
    }


def read_facts(checkpoint: Path) -> Mapping[str, Any] | None:
    """The content of the JSON file; None if there is none of this state of the checkpoint and of the graph."""
    try:
        content = json.loads(facts_file(checkpoint).read_bytes())
        is_current = content["checkpoint"] == file_state(checkpoint)
        is_current &= bool(content["obstacle"]) or content["graph"] == file_state(graph_file(checkpoint))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return content if is_current else None
