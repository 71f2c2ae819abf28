"""The search for the run that `resume=auto` resumes: the newest interrupted run of the same configuration.

Imports no torch.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from forecast.runs.folder import UNREADABLE, is_running, read_config
from forecast.system import distributed
from forecast.system.errors import ConfigError
from forecast.system.identity import RUN_EFFECTS, identity, without_hydra


def find_run_to_resume(config: DictConfig) -> Path | None:
    """Find the newest interrupted run of this configuration below `output_root`, or else a finished one.

    Prints which run is resumed, or that there is none. `BodyInRunFolder` names a finished one.

    Args:
        config: composed configuration of a run that has no folder yet.
    """
    root, digest = Path(config.output_root), digest_of_new(config)
    folder = find_unfinished(root, config, digest)
    if folder is not None:
        print(f"resume=auto: resuming the run in {folder}")
        return folder
    finished = find_finished(root, config, digest)
    if finished is None:
        print(f"resume=auto: no unfinished run of this configuration under {root}; starting a new one")
    return finished


def find_unfinished(root: Path, config: DictConfig, digest: str) -> Path | None:
    """Find the newest folder below `root` of an interrupted run with this digest that has a checkpoint."""
    for folder in newest_first(root):
        if (
            (folder / "checkpoints" / "last.ckpt").exists()
            and is_same(folder, digest)
            and not is_finished(folder, config)
            and not is_running(folder)
        ):
            return folder
    return None


def find_finished(root: Path, config: DictConfig, digest: str) -> Path | None:
    """Find the newest folder below `root` of a finished run with this digest."""
    folders = newest_first(root)
    return next((f for f in folders if is_same(f, digest) and is_finished(f, config)), None)


def newest_first(root: Path) -> list[Path]:
    """List the run folders below `root`, the newest first."""
    configs = sorted(root.glob("*/config.yaml"), key=lambda path: path.stat().st_mtime, reverse=True)
    return [path.parent for path in configs]


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
    if not (folder / "metrics.json").exists() or config.get("refit") != "full":
        return (folder / "metrics.json").exists()
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
