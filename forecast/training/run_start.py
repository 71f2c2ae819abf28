"""The start of a run: new, resumed in its own folder, or continued from another run's checkpoint."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import lightning as L
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from forecast.checkpoints.compatibility import (
    check_data_equal,
    check_epochs_left,
    check_resumable,
    check_settings_equal,
    check_weights,
    has_same_validation,
)
from forecast.checkpoints.contents import data_settings, is_finished, run_seconds
from forecast.checkpoints.file import load_checkpoint, load_newest
from forecast.checkpoints.find import find_checkpoint
from forecast.cli.overrides import typed_overrides
from forecast.data import DataModule
from forecast.system import signals
from forecast.system.errors import ConfigError
from forecast.system.keys import SELECTS_DATA
from forecast.training.build import find_callback
from forecast.training.checkpointing import copy_best, preload_checkpoint
from forecast.training.lightning_data import LightningData
from forecast.training.rank_consistency import check_same_table
from forecast.training.throughput import Throughput


@dataclass
class RunStart:
    """The start of training: from scratch, or from a checkpoint.

    Attributes:
        mode: new, resumed (this run was interrupted) or continued (training of another run, in a new folder).
        checkpoint: the file that training restores; None for a new run.
        content: content of the checkpoint. `fit` releases it, because it is as large as model and optimizer.
    """

    mode: Literal["new", "resumed", "continued"]
    checkpoint: Path | None = None
    content: dict[str, Any] | None = None

    @property
    def seconds(self) -> float:
        """Seconds that the run took before it was interrupted."""
        return run_seconds(self.content) if self.mode == "resumed" and self.content is not None else 0.0

    def check(self, settings: dict[str, Any], data: DataModule, forecaster: L.LightningModule) -> None:
        """Check that training of `forecaster` with `settings` on `data` can start from the checkpoint.

        Raises:
            CheckpointError: the settings, the columns or the weights differ, or no epoch is left to continue with.
            DataError: the run was started with another table.
        """
        if self.checkpoint is None or self.content is None:
            return
        check_settings_equal(self.checkpoint, self.content, settings)
        check_data_equal(self.checkpoint, self.content, data.state_dict())
        check_weights(self.checkpoint, self.content, forecaster.state_dict())
        if self.mode == "resumed":
            check_same_table(self.checkpoint, self.content, data)
        else:
            check_epochs_left(
                self.checkpoint, self.content, settings["budget_epochs"] or settings["trainer"]["max_epochs"]
            )

    def copy_best_epoch(self, folder: Path, settings: dict[str, Any], data: DataModule) -> None:
        """Copy the best epoch of the continued run if both validate on the same windows; print the checkpoint."""
        if self.mode != "continued" or self.checkpoint is None or self.content is None:
            return
        note = ""
        if not has_same_validation(self.content, settings, data.state_dict()):
            note = "; its best epoch is not used, because its validation windows differ"
        elif not copy_best(self.checkpoint, folder):
            note = "; it has no best.ckpt beside it"
        print(f"continued  from {self.checkpoint}{note}")

    def fit(self, trainer: L.Trainer, forecaster: L.LightningModule, data: DataModule) -> None:
        """Train from the checkpoint to the last epoch; do not train a run that was interrupted after its last epoch."""
        content, self.content = self.content, None
        path = self.checkpoint
        if self.mode == "resumed" and content is not None and is_finished(content):
            trainer.fit_loop.load_state_dict(content["loops"]["fit_loop"])
            throughput = find_callback(trainer, Throughput)
            throughput.load_state_dict(content["callbacks"][throughput.state_key])
            return
        if path is not None and content is not None:
            preload_checkpoint(trainer, path, content)
            del content  # Lightning releases its copy once it is restored
        with signals.deferred():
            trainer.fit(forecaster, datamodule=LightningData(data), ckpt_path=path, weights_only=True)


def open_run(config: DictConfig) -> RunStart:
    """Decide how the run starts: from its folder's newest state (`resume=auto`), from `checkpoint`, or anew.

    Raises:
        ConfigError: no data in the command to continue on.
        CheckpointError: there is no readable checkpoint.
    """
    folder = Path(config.output_dir)
    newest = load_newest(folder) if config.resume == "auto" else None
    if newest is None and not config.checkpoint:
        return RunStart("new")
    if newest is not None:
        path, content = newest
    else:
        path = find_checkpoint(config.checkpoint, prefer="last")
        content = load_checkpoint(path)
    if path.parent.parent == folder:
        check_resumable(path, content)
        return RunStart("resumed", path, content)
    check_data_given(config, path, content)
    return RunStart("continued", path, content)


def check_data_given(config: DictConfig, checkpoint: Path, content: dict[str, Any]) -> None:
    """Raise ConfigError if the command names no data, and the checkpoint was trained on other data than the default."""
    if not HydraConfig.initialized():
        return
    given = typed_overrides().keys()
    data, name = data_settings(checkpoint, content), config.data.name
    if data["name"] != name and not given & SELECTS_DATA:
        path = f" ({data['path']})" if data.get("path") else ""
        raise ConfigError(
            f"{checkpoint}: it was trained on {data['name']}{path}, and this run would read {name}; repeat that run's "
            "settings (its overrides.yaml), including data="
        )
