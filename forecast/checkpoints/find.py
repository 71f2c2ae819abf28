"""Search for the checkpoint file that a user names. Imports no torch."""

from pathlib import Path

from forecast.system.errors import CheckpointError
from forecast.system.paths import user_path

LATEST, RUNS = "latest", "runs"
"""The name of the newest run, and the folder in which it is looked for."""


def find_run(path: str | Path) -> Path:
    """Return `path`, or for `latest` the folder below `runs` whose test finished last.

    Raises:
        CheckpointError: there is no finished run for `latest`.
    """
    path = user_path(path)
    if str(path) != LATEST or path.exists():
        return path
    finished = [file for file in Path(RUNS).rglob("metrics.json") if (file.parent / "checkpoints").is_dir()]
    if not finished:
        raise CheckpointError(
            f"checkpoint={LATEST}: no finished run is below {RUNS}: give a run folder or a file"
        )
    return max(finished, key=lambda file: file.stat().st_mtime).parent


def find_checkpoint(path: str | Path, prefer: str = "best") -> Path:
    """Return `path` if it is a file; if it is a run folder, return its checkpoint `prefer` ("best" or "last").

    `latest` is the newest run folder (`find_run`).

    Raises:
        CheckpointError: there is no such file.
    """
    path = find_run(path)
    check_exists(path)
    if path.is_dir():
        candidate = path / "checkpoints" / f"{prefer}.ckpt"
        if not candidate.is_file():
            raise CheckpointError(
                f"{path}: this folder has no checkpoints/{prefer}.ckpt; give a run folder or a file"
            )
        return candidate
    return path


def find_trained(path: str | Path) -> Path:
    """Return the checkpoint that forecasts: that of the model refitted on all rows if a run folder has one, else best.

    Raises:
        CheckpointError: there is no such file.
    """
    found = find_run(path)
    refit = found / "checkpoints" / "refit.ckpt"
    return refit if refit.is_file() else find_checkpoint(found)


def check_exists(path: Path) -> None:
    """Raise CheckpointError unless `path` is a file or a folder."""
    if not (path.is_file() or path.is_dir()):
        raise CheckpointError(f"{path}: there is no such checkpoint file or run folder")
