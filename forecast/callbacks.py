"""What happens around training: progress, throughput, the table of epochs, stopping on a loss that is not finite."""

import math
import time
from pathlib import Path
from typing import Any

import lightning as L
import pandas as pd
import torch
from lightning.pytorch.callbacks import Callback, TQDMProgressBar
from lightning.pytorch.callbacks.progress.tqdm_progress import Tqdm
from lightning.pytorch.utilities import rank_zero_only

from forecast.errors import TrainingError
from forecast.files import whole_file


class ProgressBar(TQDMProgressBar):
    """One bar an epoch with the loss and the windows per second, and one for the test; none inside validation."""

    def init_validation_tqdm(self) -> Tqdm:
        bar = super().init_validation_tqdm()
        bar.disable = True
        return bar

    def init_test_tqdm(self) -> Tqdm:
        bar = super().init_test_tqdm()
        bar.leave = False
        return bar

    def on_exception(self, trainer: L.Trainer, module: L.LightningModule, exception: BaseException) -> None:
        for bar in (self._train_progress_bar, self._test_progress_bar):
            if bar is not None:
                bar.close()  # ends its line, so that what is said about the exception has its own

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


class Throughput(Callback):
    """Count training windows and the time they took, logged each epoch.

    Validation is left out, and the first batch, in which models are compiled and memory is first taken.
    """

    def __init__(self) -> None:
        self.windows, self.seconds, self._warm = 0, 0.0, False

    @property
    def windows_per_second(self) -> float:
        return self.windows / self.seconds if self.seconds else math.nan

    def on_train_epoch_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        self._last = time.perf_counter()

    def on_train_batch_end(
        self, trainer: L.Trainer, module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        now = time.perf_counter()
        if self._warm:
            self.windows += len(batch.index) * trainer.world_size
            self.seconds += now - self._last
        self._warm, self._last = True, now

    def on_train_epoch_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        module.log("windows_per_second", self.windows_per_second, rank_zero_only=True)


class EpochTable(Callback):
    """Keep `metrics.csv`, one row an epoch, whole after every epoch; a resumed run goes on with its rows."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    @rank_zero_only
    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        rows = pd.read_csv(self.path) if self.path.exists() else pd.DataFrame({"epoch": []})
        self.rows: list[dict] = rows.query(f"epoch < {trainer.current_epoch}").to_dict("records")
        self.started = time.perf_counter()

    @rank_zero_only
    def on_train_epoch_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        # here: at its end the schedule has moved on to the next epoch's rate
        module.log("lr", trainer.optimizers[0].param_groups[0]["lr"], rank_zero_only=True)

    @rank_zero_only
    def on_train_epoch_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        seconds = time.perf_counter() - self.started
        self.rows.append({"epoch": trainer.current_epoch, "seconds": seconds, **metrics})
        with whole_file(self.path) as temporary:
            pd.DataFrame(self.rows).to_csv(temporary, index=False)


class StopOnNonFiniteLoss(Callback):
    """Stop with one line, before anything is saved, once the loss is NaN or infinite.

    Looked at every `every` batches and at the epoch's last one: once the weights are not finite, no later loss is.
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
                "of earlier epochs are kept. Try a lower optimizer.lr, trainer.gradient_clip_val=1 or "
                "trainer.precision=32-true"
            )


class RandomState(Callback):
    """Keep torch's random state in checkpoints, so that dropout and sampling go on as if never interrupted.

    Processes of one run start with the same seed, for the same initial weights, and then draw dropout of their own.
    """

    _restored: dict[str, Any] | None = None

    def on_fit_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        if not trainer.is_global_zero:  # here, for Lightning seeds all alike once more when it connects them
            torch.manual_seed(torch.initial_seed() + trainer.global_rank)

    def state_dict(self) -> dict[str, Any]:
        cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        return {"cpu": torch.get_rng_state(), "cuda": cuda}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._restored = state_dict

    def on_train_epoch_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        if self._restored is not None and trainer.is_global_zero:  # it is the first process's
            torch.set_rng_state(self._restored["cpu"])
            if len(self._restored["cuda"]) == torch.cuda.device_count():
                torch.cuda.set_rng_state_all(self._restored["cuda"])
            self._restored = None
