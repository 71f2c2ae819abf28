"""A run's folder: its lock, the files of its configuration, and the search for the run that `resume=auto` resumes.

Imports no torch.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from forecast.system import distributed
from forecast.system.errors import ConfigError
from forecast.system.files import atomic_file
from forecast.system.keys import RUN_EFFECTS, identity, without_hydra

UNREADABLE = (OSError, ValueError, YAMLError, OmegaConfBaseException)
"""Errors that reading a file of another program can raise."""

RESULTS = ("metrics.json", "backtest.json", "benchmark.json")
"""Files with the results of a run, one for each command with run folders."""


class InUse(ConfigError):
    """Another process is writing in a folder."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock the folder for the run that writes in it. The lock is released when the process ends, even if it is killed.

    Raises InUse: another process holds the lock.
    """
    lock = FileLock(folder / "run.lock")
    try:
        lock.acquire(timeout=0.5)  # `is_running` of another process may hold it for a moment
    except Timeout:
        raise InUse(f"{folder}: a run is still writing in this folder; wait for it or stop it") from None
    try:
        yield
    finally:
        (folder / "run.lock").unlink(missing_ok=True)
        lock.release()


def is_running(folder: Path) -> bool:
    lock = folder / "run.lock"
    if not lock.exists():
        return False
    try:
        with FileLock(lock, timeout=0):
            return False
    except Timeout:
        return True


def result_file(folder: Path) -> Path | None:
    """Return the file with the results of a run; None if it has none yet."""
    return next((folder / name for name in RESULTS if (folder / name).exists()), None)


def write_config(folder: Path, config: DictConfig, overrides: Sequence[str]) -> None:
    with atomic_file(folder / "config.yaml") as temporary:
        OmegaConf.save(config, temporary)
    write_overrides(folder / "overrides.yaml", overrides)


def write_overrides(path: Path, overrides: Sequence[str]) -> None:
    with atomic_file(path) as temporary:
        OmegaConf.save(OmegaConf.create(list(overrides)), temporary)


def read_config(path: Path) -> DictConfig:
    """Read a run's configuration.

    Raises Exception: one of `UNREADABLE`, if the file does not hold a run's configuration.
    """
    config = OmegaConf.load(path)
    if not isinstance(config, DictConfig) or "output_dir" not in config:
        raise ValueError(f"{path}: the file does not hold the configuration of a run")
    return config


def read_overrides(path: Path) -> list[str]:
    """Read a list of overrides. Raises Exception: one of `UNREADABLE`, if the file does not hold a list."""
    overrides: Any = OmegaConf.to_container(OmegaConf.load(path))
    if not isinstance(overrides, list):
        raise ValueError(f"{path}: the file does not hold a list of overrides")
    return [str(override) for override in overrides]


# ---- resuming


def find_run_to_resume(config: DictConfig) -> Path | None:
    """Find the newest interrupted run of this configuration below `output_root`, or else a finished one.

    Prints which run is resumed, or that there is none. `BodyInRunFolder` names a finished one.
    """
    root = Path(config.output_root)
    interrupted, finished = find_runs(root, config, digest_of_new(config))
    if interrupted is not None:
        print(f"resume=auto: resuming the run in {interrupted}")
    elif finished is None:
        print(f"resume=auto: no unfinished run of this configuration under {root}; starting a new one")
    return interrupted or finished


def find_runs(root: Path, config: DictConfig, digest: str) -> tuple[Path | None, Path | None]:
    """Find the newest folder below `root` of an interrupted run with this digest, and that of a finished one.

    An interrupted run has a checkpoint, and no process works on it.
    """
    finished = None
    newest_first = sorted(root.glob("*/config.yaml"), key=lambda path: path.stat().st_mtime, reverse=True)
    for folder in (path.parent for path in newest_first):
        if not is_same(folder, digest):
            continue
        if is_finished(folder, config):
            finished = finished or folder
        elif (folder / "checkpoints" / "last.ckpt").exists() and not is_running(folder):
            return folder, None
    return None, finished


def is_same(folder: Path, digest: str) -> bool:
    """Whether the folder's run has a configuration with this digest; False if the file is not of this program."""
    try:
        return digest_of(read_config(folder / "config.yaml")) == digest
    except UNREADABLE:
        return False


def check_folder(folder: Path, config: DictConfig) -> None:
    """Raise ConfigError if the folder, which the user named, holds a run of another configuration."""
    has_run = (folder / "metrics.json").exists() or (folder / "checkpoints" / "last.ckpt").exists()
    if distributed.is_first() and has_run and not is_same(folder, digest_of(config)):
        raise ConfigError(
            f"{folder}: the folder holds a run of another configuration; choose another folder, or use the settings in "
            "its config.yaml"
        )


def is_finished(folder: Path, config: DictConfig) -> bool:
    """Whether the folder's run has its scores, and its refit if the configuration has refit=full.

    Raises ConfigError if its metrics.json cannot be read.
    """
    has_scores = (folder / "metrics.json").exists()
    if not has_scores or config.get("refit") != "full":
        return has_scores
    return "refit" in read_metrics(folder) and (folder / "checkpoints" / "refit.ckpt").exists()


def read_metrics(folder: Path) -> dict[str, Any]:
    """Read the results of a run. Raises ConfigError if the file cannot be read."""
    try:
        return json.loads((folder / "metrics.json").read_text("utf-8"))
    except UNREADABLE:
        raise ConfigError(
            f"{folder / 'metrics.json'}: cannot be read: remove the folder, or leave resume=auto out"
        ) from None


def score_if_finished(folder: Path, config: DictConfig) -> float | None:
    """Return the validation score of the tested model, which a sweeper needs, if the folder's run is finished.

    It is the quantile loss of a run with loss=quantile, otherwise the MSE.
    """
    if not is_finished(folder, config):
        return None
    metrics = read_metrics(folder)
    return metrics.get("validation_quantile_loss", metrics.get("validation_mse"))


# ---- digests


def digest_of(config: DictConfig) -> str:
    """Hash the settings of a run, without those that only say where it is logged and written."""
    resolved = OmegaConf.to_container(config, resolve=True)
    compared = identity(resolved, RUN_EFFECTS)  # type: ignore[arg-type]
    run_folder = json.dumps(f"{config.output_dir}/")[1:-1]  # as it stands in JSON, in paths inside the folder
    text = json.dumps(compared, sort_keys=True).replace(run_folder, "/")
    return hashlib.sha256(text.encode()).hexdigest()


def digest_of_new(config: DictConfig) -> str:
    """Return the digest of a composed configuration, Hydra's part included, of a run that has no folder yet."""
    own = without_hydra(config)
    own.output_dir = ""
    return digest_of(own)
