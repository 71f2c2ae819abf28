"""What happens around training: progress, throughput, the table of epochs, stopping on a loss that is not finite."""

import csv
import math
import time
from pathlib import Path
from statistics import median
from typing import Any

import lightning as L
import numpy as np
import pandas as pd
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping, TQDMProgressBar
from lightning.pytorch.callbacks.progress.tqdm_progress import Tqdm
from torch import Tensor

from forecast.errors import TrainingError
from forecast.files import whole_file


class ProgressBar(TQDMProgressBar):
    """One bar an epoch with the loss and the windows per second, and one for calibration and the test."""

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
                bar.close()  # ends its line, so that what is said about the exception has its own

    def on_train_start(self, *args: Any) -> None:
        super().on_train_start(*args)
        self.on_train_epoch_start(*args)  # which Lightning leaves out where training goes on within an epoch

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
    """Lightning's, which counts a model as it is before training among those to improve on."""

    def on_sanity_check_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        if self.monitor in trainer.callback_metrics:
            self.best_score = trainer.callback_metrics[self.monitor].detach().cpu()


class Throughput(Callback):
    """Count training windows and the time they took, logged each epoch; time the model's forecasts in the test.

    Of training, validation is left out, and the first batch, in which models are compiled and memory is first taken.
    """

    def __init__(self) -> None:
        self.windows, self.seconds, self._warm, self._last = 0, 0.0, False, 0.0
        self._forecast_started: float | None = None
        self._seconds_a_window: list[float] = []  # one a test batch

    @property
    def windows_per_second(self) -> float:
        return self.windows / self.seconds if self.seconds else math.nan

    @property
    def ms_per_window(self) -> float:
        """Milliseconds that a device spends on one test window's forecast, the median over the batches."""
        return 1000 * median(self._seconds_a_window) if self._seconds_a_window else math.nan

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

    def on_test_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        # On the Lightning module and not on the network, where a compiled one would break its graph at them.
        self._seconds_a_window = []
        self._hooks = [
            module.register_forward_pre_hook(self._before_forecast),
            module.register_forward_hook(self._after_forecast),
        ]

    def on_test_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        for hook in self._hooks:
            hook.remove()

    def _before_forecast(self, module: torch.nn.Module, inputs: Any) -> None:
        self._forecast_started = now(module)

    def _after_forecast(self, module: torch.nn.Module, inputs: Any, forecast: Any) -> None:
        # FSDP calls the Lightning module around its test step too: only the innermost call is a forecast
        if self._forecast_started is not None and len(forecast):
            self._seconds_a_window.append((now(module) - self._forecast_started) / len(forecast))
        self._forecast_started = None


class RunTime(Callback):
    """Seconds since a run began; of an interrupted one, those up to the state that it goes on from count too."""

    def __init__(self, before: float = 0.0) -> None:
        self._began = time.perf_counter() - before

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    def state_dict(self) -> dict[str, float]:
        return {"seconds": self.seconds}


def now(module: torch.nn.Module) -> float:
    """Seconds, once the device has done what it was given."""
    if next(module.parameters()).is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter()


class EpochTable(Callback):
    """Keep `metrics.csv`, one row an epoch, whole after every epoch; a resumed run goes on with its rows.

    The epoch's training loss, the mean over its windows, and its learning rate are logged here, and kept in
    checkpoints, so that an epoch which was interrupted has them too.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.lr = math.nan  # before the first epoch
        self._sums: list[Tensor] = []  # loss times windows, and windows: of each process, from a checkpoint

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        is_same_run = len(self._sums) == trainer.world_size
        self._sum = (self._sums[trainer.global_rank] if is_same_run else torch.zeros(2)).to(module.device)
        self.rows = [row for row in read_rows(self.path) if row["epoch"] < trainer.current_epoch]
        self.started = time.perf_counter() - (self.rows[-1]["seconds"] if self.rows else 0)

    def on_train_epoch_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        # here: at its end the schedule has moved on to the next epoch's rate
        self.lr = trainer.optimizers[0].param_groups[0]["lr"]
        self._sum = torch.zeros(2, device=module.device)

    def on_train_batch_end(
        self, trainer: L.Trainer, module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        windows = torch.tensor(float(len(batch.index)), device=module.device)
        self._sum += torch.stack([outputs["loss"].detach().float() * windows, windows])

    def on_train_epoch_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        loss, windows = torch.stack(from_all(trainer, self._sum)).sum(0)
        module.log("train/loss", loss / windows, rank_zero_only=True)
        module.log("lr", self.lr, rank_zero_only=True)
        if trainer.is_global_zero:
            metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
            seconds = time.perf_counter() - self.started
            self.rows.append({"epoch": trainer.current_epoch, "seconds": seconds, **metrics})
            with whole_file(self.path) as temporary:
                pd.DataFrame(self.rows).to_csv(temporary, index=False)

    def on_save_checkpoint(self, trainer: L.Trainer, module: L.LightningModule, checkpoint: dict) -> None:
        checkpoint["epoch_table"] = {"lr": self.lr, "sums": from_all(trainer, self._sum)}

    def on_load_checkpoint(self, trainer: L.Trainer, module: L.LightningModule, checkpoint: dict) -> None:
        if "epoch_table" in checkpoint:  # not so where the run that wrote it had no such table
            self.lr, self._sums = checkpoint["epoch_table"]["lr"], checkpoint["epoch_table"]["sums"]


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The table's rows as they were written, to the last digit, which not every version of pandas reads."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        rows = [{name: float(text) for name, text in row.items() if text} for row in csv.DictReader(file)]
    return [{**row, "epoch": int(row["epoch"])} for row in rows]


def from_all(trainer: L.Trainer, tensor: Tensor) -> list[Tensor]:
    """The tensors of all processes, on the CPU."""
    if trainer.world_size == 1:
        return [tensor.cpu()]
    gathered: list[Any] = [None] * trainer.world_size
    torch.distributed.all_gather_object(gathered, tensor.cpu())
    return gathered


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
    """Keep each process's random state in checkpoints, so that dropout and sampling go on as if never interrupted.

    Processes of one run start with the same seed, for the same initial weights, and then draw dropout of their own.
    """

    def __init__(self) -> None:
        self._restored: dict[str, list[Tensor]] = {"cpu": [], "device": []}

    def on_fit_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        if not trainer.is_global_zero:  # here, for Lightning seeds all alike once more when it connects them
            # not seed + rank: the second process of seed 1 would draw what the first one of seed 2 does
            entropy = np.random.SeedSequence([torch.initial_seed(), trainer.global_rank])
            torch.manual_seed(int(entropy.generate_state(1)[0]))

    def on_save_checkpoint(self, trainer: L.Trainer, module: L.LightningModule, checkpoint: dict) -> None:
        checkpoint["random_state"] = {
            "cpu": from_all(trainer, torch.get_rng_state()),
            "device": from_all(trainer, torch.cuda.get_rng_state(module.device)) if on_cuda(module) else [],
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
