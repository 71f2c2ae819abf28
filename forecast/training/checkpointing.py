"""Checkpoints of training, and the start of a run: new, resumed in its own folder, or continued from another run."""

import math
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import lightning as L
import torch
from jaxtyping import Float64
from lightning.fabric.plugins import CheckpointIO
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.trainer.states import TrainerFn
from omegaconf import DictConfig
from torch import Tensor

from forecast.checkpoints import contents
from forecast.checkpoints.file import load_checkpoint, load_newest, save_checkpoint
from forecast.data import DataModule
from forecast.data.panel import describe_content
from forecast.evaluation.significance import choose_observations, diebold_mariano, sum_losses
from forecast.models import ForecastModel
from forecast.system import signals
from forecast.system.errors import CheckpointError, DataError
from forecast.system.files import atomic_file
from forecast.training.loggers import ServiceLogger
from forecast.training.module import LightningData

MARGIN = 0.01
"""Relative improvement over the untrained model that an epoch needs; a smaller one is attributed to chance."""

STEPS_BETWEEN_VOTES = 10  # steps between two votes of several processes on saving; each vote costs one message

Losses = Float64[Tensor, "observations losses"]  # see `module.window_losses`


class CheckpointFiles(CheckpointIO):
    """Lightning's checkpoint files, written whole and loaded safely."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        save_checkpoint(checkpoint, Path(path))

    def load_checkpoint(self, path: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return load_checkpoint(Path(path))

    def remove_checkpoint(self, path: Any) -> None:
        Path(path).unlink(missing_ok=True)


class Checkpointing(Checkpoint):
    """Save `<name>.ckpt`, the newest state, `<name>-1.ckpt`, the one before it, and `best.ckpt`.

    A state is saved after each epoch, within an epoch every `every_minutes` (0: after every step), and when a signal
    stops the run, which then exits with status 75. Training resumes from each state bit for bit.

    The best epoch has the lowest validation MSE, or with `loss=quantile` the lowest quantile loss. A model with a warm
    start is validated before its first step too, and stays the best until an epoch improves on it. `best.ckpt` of such
    an epoch holds the shrinkage weight that the validation windows support, and the epoch's score is the upper bound of
    the error with that weight (`shrinkage_and_error`). With quantiles it is an estimate, because only the median is
    shrunk.

    Args:
        keep_best: False writes no `best.ckpt`.
        every_minutes: time between two states within an epoch.
    """

    def __init__(
        self, dirpath: str, *, name: str = "last", keep_best: bool = True, every_minutes: int | float = 10
    ) -> None:
        self.folder, self.name, self.keep_best = Path(dirpath), name, keep_best
        self.every_seconds = 60 * every_minutes
        self.best_score = math.inf
        self.untrained_losses: Tensor | None = None  # validation losses by observation of the warm start
        self._shrinkage = 1.0  # shrinkage weight of the epoch last validated
        self._is_best = self._is_finished = self._is_between_epochs = False

    def state_dict(self) -> dict[str, Any]:
        return {
            "best_score": self.best_score,
            "untrained_losses": self.untrained_losses,
            "is_finished": self._is_finished,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if (self.folder / "best.ckpt").exists():  # not in the folder of a new run
            self.best_score, self.untrained_losses = state_dict["best_score"], state_dict["untrained_losses"]

    def on_save_checkpoint(self, trainer: L.Trainer, module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        if self._is_between_epochs or self._is_finished:
            checkpoint["epoch"] -= 1  # the last one trained; Lightning counts the next one already
        if self._is_between_epochs:
            for counts in checkpoint["loops"]["fit_loop"]["epoch_progress"].values():
                counts["ready"] = counts["completed"]

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
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
        is_due = time.monotonic() - self._saved_at >= self.every_seconds
        if self._vote(trainer, signals.received() or is_due, n_batches):
            if self._vote(trainer, not math.isfinite(float(outputs["loss"]))):
                return  # no state to resume from; StopOnNonFiniteLoss reports it
            self._save(trainer)
            if self._vote(trainer, signals.received()):
                signals.exit_to_resume(f" after step {trainer.global_step:,}, whose state is saved")

    def on_validation_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        if self.keep_best and trainer.state.fn == TrainerFn.FITTING:
            score = trainer.callback_metrics[cast(str, module.validation_metric)].item()
            data = cast(DataModule, module.data)
            if trainer.sanity_checking:
                self.untrained_losses, _ = sum_validation_losses(module, data)
            elif self.untrained_losses is not None:
                losses, overlap = sum_validation_losses(module, data)
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
            if self._vote(trainer, signals.received()):
                signals.exit_to_resume(f" after epoch {trainer.current_epoch}, whose state is saved")

    def on_train_epoch_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        # otherwise Lightning does not give the score of a resumed epoch to schedule=plateau
        trainer.fit_loop.restarting = False

    def on_train_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        self._is_finished = True
        self._save(trainer)

    def _vote(self, trainer: L.Trainer, yes: bool, step: int = 0) -> bool:
        """Whether any process votes yes; several processes vote only at every `STEPS_BETWEEN_VOTES`-th step."""
        if trainer.world_size == 1:
            return yes
        return step % STEPS_BETWEEN_VOTES == 0 and trainer.strategy.reduce_boolean_decision(yes, all=False)

    def _save(self, trainer: L.Trainer) -> None:
        for logger in trainer.loggers:
            if isinstance(logger, ServiceLogger):
                logger.save_rows()  # the logs hold every step of a checkpoint
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


def link(path: Path, name: Path) -> None:
    """Give the file a second name, replacing a file of that name; copy it where the file system has no links."""
    temporary = name.with_name(f".{name.name}")
    temporary.unlink(missing_ok=True)
    try:
        os.link(path, temporary)
    except OSError:
        shutil.copyfile(path, temporary)
    os.replace(temporary, name)


# ---- the best epoch


def shrinkage_and_error(
    losses: Losses, untrained: Float64[Tensor, "others losses"], overlap: int
) -> tuple[float, float]:
    """Compute the shrinkage weight of an epoch, and an upper bound of the mean loss with that weight.

    The weight is 1 − p, p the p-value of the Diebold-Mariano test of the two models for windows that overlap. It is at
    least ½, because the mean of two forecasts of equal accuracy is more accurate than either (Bates and Granger 1969,
    The Combination of Forecasts); it is ½ where the test cannot be computed, and where the epoch has the larger loss.
    Squared errors are convex, so the mean loss of the combination is at most the weighted mean of the two losses. The
    bound is infinite where the epoch does not improve on `untrained` by `MARGIN`.

    With quantiles, the weight comes from the losses of the median, which alone is shrunk, and the bound, then an
    estimate, from those of all quantiles.

    Args:
        losses: losses of the epoch, from `sum_validation_losses`: the first one for the weight, the last one for the
            bound.
        untrained: losses of the model before training. With another number of observations there is no test.
        overlap: number of observations after which two have no step in common.
    """
    weight, point, untrained_point = 0.5, losses[:, 0], untrained[:, 0]
    if len(losses) == len(untrained) and point.mean() < untrained_point.mean():
        p_value = diebold_mariano(point.numpy(), untrained_point.numpy(), overlap).p_value
        weight = weight if math.isnan(p_value) else max(weight, 1 - p_value)
    before, after = float(untrained[:, -1].mean()), float(losses[:, -1].mean())
    is_better = after < (1 - MARGIN) * before
    return weight, before - weight * (before - after) if is_better else math.inf


def sum_validation_losses(module: L.LightningModule, data: DataModule) -> tuple[Losses, int]:
    """Sum the validation losses of the last epoch by observation, see `choose_observations`; their mean is the loss."""
    losses, windows = cast(Tensor, module.validation_losses), data.windows["val"]
    observations, overlap = choose_observations(*windows.locate(data.panel), windows.overlap)
    sums = [torch.from_numpy(sum_losses(each.numpy(), observations)) for each in losses.unbind(1)]
    return torch.stack(sums, dim=1), overlap


def set_shrinkage(module: L.LightningModule, weight: float) -> None:
    model = cast(ForecastModel, module.model)
    if model.shrinkage is not None:
        model.shrinkage.fill_(weight)


def describe_untrained(name: str | None) -> str:
    """Say that the tested model is the one before training, and why; `name` is its `warm_start_name`."""
    return f"tested: the {name} without a correction, because no epoch was {MARGIN:.0%} better on validation windows"


# ---- the start of a run


@dataclass
class RunStart:
    """The start of training: from scratch, or from a checkpoint.

    Attributes:
        mode: new, resumed (this run was interrupted) or continued (training of another run, in a new folder).
        content: content of the checkpoint; {} for a new run. `fit` releases it, because it is as large as model and
            optimizer.
    """

    mode: Literal["new", "resumed", "continued"]
    checkpoint: Path | None  # the file that training restores; None for a new run
    content: dict[str, Any]

    @property
    def run_time(self) -> dict[str, float] | None:
        """State of the callback `RunTime` when the run was interrupted; None if it was not."""
        return self.content["callbacks"]["RunTime"] if self.mode == "resumed" else None

    def check(self, settings: dict[str, Any], data: DataModule, forecaster: L.LightningModule) -> None:
        """Check that training of `forecaster` with `settings` on `data` can start from the checkpoint.

        Raises:
            CheckpointError: the settings, the columns or the weights differ, or no epoch is left to continue with.
            DataError: the run was started with another table.
        """
        path, content = self.checkpoint, self.content
        if path is None:
            return
        contents.check_same_training(path, content, settings, data.state_dict(), forecaster.state_dict())
        epochs = contents.completed_epochs(content)
        if self.mode == "continued" and epochs >= settings["trainer"]["max_epochs"]:
            raise CheckpointError(
                f"{path}: trained for {epochs} epochs already; to continue, set trainer.max_epochs above that"
            )
        if self.mode == "resumed":
            before, now = contents.saved_table(content), describe_content(data.panel)
            if before != now:
                raise DataError(
                    f"{path}: this run was started with {before}, and {data.title} has {now}: restore the old table, "
                    "or leave out resume=auto to start a new run"
                )

    def copy_best_epoch(self, folder: Path, settings: dict[str, Any], data: DataModule) -> None:
        """Copy the best epoch of the continued run if both validate on the same windows; print the checkpoint."""
        if self.mode != "continued" or self.checkpoint is None:
            return
        best, note = self.checkpoint.with_name("best.ckpt"), ""
        if not contents.has_same_validation(self.content, settings, describe_content(data.panel)):
            note = "; its best epoch is not used, because its validation windows differ"
        elif not best.exists():
            note = "; it has no best.ckpt beside it"
        else:
            with atomic_file(folder / "checkpoints" / "best.ckpt") as temporary:
                shutil.copyfile(best, temporary)
        print(f"continued  from {self.checkpoint}{note}")

    def fit(self, trainer: L.Trainer, forecaster: L.LightningModule, data: DataModule) -> None:
        """Train from the checkpoint to the last epoch; do not train a run that was interrupted after its last epoch."""
        content, self.content = self.content, {}
        if self.mode == "resumed" and contents.is_finished(content):
            trainer.fit_loop.load_state_dict(content["loops"]["fit_loop"])
            return
        del content
        fit(trainer, forecaster, data, self.checkpoint)


def fit(trainer: L.Trainer, forecaster: L.LightningModule, data: DataModule, checkpoint: Path | None) -> None:
    """Train from a checkpoint or from the start; a signal stops the run after its state is saved."""
    with signals.deferred():
        trainer.fit(forecaster, datamodule=LightningData(data), ckpt_path=checkpoint, weights_only=True)


def open_run(config: DictConfig) -> RunStart:
    """Decide how the run starts: from its folder's newest state (`resume=auto`), from `checkpoint`, or anew.

    Raises CheckpointError: there is no readable checkpoint.
    """
    folder = Path(config.output_dir)
    newest = load_newest(folder) if config.resume == "auto" else None
    if newest is None and not config.checkpoint:
        return RunStart("new", None, {})
    if newest is None:
        path = contents.find_checkpoint(config.checkpoint, prefer="last")
        newest = path, load_checkpoint(path)
    path, content = newest
    if path.parent.parent == folder:
        return RunStart("resumed", path, content)
    return RunStart("continued", path, content)
