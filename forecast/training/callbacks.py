"""Callbacks for progress, early stopping, non-finite losses and random states."""

import math
import time
from typing import Any, cast

import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping
from lightning.pytorch.callbacks import ProgressBar as LightningProgressBar
from torch import Tensor
from tqdm import tqdm

from forecast.system.errors import TrainingError
from forecast.system.progress import bar
from forecast.training.processes import gather


class ProgressBar(LightningProgressBar):
    """Show one bar per epoch with the loss and the windows per second, and one for each pass over validation or test.

    Args:
        refresh_rate: batches between two updates of a bar; 0: no bars.
    """

    def __init__(self, refresh_rate: int = 10) -> None:
        super().__init__()
        self.refresh_rate = refresh_rate
        self.enable()
        self.epoch: tqdm | None = None
        self.evaluation: tqdm | None = None

    def disable(self) -> None:
        self.is_enabled = False

    def enable(self) -> None:
        self.is_enabled = self.refresh_rate > 0

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        loop = trainer.fit_loop
        if (
            loop.restarted_mid_epoch or loop.restarted_on_epoch_end
        ):  # Lightning announces no start of the epoch
            self._start_epoch(loop.epoch_loop.batch_progress.current.completed)

    def on_train_epoch_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        self._start_epoch(0)

    def _start_epoch(self, done: int) -> None:
        self.windows, self.loss, self.started = 0, torch.tensor(math.nan), time.perf_counter()
        what = f"epoch {self.trainer.current_epoch + 1}"
        self.epoch = self._bar(self.total_train_batches, what, delay=0.0, leave=True, initial=done)

    def on_train_batch_end(
        self, trainer: L.Trainer, module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.windows += len(batch.index) * trainer.world_size
        self.loss = outputs["loss"].detach()
        if self.epoch is not None and time.time() - self.epoch.last_print_t >= self.epoch.mininterval:
            self._describe_epoch()  # waits for the loss on the device: only when the bar is drawn
        self._update(self.epoch, batch_idx + 1)

    def on_train_epoch_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        self._describe_epoch(**trainer.progress_bar_metrics)
        self._close()

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        batches = trainer.num_sanity_val_batches if trainer.sanity_checking else trainer.num_val_batches
        self.evaluation = self._bar(sum(batches), "validation")

    def on_test_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.evaluation = self._bar(sum(trainer.num_test_batches), "test")

    def on_validation_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        self._update(self.evaluation, batch_idx + 1)

    on_test_batch_end = on_validation_batch_end

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self.evaluation is not None:
            self.evaluation.close()

    on_test_end = on_validation_end

    def on_exception(self, *args: Any) -> None:
        self._close()  # ends the bar's line, so that the error message starts a new one

    def _bar(self, batches: int | float, what: str, **options: Any) -> tqdm | None:
        total = None if math.isinf(batches) else int(batches)
        return bar(total, what, " batches", **options) if self.is_enabled else None

    def _update(self, shown: tqdm | None, done: int) -> None:
        if shown is not None and (done % self.refresh_rate == 0 or done == shown.total):
            shown.update(done - shown.n)

    def _describe_epoch(self, **scores: Any) -> None:
        if self.epoch is not None:
            rate = self.windows / (time.perf_counter() - self.started)
            self.epoch.set_postfix(
                {"loss": float(self.loss), "windows/s": round(rate), **scores}, refresh=False
            )

    def _close(self) -> None:
        for shown in (self.epoch, self.evaluation):
            if shown is not None:
                shown.close()


class StopEarly(EarlyStopping):
    """Early stopping that also compares with the model's score before training, which a warm start has.

    Args:
        monitor: the metric; None: the one that selects the best epoch.
        options: of Lightning's `EarlyStopping`.
    """

    def __init__(self, monitor: str | None = None, **options: Any) -> None:
        super().__init__(monitor or "", **options)

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self.monitor = self.monitor or cast(str, pl_module.validation_metric)
        super().setup(trainer, pl_module, stage)

    def on_sanity_check_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        if self.monitor in trainer.callback_metrics:
            self.best_score = trainer.callback_metrics[self.monitor].detach().cpu()


class StopOnNonFiniteLoss(Callback):
    """Stop training before anything is saved if the loss is NaN or infinite.

    The loss is checked every `every` batches and at the end of the epoch. Once a weight is not finite, no loss is.

    Raises:
        TrainingError: naming the epoch and the batch.
    """

    def __init__(self, every: int = 20) -> None:
        self.every = every

    def on_train_batch_end(
        self, trainer: L.Trainer, module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        last = batch_idx + 1 == trainer.num_training_batches
        if (last or batch_idx % self.every == 0) and not math.isfinite(loss := float(outputs["loss"])):
            raise TrainingError(
                f"the training loss became {loss} in epoch {trainer.current_epoch}, by batch {batch_idx}; checkpoints "
                "of earlier epochs are intact. Try a lower optimizer.lr, trainer.gradient_clip_val=1 or "
                "trainer.precision=32-true"
            )


class RandomState(Callback):
    """Save each process's random state in checkpoints, so that a resumed run draws the same dropout and samples.

    All processes of a run start with the same seed, so that initial weights are equal; then each draws its own dropout.
    """

    def __init__(self) -> None:
        self._restored: dict[str, list[Tensor]] = {"cpu": [], "device": []}

    def on_fit_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        if not trainer.is_global_zero:  # after Lightning has seeded all processes alike
            # not seed + rank: rank 1 of seed 1 would draw the same numbers as rank 0 of seed 2
            entropy = np.random.SeedSequence([torch.initial_seed(), trainer.global_rank])
            torch.manual_seed(int(entropy.generate_state(1)[0]))

    def on_save_checkpoint(self, trainer: L.Trainer, module: L.LightningModule, checkpoint: dict) -> None:
        checkpoint["random_state"] = {
            "cpu": gather(trainer, torch.get_rng_state()),
            "device": gather(trainer, torch.cuda.get_rng_state(module.device)) if on_cuda(module) else [],
        }

    def on_load_checkpoint(self, trainer: L.Trainer, module: L.LightningModule, checkpoint: dict) -> None:
        self._restored = checkpoint.get("random_state", self._restored)

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        rank, cpu, device = trainer.global_rank, self._restored["cpu"], self._restored["device"]
        if len(cpu) == trainer.world_size:
            torch.set_rng_state(cpu[rank])
        if on_cuda(module) and len(device) == trainer.world_size:
            torch.cuda.set_rng_state(device[rank], module.device)


def on_cuda(module: L.LightningModule) -> bool:
    return module.device.type == "cuda"
