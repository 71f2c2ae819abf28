"""A run's folder: its lock, and the files that hold its configuration. Imports no torch."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from forecast.system.errors import ConfigError
from forecast.system.files import atomic_file

UNREADABLE = (OSError, ValueError, YAMLError, OmegaConfBaseException)
"""Errors that reading a file of another program can raise."""


RESULTS = ("metrics.json", "backtest.json", "benchmark.json")
"""Files with the results of a run, one for each command with run folders."""


class InUse(ConfigError):
    """Another process is writing in a folder."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock the folder for the run that writes in it. The lock is released when the process ends, even if it is killed.

    Raises:
        InUse: another process holds the lock.
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
    """Whether a process holds the folder's lock."""
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
    """Write a run's configuration as `config.yaml` and its overrides as `overrides.yaml`."""
    with atomic_file(folder / "config.yaml") as temporary:
        OmegaConf.save(config, temporary)
    write_overrides(folder / "overrides.yaml", overrides)


def write_overrides(path: Path, overrides: Sequence[str]) -> None:
    """Write overrides as a YAML list."""
    with atomic_file(path) as temporary:
        OmegaConf.save(OmegaConf.create(list(overrides)), temporary)


def read_config(path: Path) -> DictConfig:
    """Read a run's configuration.

    Raises:
        Exception: one of `UNREADABLE`, if the file does not hold a run's configuration.
    """
    config = OmegaConf.load(path)
    if not isinstance(config, DictConfig) or "output_dir" not in config:
        raise ValueError(f"{path}: the file does not hold the configuration of a run")
    return config


def read_overrides(path: Path) -> list[str]:
    """Read a list of overrides.

    Raises:
        Exception: one of `UNREADABLE`, if the file does not hold a list.
    """
    overrides: Any = OmegaConf.to_container(OmegaConf.load(path))
    if not isinstance(overrides, list):
        raise ValueError(f"{path}: the file does not hold a list of overrides")
    return [str(override) for override in overrides]
