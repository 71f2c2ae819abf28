"""A budget of time for training, from which the number of epochs follows."""

import math
import re
import time
from typing import Any

import lightning as L
import torch
from hydra.core.hydra_config import HydraConfig
from lightning.pytorch.callbacks import Callback
from omegaconf import DictConfig

from forecast.checkpoints.contents import completed_epochs
from forecast.cli.overrides import typed_overrides
from forecast.data import DataModule
from forecast.evaluation.fitted_baselines import FittedBaselines
from forecast.system import signals
from forecast.system.errors import ConfigError
from forecast.system.formatting import format_duration
from forecast.training.build import make_model, make_trainer, wrap_model
from forecast.training.lightning_data import LightningData
from forecast.training.memory_estimate import check_memory
from forecast.training.run_start import RunStart
from forecast.training.trainer_checks import check_precision

UNITS = {"s": 1, "min": 60, "h": 3600}

WARM_UP, MEASURED = 3, 20
"""Batches of the trial before the measurement, in which memory is allocated, and measured ones."""


def parse_budget(text: object) -> float:
    """The seconds of a duration such as 90s, 10min or 1.5h. Raises ConfigError for another text."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|min|h)", str(text))
    if match is None or not float(match[1]):
        raise ConfigError(f"budget={text}: write a time as 90s, 10min or 1.5h")
    return float(match[1]) * UNITS[match[2]]


def check_budget(config: DictConfig) -> None:
    """Raise ConfigError for a budget that is no time, or that does not apply to these settings."""
    if config.budget is None:
        return
    parse_budget(config.budget)
    if HydraConfig.initialized() and "trainer.max_epochs" in typed_overrides():
        raise ConfigError(f"budget={config.budget} gives the number of epochs: leave trainer.max_epochs out")
    devices = config.trainer.devices
    check_one_process(
        config, config.trainer.num_nodes * (devices if isinstance(devices, int) and devices > 0 else 1)
    )


def check_one_process(config: DictConfig, processes: int) -> None:
    """Raise ConfigError for a budget of several processes, which would measure different times."""
    if processes != 1:
        raise ConfigError(f"budget={config.budget} is for one device: set trainer.max_epochs instead")


def resolve_budget(
    config: DictConfig, data: DataModule, fitted: FittedBaselines, start: RunStart
) -> str | None:
    """Set `budget_epochs`, the number of epochs whose training and validation fit into `budget`.

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
    training, validation = time_epoch(config, data, fitted)
    epochs = math.floor(parse_budget(config.budget) / (training + validation))
    if not epochs:
        raise ConfigError(f"budget={config.budget}: {advise_less(config, data, training, validation)}")
    config.budget_epochs = done + epochs
    return f"budget     {config.budget}: {epochs:,} epochs of about {training + validation:.2g} s"


def advise_less(config: DictConfig, data: DataModule, training: float, validation: float) -> str:
    """Advice where the budget is less than an epoch of these seconds of training and validation."""
    takes = f"an epoch takes about {format_duration(training + validation)}, give more time"
    left = parse_budget(config.budget) - validation
    windows = math.floor(len(data.loader("train")) * data.batch_size * left / training)
    if windows < 1:
        return f"{takes}, or validate on fewer windows (data.eval_stride={24 * (data.eval_stride or 1)})"
    return f"{takes}, or use fewer windows (windows_per_epoch={windows})"


class BatchTimer(Callback):
    """Record when training and validation start, and when each of their batches ends."""

    def __init__(self) -> None:
        self.train: list[float] = []
        self.validation: list[float] = []

    def on_train_epoch_start(self, trainer: L.Trainer, *_: Any) -> None:
        self.train.append(read_clock(trainer))

    def on_validation_epoch_start(self, trainer: L.Trainer, *_: Any) -> None:
        self.validation.append(read_clock(trainer))

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        self.train.append(read_clock(trainer))

    def on_validation_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        self.validation.append(read_clock(trainer))


def read_clock(trainer: L.Trainer) -> float:
    """The time once the device has finished its work."""
    if trainer.strategy.root_device.type == "cuda":
        torch.cuda.synchronize(trainer.strategy.root_device)
    return time.perf_counter()


def time_epoch(config: DictConfig, data: DataModule, fitted: FittedBaselines) -> tuple[float, float]:
    """Seconds of an epoch of training and of its validation, from a trial on some batches.

    Raises ConfigError for a precision that the run would refuse, and for several processes.
    """
    timer = BatchTimer()
    with torch.random.fork_rng():
        forecaster = wrap_model(config, make_model(config, data), fitted)
        trainer = make_trainer(
            config,
            timer,
            names=(),
            max_epochs=1,
            limit_train_batches=WARM_UP + MEASURED,
            limit_val_batches=WARM_UP + MEASURED,
            num_sanity_val_steps=0,
            enable_checkpointing=False,
            logger=False,
        )
        check_precision(config, trainer)
        check_one_process(config, trainer.world_size)
        with signals.deferred():
            trainer.fit(forecaster, datamodule=LightningData(data))
    return (
        len(data.loader("train")) * time_batch(timer.train),
        len(data.loader("val")) * time_batch(timer.validation),
    )


def time_batch(times: list[float]) -> float:
    """Mean seconds of a batch, from the start and the end of each; without those of warming up, if there are more."""
    measured = times[WARM_UP:] if len(times) > WARM_UP + 1 else times
    return (measured[-1] - measured[0]) / (len(measured) - 1)
