"""Callbacks for progress, the epoch table, early stopping, averaged weights, signals, times and equal processes."""

import math
import platform
import signal
import time
from pathlib import Path
from typing import Any, TypeGuard, cast

import lightning as L
import numpy as np
import pandas as pd
import torch
import torch.distributed as dist
from lightning.pytorch.callbacks import Callback, EarlyStopping
from lightning.pytorch.callbacks import ProgressBar as LightningProgressBar
from lightning.pytorch.strategies import ModelParallelStrategy
from lightning.pytorch.trainer.states import TrainerFn
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.nn.utils import get_total_norm
from tqdm import tqdm

from forecast.data import DataModule
from forecast.data.panel import describe_content, digest
from forecast.system import signals
from forecast.system.errors import ConfigError, TrainingError
from forecast.system.files import atomic_file
from forecast.system.keys import first_difference, identity
from forecast.system.machine import OtherWork
from forecast.system.progress import bar

BATCHES_BETWEEN_CHECKS = 20  # batches between two checks of the training loss, each of which waits for the device


def gather(trainer: L.Trainer, value: Any) -> list[Any]:
    """Return the values of all processes, by rank; tensors should be on the CPU."""
    if trainer.world_size == 1:
        return [value]
    gathered: list[Any] = [None] * trainer.world_size
    dist.all_gather_object(gathered, value)
    return gathered


class ProgressBar(LightningProgressBar):
    """Show one bar per epoch with the loss and the scores, and one for each pass over validation or test.

    `refresh_rate`: batches between two updates of a bar; 0: no bars.
    """

    def __init__(self, refresh_rate: int = 10) -> None:
        super().__init__()
        self.refresh_rate = refresh_rate
        self.enable()
        self.loss = math.nan
        self.epoch: tqdm | None = None
        self.evaluation: tqdm | None = None

    def disable(self) -> None:
        self.is_enabled = False

    def enable(self) -> None:
        self.is_enabled = self.refresh_rate > 0

    def on_train_batch_start(self, trainer: L.Trainer, module: L.LightningModule, batch: Any, batch_idx: int) -> None:
        if self.epoch is None and self.is_enabled:
            total, what = int(self.total_train_batches), f"epoch {trainer.current_epoch + 1}"
            self.epoch = bar(total, what, " batches", delay=0.0, leave=True, initial=batch_idx)

    def on_train_batch_end(
        self, trainer: L.Trainer, module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self._is_due(self.epoch, batch_idx + 1):
            self.loss = float(outputs["loss"])  # waits for the device: only when the bar is drawn
            self.epoch.set_postfix({"loss": self.loss}, refresh=False)
            self.epoch.update(batch_idx + 1 - self.epoch.n)

    def on_train_epoch_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        if self.epoch is not None:
            self.epoch.set_postfix({**trainer.progress_bar_metrics, "loss": self.loss}, refresh=False)
            self.epoch.close()
            self.epoch = None

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        batches = trainer.num_sanity_val_batches if trainer.sanity_checking else trainer.num_val_batches
        if self.is_enabled:
            self.evaluation = bar(int(sum(batches)), "validation", " batches")

    def on_test_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self.is_enabled:
            self.evaluation = bar(int(sum(trainer.num_test_batches)), "test", " batches")

    def on_validation_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if self._is_due(self.evaluation, batch_idx + 1):
            self.evaluation.update(batch_idx + 1 - self.evaluation.n)

    on_test_batch_end = on_validation_batch_end

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self.evaluation is not None:
            self.evaluation.close()

    on_test_end = on_validation_end

    def on_exception(self, *args: Any) -> None:
        for shown in (self.epoch, self.evaluation):
            if shown is not None:
                shown.close()  # ends the bar's line, so that the error message starts a new one

    def _is_due(self, shown: tqdm | None, done: int) -> TypeGuard[tqdm]:
        return shown is not None and (done % self.refresh_rate == 0 or done == shown.total)


class StopEarly(EarlyStopping):
    """Early stopping that also compares with the model's score before training, which a warm start has.

    `monitor`: the metric; None: the one that selects the best epoch.
    """

    def __init__(self, monitor: str | None = None, **options: Any) -> None:
        super().__init__(monitor or "", **options)

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self.monitor = self.monitor or cast(str, pl_module.validation_metric)
        super().setup(trainer, pl_module, stage)

    def on_sanity_check_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        if self.monitor in trainer.callback_metrics:
            self.best_score = trainer.callback_metrics[self.monitor].detach().cpu()


class AverageWeights(Callback):
    """Validate, test and save an exponential moving average of the weights (Polyak and Juditsky 1992).

    After optimizer step k, average ← d · average + (1 − d) · weights, with d = min(decay, (1 + k) / (10 + k)), so that
    the first, random weights are soon forgotten. Buffers are not averaged. Training goes on from the weights
    themselves, which checkpoints hold beside the average; without a decay, it goes on from the average.

    `decay`: between 0 and 1; None: nothing is averaged.

    Raises ConfigError: in `setup`, the weights are sharded.
    """

    def __init__(self, decay: float | None) -> None:
        self.decay = decay
        self._steps = 0  # of the optimizer, when the average was last updated
        self._average: list[Tensor] = []
        self._trained: list[Tensor] = []  # the weights themselves while the module has the average
        self._restored: list[Tensor] = []  # those of the checkpoint from which training goes on

    def setup(self, trainer: L.Trainer, module: L.LightningModule, stage: str) -> None:
        if self.decay is not None and isinstance(trainer.strategy, ModelParallelStrategy):
            raise ConfigError(
                f"ema={self.decay}: with trainer=fsdp no process holds all weights; use trainer=ddp, or ema=null"
            )

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        self._steps = trainer.global_step
        if self._restored:  # the module has the average of the checkpoint
            self._average = [weights.detach().clone() for weights in module.parameters()]
            set_weights(module, self._restored)
            self._restored = []

    def on_train_batch_end(self, trainer: L.Trainer, module: L.LightningModule, *_: Any) -> None:
        if self.decay is None or trainer.global_step == self._steps:  # gradients are accumulated
            return
        self._steps = trainer.global_step
        weights = [weights.detach() for weights in module.parameters()]
        self._average = self._average or [each.clone() for each in weights]
        decay = min(self.decay, (1 + self._steps) / (10 + self._steps))
        for average, each in zip(self._average, weights, strict=True):
            average.lerp_(each, 1 - decay)

    def on_validation_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        if trainer.state.fn == TrainerFn.FITTING:
            self._use_average(module)

    def on_validation_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        if trainer.state.fn == TrainerFn.FITTING and self._trained:
            set_weights(module, self._trained)
            self._trained = []

    def on_train_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        self._use_average(module)

    def _use_average(self, module: L.LightningModule) -> None:
        if self._average:
            self._trained = [weights.detach().clone() for weights in module.parameters()]
            set_weights(module, self._average)

    def on_save_checkpoint(self, trainer: L.Trainer, module: L.LightningModule, checkpoint: dict) -> None:
        if self._average:
            checkpoint["trained_weights"] = self._trained or [each.detach() for each in module.parameters()]
            names = [name for name, _ in module.named_parameters()]
            checkpoint["state_dict"].update(zip(names, self._average, strict=True))

    def on_load_checkpoint(self, trainer: L.Trainer, module: L.LightningModule, checkpoint: dict) -> None:
        if self.decay is not None:
            self._restored = checkpoint.get("trained_weights", [])


@torch.no_grad()
def set_weights(module: L.LightningModule, values: list[Tensor]) -> None:
    for weights, each in zip(module.parameters(), values, strict=True):
        weights.copy_(each)


class StopOnNonFiniteLoss(Callback):
    """Stop training before anything is saved if the loss is NaN or infinite.

    The loss is checked every `BATCHES_BETWEEN_CHECKS` batches and at the end of the epoch. Once a weight is not finite,
    no loss is.

    Raises TrainingError: naming the epoch and the batch.
    """

    def on_train_batch_end(
        self, trainer: L.Trainer, module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        is_due = batch_idx % BATCHES_BETWEEN_CHECKS == 0 or batch_idx + 1 == trainer.num_training_batches
        if is_due and not math.isfinite(loss := float(outputs["loss"])):
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
            "device": gather(trainer, torch.cuda.get_rng_state(module.device)) if module.device.type == "cuda" else [],
        }

    def on_load_checkpoint(self, trainer: L.Trainer, module: L.LightningModule, checkpoint: dict) -> None:
        self._restored = checkpoint.get("random_state", self._restored)

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        rank, cpu, device = trainer.global_rank, self._restored["cpu"], self._restored["device"]
        if len(cpu) == trainer.world_size:
            torch.set_rng_state(cpu[rank])
        if module.device.type == "cuda" and len(device) == trainer.world_size:
            torch.cuda.set_rng_state(device[rank], module.device)


class EpochTable(Callback):
    """Write `metrics.csv`, one row per epoch; the file is whole after every epoch, and a resumed run appends to it.

    This callback also logs the epoch's training loss, the mean over its windows, the norm of the gradient before
    clipping, the mean over its steps, and the learning rate of its last step, with which loggers stamp it. Checkpoints
    hold all three, so that a resumed epoch logs the same values.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.lr = math.nan  # before the first step
        self._restored: list[Tensor] = []  # sums of each process, from a checkpoint

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        is_same_run = len(self._restored) == trainer.world_size
        sums = self._restored[trainer.global_rank] if is_same_run else torch.zeros(4)
        self._sums = sums.to(module.device)  # loss times windows, windows, norms of the gradient, steps
        # exactly as written, with floats to the last digit
        table = pd.read_csv(self.path, float_precision="round_trip") if self.path.exists() else pd.DataFrame()
        self.rows: list[Any] = [row for row in table.to_dict("records") if row["epoch"] < trainer.current_epoch]
        self.started = time.perf_counter() - (self.rows[-1]["seconds"] if self.rows else 0)

    def on_train_epoch_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        self._sums = torch.zeros(4, device=module.device)

    def on_train_batch_start(self, trainer: L.Trainer, module: L.LightningModule, batch: Any, batch_idx: int) -> None:
        # not at the batch's end: by then the schedule has set the next step's rate
        self.lr = trainer.optimizers[0].param_groups[0]["lr"]

    def on_train_batch_end(
        self, trainer: L.Trainer, module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        windows = torch.tensor(float(len(batch.index)), device=module.device)
        self._sums[:2] += torch.stack([outputs["loss"].detach().float() * windows, windows])

    def on_before_optimizer_step(
        self, trainer: L.Trainer, module: L.LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        norm = get_total_norm([each.grad for each in module.parameters() if each.grad is not None])
        norm = norm.full_tensor() if isinstance(norm, DTensor) else norm  # of weights sharded by FSDP
        self._sums[2:] += torch.stack([norm.float(), norm.new_ones(()).float()])

    def on_train_epoch_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        loss, windows, norms, steps = torch.stack(gather(trainer, self._sums.cpu())).sum(0)
        module.log("train/loss", loss / windows, rank_zero_only=True)
        module.log("train/grad_norm", norms / steps, rank_zero_only=True)
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
    """Exit with status 75 if a signal was received, and send SIGTERM to the processes that Lightning started."""
    if signals.received():
        if trainer.strategy.launcher is not None:
            trainer.strategy.launcher.kill(signal.SIGTERM)
        signals.exit_if_received(where)


class RunTime(Callback):
    """Measure the seconds of a run, and its training windows per second, which are logged each epoch.

    Validation is not part of the speed, nor is the first training batch, in which models are compiled and memory is
    allocated. A resumed run adds what its checkpoint holds. `others` is the work of other programs in the meantime.

    Args:
        so_far: seconds of this process that have passed.
        before: state in the checkpoint that the run resumes; None: it resumes none.
    """

    def __init__(self, so_far: float = 0.0, before: dict[str, float] | None = None) -> None:
        before = before or {}
        self.seconds_before = before.get("seconds", 0.0)
        self.windows, self.training_seconds = before.get("windows", 0), before.get("training_seconds", 0.0)
        self._began, self._is_warm, self._last = time.perf_counter() - so_far, False, 0.0
        self.others = OtherWork()

    def state_dict(self) -> dict[str, float]:
        return {"seconds": self.seconds, "windows": self.windows, "training_seconds": self.training_seconds}

    @property
    def seconds(self) -> float:
        return self.seconds_before + time.perf_counter() - self._began

    @property
    def windows_per_second(self) -> float:
        return self.windows / self.training_seconds if self.training_seconds else math.nan

    def on_train_epoch_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        self._last = time.perf_counter()

    def on_train_batch_end(
        self, trainer: L.Trainer, module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        now = time.perf_counter()
        if self._is_warm:
            self.windows += len(batch.index) * trainer.world_size
            self.training_seconds += now - self._last
        self._is_warm, self._last = True, now

    def on_train_epoch_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        module.log("windows_per_second", self.windows_per_second, rank_zero_only=True)


class RankConsistency(Callback):
    """Compare the tables and configurations of all processes before training; describe the table in checkpoints.

    Raises ConfigError: naming two processes, and the table or the first key that differs.
    """

    def setup(self, trainer: L.Trainer, module: L.LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        panel = cast(DataModule, module.data).panel
        self._table = describe_content(panel)
        if trainer.world_size == 1:
            return
        settings = {
            "table": f"{panel.n_rows:,} rows from {panel.first_date} to {panel.last_date} with hash {digest(panel)}",
            **identity(dict(module.hparams), per_machine=False),
        }
        (first_host, first), *others = gather(trainer, (platform.node(), settings))
        for rank, (host, other) in enumerate(others, start=1):
            if difference := first_difference(first, other):
                key, value, other_value = difference
                raise ConfigError(
                    f"process 0 on {first_host} has {key}={value}, process {rank} on {host} has {other_value}: "
                    "give every process the same table, and type the same command on every machine"
                )

    def state_dict(self) -> dict[str, Any]:
        return {"table": self._table}
