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
from forecast.system.errors import ConfigError
from forecast.system.formatting import format_duration
from forecast.training.build import make_model, make_trainer, wrap_model
from forecast.training.lightning_data import LightningData

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
    if config.trainer.devices not in (1, "auto") or config.trainer.num_nodes != 1:
        raise ConfigError(f"budget={config.budget} is for one device: set trainer.max_epochs instead")


def resolve_budget(
    config: DictConfig, data: DataModule, fitted: FittedBaselines, checkpoint: dict[str, Any] | None
) -> str | None:
    """Set `budget_epochs`, the number of epochs whose training and validation fit into `budget`.

    The time of an epoch is measured on some batches with a model that is then thrown away; random numbers of the run do
    not change. A resumed run keeps its number of epochs, and a continued one adds those that fit.

    Args:
        config: the composed configuration, changed in place.
        data: a data module that is set up.
        fitted: the fitted baselines.
        checkpoint: the content of the checkpoint from which training starts.

    Returns:
        A line for the terminal; None without a budget.

    Raises:
        ConfigError: not even one epoch fits.
    """
    if config.budget is None:
        return None
    saved = None if checkpoint is None else checkpoint["hyper_parameters"].get("budget_epochs")
    if saved is not None and config.resume == "auto":
        config.budget_epochs = saved
        return f"budget     {config.budget}: {saved} epochs, as before"
    seconds = time_epoch(config, data, fitted)
    epochs = math.floor(parse_budget(config.budget) / seconds)
    if not epochs:
        windows = math.floor(data.n_windows["train"] * parse_budget(config.budget) / seconds)
        raise ConfigError(
            f"budget={config.budget}: an epoch takes about {format_duration(seconds)}: give more time, or use "
            f"fewer windows (windows_per_epoch={max(1, windows)})"
        )
    config.budget_epochs = epochs + (0 if checkpoint is None else completed_epochs(checkpoint))
    return f"budget     {config.budget}: {epochs:,} epochs of about {seconds:.2g} s"


class BatchTimer(Callback):
    """Record when the batches of training and of validation end."""

    def __init__(self) -> None:
        self.train: list[float] = []
        self.validation: list[float] = []

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        self.train.append(read_clock(trainer))

    def on_validation_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        self.validation.append(read_clock(trainer))


def read_clock(trainer: L.Trainer) -> float:
    """The time once the device has finished its work."""
    if trainer.strategy.root_device.type == "cuda":
        torch.cuda.synchronize(trainer.strategy.root_device)
    return time.perf_counter()


def time_epoch(config: DictConfig, data: DataModule, fitted: FittedBaselines) -> float:
    """Seconds of an epoch of training and its validation, from a trial on some batches."""
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
        trainer.fit(forecaster, datamodule=LightningData(data))
    splits = {"train": timer.train, "val": timer.validation}
    return sum(len(data.loader(split)) * time_batch(times) for split, times in splits.items())


def time_batch(times: list[float]) -> float:
    """Mean seconds of a batch, from the times at which batches end; without those of warming up, if there are more."""
    measured = times[WARM_UP:] if len(times) > WARM_UP + 1 else times
    return (measured[-1] - measured[0]) / max(1, len(measured) - 1)
