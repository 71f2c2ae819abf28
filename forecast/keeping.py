"""What is kept of training: the newest state, the one before it, and the best epoch's."""

import math
import os
import shutil
import time
from pathlib import Path
from typing import Any

import lightning as L
from lightning.fabric.plugins import CheckpointIO
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.trainer.states import TrainerFn
from torch import Tensor

from forecast import preemption
from forecast.checkpoint import load_checkpoint
from forecast.data import ForecastData
from forecast.files import whole_file
from forecast.sealed import save_sealed
from forecast.share import losses_by_date, set_share, share_and_error

LOOK_EVERY = 10
"""Steps between two looks of several processes at whether one of them should save: each look is a message."""


class SealedFiles(CheckpointIO):
    """Lightning's checkpoints as files with their own hash, written whole and read as data."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        save_sealed(checkpoint, Path(path))

    def load_checkpoint(self, path: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return load_checkpoint(Path(path))

    def remove_checkpoint(self, path: Any) -> None:
        Path(path).unlink(missing_ok=True)


class KeepCheckpoints(Checkpoint):
    """Keep `<name>.ckpt`, the newest state, `<name>-1.ckpt`, the one before, and `best.ckpt`.

    A state is saved between epochs, within one every `every_minutes` (0: after every step), and when the run is told
    to stop, which then ends with status 75. Training goes on from any of them as if it had never been interrupted.
    The best epoch is that of the lowest validation MSE. A model that is validated before its first step too, as one
    that begins with a linear map is, stays the best until an epoch betters it, and then keeps of the epoch the share
    that validation windows support; the error that the share makes sure of is what counts (`forecast.share`). Without
    `keep_best` there is no `best.ckpt`.
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
        self.start: Tensor | None = None  # validation MSE by date before training, where measured
        self._share = 1.0  # of the epoch last validated
        self._is_best = self._is_finished = self._is_between_epochs = False

    def state_dict(self) -> dict[str, Any]:
        return {"best_score": self.best_score, "start": self.start, "is_finished": self._is_finished}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if (self.folder / "best.ckpt").exists():  # not so in the folder of a new run
            self.best_score, self.start = state_dict["best_score"], state_dict.get("start")

    def on_save_checkpoint(
        self, trainer: L.Trainer, module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        if self._is_between_epochs or self._is_finished:
            checkpoint["epoch"] -= 1  # the last one trained; Lightning counts the next one already
        if self._is_between_epochs:
            for counts in checkpoint["loops"]["fit_loop"]["epoch_progress"].values():
                counts["ready"] = counts["completed"]

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        preemption.take()
        set_share(module, 1.0)  # the best epoch's may have come with the state that training goes on from
        self._saved_at, self._first_epoch = time.monotonic(), trainer.current_epoch
        if trainer.is_global_zero and self.folder.exists():
            for left in self.folder.glob(".*.ckpt"):  # by a process that was killed while it wrote
                left.unlink()
        if self._is_best:  # before the first step: a model that was fitted in part
            self._save(trainer)

    def on_train_batch_end(
        self, trainer: L.Trainer, module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        done = batch_idx + 1
        if done == trainer.num_training_batches or done % trainer.accumulate_grad_batches:
            return  # the epoch's end saves; gradients that are being summed up are in no checkpoint
        if self._agree(trainer, preemption.received() or self._is_due(), done):
            if self._agree(trainer, not math.isfinite(float(outputs["loss"])), LOOK_EVERY):
                return  # nothing to go on from; StopOnNonFiniteLoss says so
            self._save(trainer)
            if self._agree(trainer, preemption.received(), LOOK_EVERY):
                preemption.leave(f" after step {trainer.global_step:,}, which is kept")

    def on_validation_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        if self.keep_best and trainer.state.fn == TrainerFn.FITTING:
            score = trainer.callback_metrics["val/mse"].item()
            data: ForecastData = trainer.datamodule  # type: ignore[attr-defined]
            if trainer.sanity_checking:
                self.start = losses_by_date(module, data)
            elif self.start is not None:
                losses, overlap = losses_by_date(module, data), data.windows["val"].overlap
                self._share, score = share_and_error(losses, self.start, overlap)
            self._is_best = score < self.best_score or not (self.folder / "best.ckpt").exists()
            self.best_score = min(score, self.best_score)

    def on_train_epoch_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        if trainer.current_epoch > self._first_epoch:
            # here and not at the end of the epoch before: its schedule has moved on by now, and its scores are logged
            self._is_between_epochs = True
            self._save(trainer)
            self._is_between_epochs = False
            if self._agree(trainer, preemption.received(), LOOK_EVERY):
                preemption.leave(f" after epoch {trainer.current_epoch}, which is kept")

    def on_train_epoch_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        # else Lightning keeps the score of an epoch that was resumed from schedule=plateau
        trainer.fit_loop.restarting = False

    def on_train_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        self._is_finished = True
        self._save(trainer)

    def _is_due(self) -> bool:
        return time.monotonic() - self._saved_at >= self.every_seconds

    def _agree(self, trainer: L.Trainer, wanted: bool, step: int) -> bool:
        """Whether any process wants it; several ask each other at every `LOOK_EVERY`th step."""
        if trainer.world_size == 1:
            return wanted
        return step % LOOK_EVERY == 0 and trainer.strategy.reduce_boolean_decision(wanted, all=False)

    def _save(self, trainer: L.Trainer) -> None:
        for logger in trainer.loggers:
            getattr(logger, "keep", logger.save)()  # what a checkpoint has behind it is logged
        new = self.folder / f"{self.name}-new.ckpt"
        if self._is_best:
            set_share(trainer.lightning_module, self._share)
        trainer.save_checkpoint(new)
        set_share(trainer.lightning_module, 1.0)
        if trainer.is_global_zero:
            self._name(new)
        trainer.strategy.barrier()  # no process looks for a file before it has its name
        self._saved_at, self._is_best = time.monotonic(), False

    def _name(self, new: Path) -> None:
        """Give the new file its name; at every moment `<name>.ckpt` and what it says of the best are true."""
        if self._is_best:
            also(new, self.folder / "best.ckpt")
        last = self.folder / f"{self.name}.ckpt"
        if last.exists():
            also(last, self.folder / f"{self.name}-1.ckpt")
        os.replace(new, last)


def take_over_best(checkpoint: Path, folder: Path) -> bool:
    """Copy the best epoch of a checkpoint's run to a new run's folder, to be bettered there; whether there is one."""
    best = checkpoint.with_name("best.ckpt")
    if not best.exists():
        return False
    with whole_file(folder / "checkpoints" / "best.ckpt") as temporary:
        shutil.copyfile(best, temporary)
    return True


def also(path: Path, name: Path) -> None:
    """Give the file another name too, in place of what has it."""
    link = name.with_name(f".{name.name}")
    link.unlink(missing_ok=True)
    try:
        os.link(path, link)
    except OSError:  # not every file system has second names
        shutil.copyfile(path, link)
    os.replace(link, name)
