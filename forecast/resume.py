"""Find the run that `resume=auto` goes on with: the newest unfinished one of the same configuration."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from omegaconf import DictConfig, OmegaConf

from forecast.configuration import composed
from forecast.errors import ConfigError

NOT_COMPARED = ("resume", "logger", "hydra", "output_dir", "output_root", "run_group")


def in_place(config_name: str, arguments: list[str]) -> list[str]:
    """The overrides that make Hydra use the folder of the run to go on with; none where there is no such run."""
    config = composed(*arguments, config_name=config_name)
    folder = find_unfinished(Path(config.output_root), config)
    if folder is None:
        print(
            f"resume=auto: no unfinished run of this configuration under {config.output_root}; starting a new one"
        )
        return []
    print(f"resume=auto: going on in {folder}")
    return [f"hydra.run.dir='{folder}'"]


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the folder for the run that writes in it; a process that dies, however, lets it go.

    Raises:
        ConfigError: another process holds it.
    """
    lock = FileLock(folder / "run.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise ConfigError(
            f"{folder}: a run is still writing in this folder; wait for it or stop it"
        ) from None
    try:
        yield
    finally:
        (folder / "run.lock").unlink(missing_ok=True)
        lock.release()


def is_running(folder: Path) -> bool:
    try:
        with held(folder):
            return False
    except ConfigError:
        return True


def find_unfinished(root: Path, config: DictConfig) -> Path | None:
    """The newest folder below `root` with a checkpoint, the same configuration, and no final metrics."""
    wanted = digest(config)
    for path in sorted(root.glob("*/config.yaml"), key=lambda p: p.stat().st_mtime, reverse=True):
        folder = path.parent
        unfinished = (folder / "checkpoints" / "last.ckpt").exists() and not (
            folder / "metrics.json"
        ).exists()
        if unfinished and digest(load(path)) == wanted and not is_running(folder):
            return folder
    return None


def load(path: Path) -> DictConfig:
    config = OmegaConf.load(path)
    assert isinstance(config, DictConfig)
    return config


def digest(config: DictConfig) -> str:
    """A hash of what a run computes; where it is logged and kept does not count."""
    resolved = OmegaConf.to_container(config, resolve=True)
    assert isinstance(resolved, dict)
    compared = {key: value for key, value in resolved.items() if key not in NOT_COMPARED}
    text = json.dumps(compared, sort_keys=True).replace(f"{config.output_dir}/", "/")  # callbacks' paths
    return hashlib.sha256(text.encode()).hexdigest()
