"""Find the run that `resume=auto` goes on with: the newest unfinished one of the same configuration."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from forecast import processes
from forecast.configuration import composed
from forecast.errors import ConfigError
from forecast.overrides import quote_value

UNREADABLE = (OSError, ValueError, YAMLError, OmegaConfBaseException)
"""What reading another program's YAML may end in."""


class InUse(ConfigError):
    """Another process writes in a folder."""


NOT_COMPARED = ("resume", "logger", "hydra", "output_dir", "output_root", "run_group")


def in_place(config_name: str, arguments: list[str]) -> list[str]:
    """The overrides that make Hydra use the folder of the run to go on with, or of one that is finished; or none."""
    config = composed(*arguments, config_name=config_name)
    root = Path(config.output_root)
    folder = find_unfinished(root, config)
    if folder is None and (finished := find_finished(root, config)) is not None:
        return [f"hydra.run.dir={quote_value(str(finished))}"]
    if folder is None:
        print(
            f"resume=auto: no unfinished run of this configuration under {config.output_root}; starting a new one"
        )
        return []
    print(f"resume=auto: going on in {folder}")
    return [f"hydra.run.dir={quote_value(str(folder))}"]


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the folder for the run that writes in it; a process that dies, however, lets it go.

    Raises:
        InUse: another process holds it.
    """
    lock = FileLock(folder / "run.lock")
    try:
        lock.acquire(timeout=0.5)  # someone may only be asking
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


def find_unfinished(root: Path, config: DictConfig) -> Path | None:
    """The newest folder below `root` with a checkpoint and this configuration, its scores or its refit missing."""
    for folder in newest_first(root):
        if (
            (folder / "checkpoints" / "last.ckpt").exists()
            and not is_finished(folder, config)
            and is_same(folder, config)
            and not is_running(folder)
        ):
            return folder
    return None


def find_finished(root: Path, config: DictConfig) -> Path | None:
    """The newest folder below `root` of a finished run of this configuration."""
    found = (
        folder for folder in newest_first(root) if is_finished(folder, config) and is_same(folder, config)
    )
    return next(found, None)


def newest_first(root: Path) -> list[Path]:
    """The run folders below `root`."""
    configs = sorted(root.glob("*/config.yaml"), key=lambda path: path.stat().st_mtime, reverse=True)
    return [path.parent for path in configs]


def is_same(folder: Path, config: DictConfig) -> bool:
    """Whether the folder's run has this configuration; what cannot be read as a configuration of ours has another."""
    try:
        return digest(load(folder / "config.yaml")) == digest(config)
    except UNREADABLE:
        return False


def check_folder(folder: Path, config: DictConfig) -> None:
    """Raises ConfigError where the folder, one named by hand, holds a run of another configuration."""
    has_run = (folder / "metrics.json").exists() or (folder / "checkpoints" / "last.ckpt").exists()
    if processes.is_first() and has_run and not is_same(folder, config):
        raise ConfigError(
            f"{folder}: it holds a run of another configuration: give this one a folder of its own, or the settings "
            "in config.yaml"
        )


def is_finished(folder: Path, config: DictConfig) -> bool:
    """Whether the folder's run of this configuration has its scores, and its refit where one was asked for."""
    metrics = folder / "metrics.json"
    if config.get("refit") != "full" or not metrics.exists():
        return metrics.exists()
    is_written = "refit" in json.loads(metrics.read_text("utf-8"))
    return is_written and (folder / "checkpoints" / "refit.ckpt").exists()


def load(path: Path) -> DictConfig:
    """Raises ValueError for a file of something else than a run's settings, other errors for no YAML at all."""
    config = OmegaConf.load(path)
    if not isinstance(config, DictConfig) or "output_dir" not in config:
        raise ValueError(f"{path} holds no run's settings")
    return config


def digest(config: DictConfig) -> str:
    """A hash of what a run computes; where it is logged and kept does not count."""
    resolved = OmegaConf.to_container(config, resolve=True)
    assert isinstance(resolved, dict)
    compared = {key: value for key, value in resolved.items() if key not in NOT_COMPARED}
    within = json.dumps(f"{config.output_dir}/")[1:-1]  # callbacks' paths, as JSON writes them
    text = json.dumps(compared, sort_keys=True).replace(within, "/")
    return hashlib.sha256(text.encode()).hexdigest()
