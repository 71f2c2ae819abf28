"""Callbacks for progress, the table of epochs, early stopping, non-finite losses, signals and times."""

import csv
import math
import signal
import time
from pathlib import Path
from statistics import median
from typing import Any, TypeVar, cast

import lightning as L
import numpy as np
import pandas as pd
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping
from lightning.pytorch.callbacks import ProgressBar as LightningProgressBar
from lightning.pytorch.trainer.states import TrainerFn
from torch import Tensor
from tqdm import tqdm

from forecast.system import signals
from forecast.system.errors import TrainingError
from forecast.system.files import atomic_file
from forecast.system.progress import bar
from forecast.training.processes import gather

AnyCallback = TypeVar("AnyCallback", bound=Callback)


def find_callback(trainer: L.Trainer, callback_class: type[AnyCallback]) -> AnyCallback:
    """Return the trainer's callback of this class."""
    return next(callback for callback in trainer.callbacks if isinstance(callback, callback_class))  # type: ignore[attr-defined]


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


class EpochTable(Callback):
    """Write `metrics.csv`, one row per epoch; the file is whole after every epoch, and a resumed run appends to it.

    This callback also logs the epoch's training loss, the mean over its windows, and its learning rate. Checkpoints
    hold both, so that a resumed epoch logs the same values.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.lr = math.nan  # before the first epoch
        self._restored: list[Tensor] = []  # sums of each process, from a checkpoint

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        is_same_run = len(self._restored) == trainer.world_size
        sums = self._restored[trainer.global_rank] if is_same_run else torch.zeros(2)
        self._sums = sums.to(module.device)  # loss times windows, and windows
        self.rows = [row for row in read_rows(self.path) if row["epoch"] < trainer.current_epoch]
        self.started = time.perf_counter() - (self.rows[-1]["seconds"] if self.rows else 0)

    def on_train_epoch_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        # not at the epoch's end: by then the schedule has set the next epoch's rate
        self.lr = trainer.optimizers[0].param_groups[0]["lr"]
        self._sums = torch.zeros(2, device=module.device)

    def on_train_batch_end(
        self, trainer: L.Trainer, module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        windows = torch.tensor(float(len(batch.index)), device=module.device)
        self._sums += torch.stack([outputs["loss"].detach().float() * windows, windows])

    def on_train_epoch_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        loss, windows = torch.stack(gather(trainer, self._sums.cpu())).sum(0)
        module.log("train/loss", loss / windows, rank_zero_only=True)
        module.log("lr", self.lr, rank_zero_only=True)
        if trainer.is_global_zero:
            metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
            seconds = time.perf_counter() - self.started
            self.rows.append({"epoch": trainer.current_epoch, "seconds": seconds, **metrics})
            with atomic_file(self.path) as temporary:
                pd.DataFrame(self.rows).to_csv(temporary, index=False)

    def on_save_checkpoint(self, trainer: L.Trainer, module: L.LightningModule, checkpoint: dict) -> None:
        checkpoint["epoch_table"] = {"lr": self.lr, "sums": gather(trainer, self._sums.cpu())}

    def on_load_checkpoint(self, trainer: L.Trainer, module: L.LightningModule, checkpoint: dict) -> None:
        if "epoch_table" in checkpoint:  # not with callbacks.epochs=null
            self.lr, self._restored = checkpoint["epoch_table"]["lr"], checkpoint["epoch_table"]["sums"]


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read the rows exactly as written: not every version of pandas reads floats to the last digit."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        rows = [{name: float(text) for name, text in row.items() if text} for row in csv.DictReader(file)]
    return [{**row, "epoch": int(row["epoch"])} for row in rows]


class SafePoints(Callback):
    """End the run between two batches of validation or test if a signal was received.

    When a trainer starts, Lightning wraps the installed SIGTERM handler in its own, which sends a message to the other
    processes from inside the handler and ends the trainer with status 0. This callback restores the handlers from
    before the start. The safe points of training are in `training.checkpointing`.
    """

    def setup(self, trainer: L.Trainer, module: L.LightningModule, stage: str) -> None:
        self._handlers = {number: signal.getsignal(number) for number in signals.SIGNALS}

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        if signals.in_main_thread():
            for number, handler in self._handlers.items():
                signal.signal(number, handler)

    on_sanity_check_start = on_validation_start = on_test_start = on_train_start  # type: ignore[misc]

    def on_validation_batch_end(self, trainer: L.Trainer, *args: Any, **kwargs: Any) -> None:
        if trainer.state.fn != TrainerFn.FITTING:
            exit_together(trainer, " in validation")

    def on_test_batch_end(self, trainer: L.Trainer, *args: Any, **kwargs: Any) -> None:
        exit_together(trainer, " in the test")


def exit_together(trainer: L.Trainer, where: str) -> None:
    """Exit if a signal was received, and send SIGTERM to the processes that Lightning started.

    Raises:
        SystemExit: with status 75.
    """
    if signals.received():
        if trainer.strategy.launcher is not None:
            trainer.strategy.launcher.kill(signal.SIGTERM)
        signals.exit_if_received(where)


class Throughput(Callback):
    """Measure training windows per second, logged each epoch, and the time of the model's forecasts in the test.

    Validation is not counted, nor the first training batch, in which models are compiled and memory is allocated.
    """

    def __init__(self) -> None:
        self.windows, self.seconds, self._warm, self._last = 0, 0.0, False, 0.0
        self._forecast_started: float | None = None
        self._seconds_per_window: list[float] = []  # one value per test batch

    def state_dict(self) -> dict[str, int | float]:
        return {"windows": self.windows, "seconds": self.seconds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.windows, self.seconds = state_dict["windows"], state_dict["seconds"]

    @property
    def windows_per_second(self) -> float:
        return self.windows / self.seconds if self.seconds else math.nan

    @property
    def ms_per_window(self) -> float:
        """Milliseconds that one device needs for the forecast of one test window, the median over the batches."""
        return 1000 * median(self._seconds_per_window) if self._seconds_per_window else math.nan

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
        # On the Lightning module, not on the network: hooks would break the graph of a compiled network.
        self._seconds_per_window = []
        self._hooks = [
            module.register_forward_pre_hook(self._before_forecast),
            module.register_forward_hook(self._after_forecast),
        ]

    def on_test_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        for hook in self._hooks:
            hook.remove()

    def _before_forecast(self, module: torch.nn.Module, inputs: Any) -> None:
        self._forecast_started = synchronized_time(module)

    def _after_forecast(self, module: torch.nn.Module, inputs: Any, forecast: Any) -> None:
        # FSDP calls the Lightning module around its test step too: only the innermost call is a forecast
        if self._forecast_started is not None and len(forecast):
            self._seconds_per_window.append(
                (synchronized_time(module) - self._forecast_started) / len(forecast)
            )
        self._forecast_started = None


class RunTime(Callback):
    """Count the seconds since a run began; a resumed run adds the seconds up to its checkpoint.

    Args:
        so_far: seconds of this process that have passed.
        before: seconds up to the checkpoint that the run resumes.
    """

    def __init__(self, so_far: float = 0.0, before: float = 0.0) -> None:
        self.before, self._began = before, time.perf_counter() - so_far - before

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    def state_dict(self) -> dict[str, float]:
        return {"seconds": self.seconds}


def synchronized_time(module: torch.nn.Module) -> float:
    """Return the time in seconds after the module's device has finished its queue."""
    if next(module.parameters()).is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter()
