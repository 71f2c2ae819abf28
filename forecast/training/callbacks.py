"""Callbacks for progress, early stopping, non-finite losses and random states."""

import math
import time
from typing import Any

import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping, TQDMProgressBar
from lightning.pytorch.callbacks.progress.tqdm_progress import Tqdm
from torch import Tensor

from forecast.system.errors import TrainingError
from forecast.training.processes import gather


class ProgressBar(TQDMProgressBar):
    """Show one bar per epoch with the loss and the windows per second, one for calibration and one for the test."""

    def init_validation_tqdm(self) -> Tqdm:
        bar = super().init_validation_tqdm()
        if self.trainer.state.fn == "fit":
            bar.disable = True
        bar.leave = False
        return bar

    def init_test_tqdm(self) -> Tqdm:
        bar = super().init_test_tqdm()
        bar.leave = False
        return bar

    def on_exception(self, trainer: L.Trainer, module: L.LightningModule, exception: BaseException) -> None:
        for bar in (self._train_progress_bar, self._test_progress_bar):
            if bar is not None:
                bar.close()  # ends its line, so that the error message starts a new one

    def on_train_start(self, *args: Any) -> None:
        super().on_train_start(*args)
        self.on_train_epoch_start(*args)  # not called by Lightning when training resumes within an epoch

    def on_train_epoch_start(self, trainer: L.Trainer, *args: Any) -> None:
        super().on_train_epoch_start(trainer, *args)
        self.windows, self.loss, self.started = 0, math.nan, time.perf_counter()

    def on_train_batch_end(
        self, trainer: L.Trainer, module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.windows += len(batch.index) * trainer.world_size
        self.loss = outputs["loss"].detach()  # read only when the bar is drawn
        super().on_train_batch_end(trainer, module, outputs, batch, batch_idx)

    def get_metrics(self, trainer: L.Trainer, module: L.LightningModule) -> dict[str, Any]:
        metrics = {k: v for k, v in super().get_metrics(trainer, module).items() if k != "v_num"}
        if trainer.training:
            rate = self.windows / (time.perf_counter() - self.started)
            metrics = {"loss": f"{float(self.loss):.4f}", "windows/s": f"{rate:.0f}", **metrics}
        return metrics


class StopEarly(EarlyStopping):
    """Early stopping that also compares with the model's score before training, which a warm start has."""

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
