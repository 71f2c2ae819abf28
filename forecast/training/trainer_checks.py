"""Checks of settings that Lightning would accept and then ignore, or that would make the scores wrong."""

from pathlib import Path

import lightning as L
from lightning.pytorch.accelerators import CPUAccelerator
from omegaconf import DictConfig, OmegaConf

from forecast.data import DataModule
from forecast.evaluation.levels import QUANTILE_LOSS
from forecast.system import distributed
from forecast.system.checks import check_choice, check_count
from forecast.system.errors import ConfigError
from forecast.training.precision import is_float16

PARTIAL_VALIDATION = (
    "limit_val_batches", "limit_test_batches", "val_check_interval", "check_val_every_n_epoch", "max_steps",
    "overfit_batches", "fast_dev_run",
)  # fmt: skip
"""Trainer settings that validate or test on a part: scores, intervals and the best epoch would refer to that part."""

PATHS = {"checkpoint.dirpath": "checkpoints", "epochs.path": "metrics.csv"}
"""Paths of callbacks below the run folder, where tests and resumed runs look for them."""

MONITORED = ("val/mse", "val/mae")
MONITORED_QUANTILES = (*MONITORED, "val/quantile_loss")


def check_trainer(config: DictConfig, trainer: L.Trainer, data: DataModule) -> None:
    """Check the settings of callbacks and trainer, before Lightning starts more processes.

    Raises:
        ConfigError: naming the first wrong setting.
    """
    check_callbacks(config, "checkpoint", "throughput")
    check_paths(config)
    check_monitors(config)
    check_epochs(config)
    check_precision(config, trainer)
    check_processes(trainer)
    if data.batch_size % trainer.world_size:
        raise ConfigError(
            f"data.batch_size={data.batch_size} must divide by the number of processes, {trainer.world_size}"
        )


def check_callbacks(config: DictConfig, *names: str) -> None:
    """Raise ConfigError if one of these callbacks is switched off."""
    for name in names:
        if config.callbacks.get(name) is None:
            raise ConfigError(f"callbacks.{name}=null: every run needs this callback; leave the setting out")


def check_paths(config: DictConfig) -> None:
    """Raise ConfigError if a callback writes outside the run folder."""
    for key, name in PATHS.items():
        path = OmegaConf.select(config.callbacks, key)
        if path is not None and Path(path) != Path(config.output_dir) / name:
            raise ConfigError(
                f"callbacks.{key}={path} is outside the run folder; to move all files, use output_root=FOLDER"
            )


def check_monitors(config: DictConfig) -> None:
    """Raise ConfigError if early stopping or the schedule monitors a score that is not logged."""
    for key in ("callbacks.early_stopping.monitor", "schedule.monitor"):
        monitor = OmegaConf.select(config, key)
        if monitor is not None:
            choices = MONITORED_QUANTILES if config.loss == QUANTILE_LOSS else MONITORED
            advice = f"; with loss={QUANTILE_LOSS}, it is" if monitor in MONITORED_QUANTILES else ""
            check_choice(key, monitor, choices, advice=advice)


def check_epochs(config: DictConfig) -> None:
    """Raise ConfigError if an epoch would not be validated as a whole, or the number of epochs is not positive."""
    for key in PARTIAL_VALIDATION:
        if key in config.trainer:
            raise ConfigError(
                f"trainer.{key}: every epoch is validated once, on the whole split; to use fewer windows, set "
                "data.eval_stride=24"
            )
    check_count("trainer.max_epochs", config.trainer.max_epochs)


def check_precision(config: DictConfig, trainer: L.Trainer) -> None:
    """Raise ConfigError for a precision that the data, the linear model or the device does not support."""
    precision = str(config.trainer.precision)
    if precision in ("bf16-true", "16-true"):
        raise ConfigError(
            f"trainer.precision={precision}: data and the linear model are float32; use {precision[:-4]}mixed"
        )
    if is_float16(precision) and isinstance(trainer.accelerator, CPUAccelerator):
        raise ConfigError(f"trainer.precision={precision} needs a GPU; on the CPU use bf16-mixed or 32-true")


def check_processes(trainer: L.Trainer) -> None:
    """Raise ConfigError if the trainer uses more or fewer processes than the launcher started."""
    devices, nodes, launcher = trainer.num_devices, trainer.num_nodes, distributed.launcher()
    if launcher is not None and distributed.n_processes() != devices * nodes:
        raise ConfigError(
            f"{launcher} started {distributed.n_processes()} processes, and trainer.devices={devices} on "
            f"trainer.num_nodes={nodes} make {devices * nodes}: choose trainer=ddp, ddp_cpu or fsdp and leave both "
            f"out, or have {launcher} start {devices * nodes}"
        )
    if nodes > 1 and launcher is None:
        raise ConfigError(
            f"trainer.num_nodes={nodes}: start the processes of every machine with torchrun or srun (docs/scaling.md)"
        )
