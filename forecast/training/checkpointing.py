"""Checkpoints of training, and the start of a run: new, resumed in its own folder, or continued from another run."""

import math
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import lightning as L
from hydra.core.hydra_config import HydraConfig
from lightning.fabric.plugins import CheckpointIO
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.strategies import ModelParallelStrategy
from lightning.pytorch.trainer.states import TrainerFn
from omegaconf import DictConfig
from torch import Tensor

from forecast.checkpoints.compatibility import (
    check_data_equal,
    check_epochs_left,
    check_resumable,
    check_settings_equal,
    check_weights,
    has_same_validation,
)
from forecast.checkpoints.contents import data_settings, is_finished, run_seconds
from forecast.checkpoints.file import load_checkpoint, load_newest, save_checkpoint
from forecast.checkpoints.settings import find_checkpoint
from forecast.cli.overrides import typed_overrides
from forecast.data import DataModule
from forecast.system import signals
from forecast.system.errors import CheckpointError, ConfigError
from forecast.system.files import atomic_file
from forecast.system.keys import SELECTS_DATA
from forecast.training.callbacks import Throughput, find_callback
from forecast.training.losses import losses_by_date, set_shrinkage, shrinkage_and_error
from forecast.training.module import LightningData
from forecast.training.processes import check_same_table

STEPS_BETWEEN_VOTES = 10
"""Steps between two votes of several processes on saving; each vote costs one message."""


class CheckpointFiles(CheckpointIO):
    """Lightning's checkpoint files, written whole and loaded safely.

    Attributes:
        contents: content, by path, that the next load returns without reading the file.
        added: entries that are added to every checkpoint.
    """

    def __init__(self) -> None:
        self.contents: dict[Path, dict[str, Any]] = {}
        self.added: dict[str, Any] = {}

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        save_checkpoint({**checkpoint, **self.added}, Path(path))

    def load_checkpoint(self, path: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        content = self.contents.pop(Path(path), None)
        return load_checkpoint(Path(path)) if content is None else content

    def remove_checkpoint(self, path: Any) -> None:
        Path(path).unlink(missing_ok=True)


def preload_checkpoint(trainer: L.Trainer, path: Path, content: dict[str, Any]) -> None:
    """Let the trainer restore `content`, which was read from `path`, without reading the file again.

    With FSDP this does nothing: Lightning maps the file itself, so that each process reads only its shard.
    """
    files = trainer.strategy.checkpoint_io
    if isinstance(files, CheckpointFiles) and not isinstance(trainer.strategy, ModelParallelStrategy):
        files.contents[path] = {**content}  # Lightning may add keys


def save_weights(trainer: L.Trainer, path: Path, **added: Any) -> None:
    """Save a checkpoint without optimizer state, with the entries `added`."""
    files = trainer.strategy.checkpoint_io
    assert isinstance(files, CheckpointFiles)
    files.added = added
    trainer.save_checkpoint(path, weights_only=True)


class Checkpointing(Checkpoint):
    """Save `<name>.ckpt`, the newest state, `<name>-1.ckpt`, the one before it, and `best.ckpt`.

    A state is saved after each epoch, within an epoch every `every_minutes` (0: after every step), and when a signal
    stops the run, which then exits with status 75. Training resumes from each state bit for bit.

    The best epoch has the lowest validation MSE, or with `loss=quantile` the lowest quantile loss. A model with a warm
    start is validated before its first step too, and stays the best until an epoch improves on it. `best.ckpt` of such
    an epoch holds the shrinkage weight that the validation windows support, and the epoch's score is the upper bound of
    the error with that weight (`training.losses`). With quantiles it is an estimate, because only the median is
    shrunk.

    Args:
        dirpath: folder of the checkpoints.
        name: name of the newest state.
        keep_best: False writes no `best.ckpt`.
        every_minutes: time between two states within an epoch.
    """

    def __init__(
        self,
        dirpath: str,
        *,
        name: str = "last",
        keep_best: bool = True,
        every_minutes: int | float = 10,
    ) -> None:
        self.folder, self.name, self.keep_best = Path(dirpath), name, keep_best
        self.every_seconds = 60 * every_minutes
        self.best_score = math.inf
        self.metric = "val/mse"  # what `best_score` is
        self.untrained_losses: Tensor | None = None  # validation losses by date of the warm start
        self._shrinkage = 1.0  # shrinkage weight of the epoch last validated
        self._is_best = self._is_finished = self._is_between_epochs = False

    def state_dict(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "best_score": self.best_score,
            "untrained_losses": self.untrained_losses,
            "is_finished": self._is_finished,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if (self.folder / "best.ckpt").exists():  # not in the folder of a new run
            self.best_score, losses = state_dict["best_score"], state_dict["untrained_losses"]
            # a run that was begun by an older version has one loss
            self.untrained_losses = losses[:, None] if losses is not None and losses.ndim == 1 else losses
            self.metric = state_dict.get("metric", self.metric)

    def on_save_checkpoint(
        self, trainer: L.Trainer, module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        if self._is_between_epochs or self._is_finished:
            checkpoint["epoch"] -= 1  # the last one trained; Lightning counts the next one already
        if self._is_between_epochs:
            for counts in checkpoint["loops"]["fit_loop"]["epoch_progress"].values():
                counts["ready"] = counts["completed"]

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        metric = cast(str, module.validation_metric)
        if self.metric != metric and math.isfinite(self.best_score) and not self._is_best:
            raise CheckpointError(
                f"an older version began this run and selected its epochs by {self.metric}, now {metric}: train again"
            )
        self.metric = metric
        set_shrinkage(module, 1.0)  # a restored state may be the best epoch's, with its own shrinkage weight
        self._saved_at, self._first_epoch = time.monotonic(), trainer.current_epoch
        if trainer.is_global_zero and self.folder.exists():
            for temporary in self.folder.glob(".*.ckpt"):  # of a process that was killed while it wrote
                temporary.unlink()
        if self._is_best:  # the warm start, before the first step
            self._save(trainer)

    def on_train_batch_end(
        self, trainer: L.Trainer, module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        n_batches = batch_idx + 1
        if n_batches == trainer.num_training_batches or n_batches % trainer.accumulate_grad_batches:
            return  # the epoch's end saves; accumulated gradients are not part of a checkpoint
        if self._vote(trainer, signals.received() or self._is_due(), n_batches):
            if self._vote(trainer, not math.isfinite(float(outputs["loss"])), STEPS_BETWEEN_VOTES):
                return  # no state to resume from; StopOnNonFiniteLoss reports it
            self._save(trainer)
            if self._vote(trainer, signals.received(), STEPS_BETWEEN_VOTES):
                signals.exit_to_resume(f" after step {trainer.global_step:,}, whose state is saved")

    def on_validation_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        if self.keep_best and trainer.state.fn == TrainerFn.FITTING:
            score = trainer.callback_metrics[cast(str, module.validation_metric)].item()
            data = cast(DataModule, module.data)
            if trainer.sanity_checking:
                self.untrained_losses = losses_by_date(module, data)
            elif self.untrained_losses is not None:
                losses, overlap = losses_by_date(module, data), data.windows["val"].overlap
                self._shrinkage, score = shrinkage_and_error(losses, self.untrained_losses, overlap)
            score = math.inf if math.isnan(score) else score  # float16 can overflow
            self._is_best = score < self.best_score or not (self.folder / "best.ckpt").exists()
            self.best_score = min(score, self.best_score)

    def on_train_epoch_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        if trainer.current_epoch > self._first_epoch:
            # not at the end of the epoch before: only now its schedule has advanced and its scores are logged
            self._is_between_epochs = True
            self._save(trainer)
            self._is_between_epochs = False
            if self._vote(trainer, signals.received(), STEPS_BETWEEN_VOTES):
                signals.exit_to_resume(f" after epoch {trainer.current_epoch}, whose state is saved")

    def on_train_epoch_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        # otherwise Lightning does not give the score of a resumed epoch to schedule=plateau
        trainer.fit_loop.restarting = False

    def on_train_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        self._is_finished = True
        self._save(trainer)

    def _is_due(self) -> bool:
        return time.monotonic() - self._saved_at >= self.every_seconds

    def _vote(self, trainer: L.Trainer, yes: bool, step: int) -> bool:
        """Whether any process votes yes; several processes vote only at every `STEPS_BETWEEN_VOTES`-th step."""
        if trainer.world_size == 1:
            return yes
        return step % STEPS_BETWEEN_VOTES == 0 and trainer.strategy.reduce_boolean_decision(yes, all=False)

    def _save(self, trainer: L.Trainer) -> None:
        for logger in trainer.loggers:
            # the logs hold every step of a checkpoint; `save` of the loggers with `save_rows` is called after each row
            getattr(logger, "save_rows", logger.save)()
        new = self.folder / f"{self.name}-new.ckpt"
        if self._is_best:
            set_shrinkage(trainer.lightning_module, self._shrinkage)
        trainer.save_checkpoint(new)
        set_shrinkage(trainer.lightning_module, 1.0)
        if trainer.is_global_zero:
            self._rename(new)
        trainer.strategy.barrier()  # no process looks for a file before it has its name
        self._saved_at, self._is_best = time.monotonic(), False

    def _rename(self, new: Path) -> None:
        """Rename the new file. At every moment, `<name>.ckpt` is a whole state, and `best.ckpt` is at least as new."""
        if self._is_best:
            link(new, self.folder / "best.ckpt")
        last = self.folder / f"{self.name}.ckpt"
        if last.exists():
            link(last, self.folder / f"{self.name}-1.ckpt")
        os.replace(new, last)


def copy_best(checkpoint: Path, folder: Path) -> bool:
    """Copy `best.ckpt` beside the checkpoint into a new run's folder; return whether there is one."""
    best = checkpoint.with_name("best.ckpt")
    if not best.exists():
        return False
    with atomic_file(folder / "checkpoints" / "best.ckpt") as temporary:
        shutil.copyfile(best, temporary)
    return True


def link(path: Path, name: Path) -> None:
    """Give the file a second name, replacing a file of that name; copy it where the file system has no links."""
    temporary = name.with_name(f".{name.name}")
    temporary.unlink(missing_ok=True)
    try:
        os.link(path, temporary)
    except OSError:
        shutil.copyfile(path, temporary)
    os.replace(temporary, name)


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
