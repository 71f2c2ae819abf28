"""Find the run folders of the models that are served, by name. Imports no torch."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from forecast.checkpoints.find import check_exists, find_run
from forecast.system.errors import CheckpointError, ConfigError


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
