"""The run that `resume=auto` resumes: the newest unfinished one of the same configuration. Imports no torch."""

import hashlib
import json
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from forecast.runs.folder import is_running, read_config
from forecast.system import distributed
from forecast.system.errors import ConfigError
from forecast.system.identity import OF_ONE_RUN, identity

UNREADABLE = (OSError, ValueError, YAMLError, OmegaConfBaseException)
"""Errors of reading a file of another program."""


def find_run(config: DictConfig) -> Path | None:
    """The folder of the run to resume, or of a finished one, below `output_root`; prints which.

    Args:
        config: The composed configuration, of a run that has no folder yet.
    """
    root, digest = Path(config.output_root), digest_of_new(config)
    folder = find_unfinished(root, config, digest)
    if folder is not None:
        print(f"resume=auto: going on in {folder}")
        return folder
    finished = find_finished(root, config, digest)
    if finished is None:
        print(f"resume=auto: no unfinished run of this configuration under {root}; starting a new one")
    return finished


def find_unfinished(root: Path, config: DictConfig, digest: str | None = None) -> Path | None:
    """The newest folder below `root` with a checkpoint and this configuration that lacks its scores or its refit."""
    for folder in newest_first(root):
        if (
            (folder / "checkpoints" / "last.ckpt").exists()
            and not is_finished(folder, config)
            and is_same(folder, digest or digest_of(config))
            and not is_running(folder)
        ):
            return folder
    return None


def find_finished(root: Path, config: DictConfig, digest: str | None = None) -> Path | None:
    """The newest folder below `root` of a finished run of this configuration."""
    found = (
        folder
        for folder in newest_first(root)
        if is_finished(folder, config) and is_same(folder, digest or digest_of(config))
    )
    return next(found, None)


def newest_first(root: Path) -> list[Path]:
    """The run folders below `root`."""
    configs = sorted(root.glob("*/config.yaml"), key=lambda path: path.stat().st_mtime, reverse=True)
    return [path.parent for path in configs]


def is_same(folder: Path, digest: str) -> bool:
    """Whether the folder's run has a configuration of this digest; a file of another program has not."""
    try:
        return digest_of(read_config(folder / "config.yaml")) == digest
    except UNREADABLE:
        return False


def check_folder(folder: Path, config: DictConfig) -> None:
    """Raises ConfigError where the folder, which the user named, holds a run of another configuration."""
    has_run = (folder / "metrics.json").exists() or (folder / "checkpoints" / "last.ckpt").exists()
    if distributed.is_first() and has_run and not is_same(folder, digest_of(config)):
        raise ConfigError(
            f"{folder}: it holds a run of another configuration: give this one a folder of its own, or the settings "
            "in config.yaml"
        )


def is_finished(folder: Path, config: DictConfig) -> bool:
    """Whether the folder's run has its scores, and its refit where the configuration asks for one."""
    metrics = folder / "metrics.json"
    if config.get("refit") != "full" or not metrics.exists():
        return metrics.exists()
    is_written = "refit" in json.loads(metrics.read_text("utf-8"))
    return is_written and (folder / "checkpoints" / "refit.ckpt").exists()


def score_if_finished(folder: Path, config: DictConfig) -> float | None:
    """The tested model's validation MSE if the folder's run is finished: a sweeper asks for it again."""
    if not is_finished(folder, config):
        return None
    return json.loads((folder / "metrics.json").read_text("utf-8")).get("validation_mse")


# ---- digests


def digest_of(config: DictConfig) -> str:
    """A hash of what a run computes. Where the run is logged and written does not count."""
    resolved = OmegaConf.to_container(config, resolve=True)
    compared = identity(resolved, OF_ONE_RUN)  # type: ignore[arg-type]
    within = json.dumps(f"{config.output_dir}/")[1:-1]  # paths inside the run's folder, as JSON writes them
    text = json.dumps(compared, sort_keys=True).replace(within, "/")
    return hashlib.sha256(text.encode()).hexdigest()


def digest_of_new(config: DictConfig) -> str:
    """The digest of a composed configuration, with Hydra's part, of a run that has no folder yet."""
    own = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
    OmegaConf.set_struct(own, False)
    own.output_dir = ""
    return digest_of(own)
