"""What a command does before a training imports torch: checks of settings, reading of data, filters of messages.

Imports no torch, so that a command refuses a setting or a file at once.
"""

import logging
import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from forecast.cli.compose import find_named_files
from forecast.data import DataModule
from forecast.data.source import check_batch_size
from forecast.data.time_features import parse_frequency
from forecast.evaluation.scores import QUANTILE_LOSS, parse_levels
from forecast.system import distributed, signals
from forecast.system.errors import ConfigError, NotInstalled, check_choice, check_count

if TYPE_CHECKING:
    import lightning as L


LOSSES = {"mse": "mse_loss", "mae": "l1_loss", "huber": "huber_loss"}
"""The losses of point forecasts, and their functions in `torch.nn.functional`."""

AUTO = "auto"
WANDB_MODES = ("offline", "online")

PARTIAL_VALIDATION = (
    "limit_val_batches", "limit_test_batches", "val_check_interval", "check_val_every_n_epoch", "max_steps",
    "overfit_batches", "fast_dev_run",
)  # fmt: skip
"""Trainer settings that validate or test on a part: scores, intervals and the best epoch would refer to that part."""

LOGGER_PACKAGES = {"wandb": ("wandb",), "tensorboard": ("tensorboard",), "mlflow": ("mlflow", "sqlalchemy", "alembic")}
"""The packages of each logger, which are those of the extra of its name."""

MONITORED = ("val/mse", "val/mae")
MONITORED_QUANTILES = (*MONITORED, "val/quantile_loss")

IGNORED = (  # messages of Lightning that do not concern users of this package
    ".*LeafSpec.*",  # Lightning's use of torch
    ".*smaller than the logging interval.*",  # curves are logged by epoch
    ".*dirpath has changed.*",  # a run that continues from another run's checkpoint writes its own
    ".*Grad strides do not match.*",  # a copy of one small gradient per step
    ".*FSDP2-wrapped module.*",  # nothing is written into a forecast, which is a view
    ".*sync_dist=True.*",  # scores are summed over the processes before they are logged
)


def check_settings(config: DictConfig) -> None:
    """Check everything that the configuration alone decides.

    A command calls this before it reads data, which may take minutes.

    Raises ConfigError: naming the first wrong setting; NotInstalled: a package of a logger is not installed.
    """
    if config.resume not in (None, AUTO):
        raise ConfigError(f"resume={config.resume} is unknown; use resume=auto, or checkpoint=FILE")
    parse_levels(config.levels)
    check_choice("loss", config.loss, (*LOSSES, QUANTILE_LOSS))
    if config.refit not in (None, "full"):
        raise ConfigError(f"refit={config.refit} is unknown; use refit=full")
    if config.refit and config.schedule._target_.endswith("plateau"):
        raise ConfigError("schedule=plateau needs validation windows, and refit=full has none; use another schedule")
    check_choice("logger.mode", config.logger.get("mode", WANDB_MODES[0]), WANDB_MODES)
    for name in map(str, config.logger):
        if any(find_spec(package) is None for package in LOGGER_PACKAGES.get(name, ())):
            raise NotInstalled(f"logger={name}", name)
    if config.optimizer.get("fused") not in (None, AUTO, True, False):
        raise ConfigError(f"optimizer.fused={config.optimizer.fused} must be {AUTO}, true or false")
    if config.callbacks.get("checkpoint") is None:
        raise ConfigError("callbacks.checkpoint=null: every run needs this callback; leave the setting out")
    for key in ("callbacks.early_stopping.monitor", "schedule.monitor"):
        if (monitor := OmegaConf.select(config, key)) is not None:
            choices = MONITORED_QUANTILES if config.loss == QUANTILE_LOSS else MONITORED
            advice = f"; with loss={QUANTILE_LOSS}, it is" if monitor in MONITORED_QUANTILES else ""
            check_choice(key, monitor, choices, advice=advice)
    check_trainer_settings(config)
    if config.data.get("freq") is not None:
        try:
            parse_frequency(str(config.data.freq))
        except ConfigError as error:
            raise ConfigError(f"data.freq: {error}") from None


def check_trainer_settings(config: DictConfig) -> None:
    """Check the settings of the trainer: each epoch is validated as a whole, in a precision that the data support."""
    for key in PARTIAL_VALIDATION:
        if key in config.trainer:
            raise ConfigError(
                f"trainer.{key}: every epoch is validated once, on the whole split; to use fewer windows, set "
                "data.eval_stride=24"
            )
    check_count("trainer.max_epochs", config.trainer.max_epochs)
    precision, devices = str(config.trainer.precision), config.trainer.devices
    if precision in ("bf16-true", "16-true"):
        raise ConfigError(
            f"trainer.precision={precision}: data and the linear model are float32; use {precision[:-4]}mixed"
        )
    if isinstance(devices, int) and devices > 0 and isinstance(config.data.batch_size, int):
        check_batch_size(config.data.batch_size, devices * config.trainer.num_nodes)


def is_float16(precision: object) -> bool:
    return str(precision).startswith("16")


def check_trainer(config: DictConfig, trainer: "L.Trainer") -> None:
    """Check what depends on the machine, before Lightning starts more processes.

    Raises ConfigError: the device does not support the precision, for which Lightning would take another, or the
    trainer uses more or fewer processes than the launcher started.
    """
    precision = config.trainer.precision
    if is_float16(precision) and trainer.strategy.root_device.type == "cpu":
        raise ConfigError(f"trainer.precision={precision} needs a GPU; on the CPU use bf16-mixed or 32-true")
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


def read_data(config: DictConfig) -> DataModule:
    """Create the data module of `config.data` and read its rows; its `setup()` scales them.

    Raises:
        ConfigError: `data.split` names one split, which leaves no rows for the others.
        DataError: data that cannot be used.
    """
    if isinstance(config.data.split, str):
        raise ConfigError(
            f"data.split={config.data.split} leaves no rows for the other splits; give three parts or two dates"
        )
    data = instantiate(config.data)  # checks its options
    find_named_files(config)
    signals.exit_if_received(" before it read data")
    data.prepare_data()
    data.read()
    return data


def filter_messages() -> None:
    """Show only Lightning's warnings, except those in `IGNORED`."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    for message in IGNORED:
        warnings.filterwarnings("ignore", message=message)
