"""Settings that a run derives from its data: `data.transform=auto`, and the number of epochs that fit into `budget`."""

import math
import time
from dataclasses import dataclass
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from omegaconf import DictConfig

from forecast.checkpoints.contents import completed_epochs
from forecast.data import DataModule
from forecast.data.domain import ASINH, AUTO, LOG1P, NONE
from forecast.evaluation.baselines import FittedBaselines, Linear, thin_validation
from forecast.evaluation.measurement import score_windows
from forecast.system import signals
from forecast.system.errors import ConfigError
from forecast.system.formatting import format_duration, shorten
from forecast.training.build import count_sanity_steps, make_model, make_trainer, wrap_model
from forecast.training.checkpointing import Checkpointing, RunStart
from forecast.training.hardware import check_memory
from forecast.training.module import LightningData
from forecast.training.preparation import check_device_precision, check_one_process, parse_budget

MARGIN = 0.03
"""Relative reduction of the error that a transform needs. `asinh` lowers the error of normal values by up to 2%, for it
moves forecasts towards the mean."""

TRIED = 13
"""Batches of an epoch of the trial. Its first epoch allocates memory, and its second one is measured."""


@dataclass(frozen=True)
class ChosenTransforms:
    """The transform of each target by name, and its error relative to that without a transform."""

    kinds: dict[str, str]
    relative_errors: dict[str, float]
    error: str

    def describe(self) -> str:
        """The choice in a line for the terminal."""
        changed = [name for name, kind in self.kinds.items() if kind != NONE]
        if not changed:
            error = f"the validation {self.error} of the linear baseline"
            return f"transform  none: no other one lowers {error} by {MARGIN:.0%}"
        parts = [f"{name} {self.kinds[name]} ({self.relative_errors[name] - 1:+.1%})" for name in changed]
        return f"transform  {shorten(parts)}: validation {self.error} of the linear baseline"


def resolve_transform(
    config: DictConfig, data: DataModule, checkpoint: dict[str, Any] | None
) -> ChosenTransforms | None:
    """Replace `data.transform=auto` in `config` and in `data`, whose rows are read, by the transforms of the targets.

    With the content of a checkpoint, they are those of its run.

    Returns:
        The choice; None if nothing was chosen.
    """
    if data.options.transform != AUTO:
        return None
    if checkpoint is not None:
        chosen, transform = None, checkpoint["hyper_parameters"]["data"]["transform"]
    else:
        chosen = choose_transforms(data, config.loss)
        transform = {name: kind for name, kind in chosen.kinds.items() if kind != NONE} or None
    config.data.transform = transform
    data.set_transform(transform)
    return chosen


def choose_transforms(data: DataModule, loss: str) -> ChosenTransforms:
    """Choose the transform of each target: none, `asinh`, or `log1p` if its lower bound is at least 0.

    The error in original units, divided by the scale of the series, decides: the root mean squared error for
    `loss=mse`, otherwise the mean absolute error. Each target is forecast from its own past and the future covariates,
    because the weights of a linear model of all columns depend on all their transforms.
    """
    error = "RMSE" if loss == "mse" else "MAE"
    plain = data.with_transform(None)
    kinds, relative = {}, {}
    for name, lower in zip(plain.target_columns, plain.target_scaler.domain.lower, strict=True):
        errors = {
            kind: linear_error(data.with_transform({name: kind}, target=name), loss)
            for kind in (NONE, ASINH, *([LOG1P] if lower >= 0 else []))
        }
        best = min(errors, key=errors.__getitem__)
        kinds[name] = best if errors[best] < (1 - MARGIN) * errors[NONE] else NONE
        relative[name] = errors[kinds[name]] / errors[NONE] if errors[NONE] > 0 else 1.0
    return ChosenTransforms(kinds, relative, error)


def linear_error(data: DataModule, loss: str) -> float:
    """The error of the linear baseline on validation windows: RMSE for `loss=mse`, otherwise MAE.

    Args:
        data: has one target.
        loss: the loss of training.
    """
    fitted, windows = FittedBaselines.fit(data), data.windows["val"]
    linear = Linear(fitted.linear)
    stride = thin_validation(data, data.season)
    scores = score_windows({"linear": partial(linear, windows)}, data, fitted, "val", stride=stride)["linear"]
    return math.sqrt(scores["mse"]) if loss == "mse" else scores["mae"]


class EpochTime(NamedTuple):
    """Seconds of an epoch.

    training, validation: of all batches.
    fixed: of everything else, such as the checkpoint and the start of the loaders.
    before: of the validation and the checkpoint before the first epoch; 0 if there are none.
    """

    training: float
    validation: float
    fixed: float
    before: float = 0.0

    @property
    def total(self) -> float:
        """Seconds of each epoch."""
        return self.training + self.validation + self.fixed


def resolve_budget(
    config: DictConfig, data: DataModule, fitted: FittedBaselines, start: RunStart
) -> str | None:
    """Set `budget_epochs`, the number of epochs whose training, validation and checkpoints fit into `budget`.

    The time of an epoch is measured on some batches with a model that is then thrown away; random numbers of the run do
    not change. A resumed run keeps its number of epochs, and a continued one adds those that fit.

    Args:
        config: the composed configuration, changed in place.
        data: a data module that is set up.
        fitted: the fitted baselines.
        start: the start of the run, with the content of its checkpoint.

    Returns:
        A line for the terminal; None without a budget.

    Raises:
        ConfigError: not even one epoch fits.
    """
    if config.budget is None:
        return None
    done = 0
    if start.content is not None:
        if start.mode == "resumed":
            config.budget_epochs = start.content["hyper_parameters"]["budget_epochs"]
            return f"budget     {config.budget}: {config.budget_epochs} epochs, as before"
        done = completed_epochs(start.content)
    check_memory(config, data)
    epoch = time_epoch(config, data, fitted)
    epochs = math.floor((parse_budget(config.budget) - epoch.before) / epoch.total)
    if epochs < 1:
        raise ConfigError(f"budget={config.budget}: {advise_less(config, data, epoch)}")
    config.budget_epochs = done + epochs
    return f"budget     {config.budget}: {epochs:,} epochs of about {epoch.total:.2g} s"


def advise_less(config: DictConfig, data: DataModule, epoch: EpochTime) -> str:
    """Advice where the budget is less than an epoch."""
    takes = f"an epoch takes about {format_duration(epoch.before + epoch.total)}, give more time"
    left = parse_budget(config.budget) - epoch.before - epoch.validation - epoch.fixed
    windows = math.floor(len(data.loader("train")) * data.batch_size * left / epoch.training)
    if windows < 1:
        return f"{takes}, or validate on fewer windows (data.eval_stride={24 * (data.eval_stride or 1)})"
    return f"{takes}, or use fewer windows (windows_per_epoch={windows})"


class EpochTimer(Callback):
    """Record when training and validation of the last epoch start, when each of their batches ends, and its end."""

    def __init__(self) -> None:
        self.train: list[float] = []
        self.validation: list[float] = []
        self.end = math.nan

    def on_train_epoch_start(self, trainer: L.Trainer, *_: Any) -> None:
        self.train = [read_clock(trainer)]

    def on_validation_epoch_start(self, trainer: L.Trainer, *_: Any) -> None:
        self.validation = [read_clock(trainer)]

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        self.train.append(read_clock(trainer))

    def on_validation_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        self.validation.append(read_clock(trainer))

    def on_train_epoch_end(self, trainer: L.Trainer, *_: Any) -> None:
        self.end = read_clock(trainer)

    def measure(self, n_train: int, n_val: int, *, validates_first: bool) -> EpochTime:
        """Seconds of an epoch of `n_train` batches of training and `n_val` of validation."""
        train, validation = time_batch(self.train), time_batch(self.validation)
        batches = train * (len(self.train) - 1) + validation * (len(self.validation) - 1)
        fixed = max(0.0, self.end - self.train[0] - batches)
        before = n_val * validation + fixed if validates_first else 0.0
        return EpochTime(n_train * train, n_val * validation, fixed, before)


def read_clock(trainer: L.Trainer) -> float:
    """The time once the device has finished its work."""
    if trainer.strategy.root_device.type == "cuda":
        torch.cuda.synchronize(trainer.strategy.root_device)
    return time.perf_counter()


def time_epoch(config: DictConfig, data: DataModule, fitted: FittedBaselines) -> EpochTime:
    """Measure an epoch in a trial on some batches, whose checkpoints are written to a temporary folder.

    Raises ConfigError for a precision that the run would refuse, and for several processes.
    """
    timer = EpochTimer()
    with torch.random.fork_rng(), TemporaryDirectory(dir=config.output_dir, prefix=".trial-") as folder:
        forecaster = wrap_model(config, make_model(config, data), fitted)
        trainer = make_trainer(
            config,
            timer,
            Checkpointing(folder),
            names=(),
            max_epochs=2,
            limit_train_batches=TRIED,
            limit_val_batches=TRIED,
            num_sanity_val_steps=0,
            logger=False,
        )
        check_device_precision(config, trainer)
        check_one_process(config, trainer.world_size)
        with signals.deferred():
            trainer.fit(forecaster, datamodule=LightningData(data))
    n_train, n_val = (len(data.loader(split)) for split in ("train", "val"))
    return timer.measure(n_train, n_val, validates_first=bool(count_sanity_steps(forecaster.model)))


def time_batch(times: list[float]) -> float:
    """Mean seconds of a batch, from the start and the end of each; without the first, which starts the loader."""
    measured = times[1:] if len(times) > 2 else times
    return (measured[-1] - measured[0]) / (len(measured) - 1)
