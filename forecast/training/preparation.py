"""What a command does before a training imports torch: checks of settings, reading of data, filters of messages.

Imports no torch, so that a command refuses a setting or a file at once.
"""

import logging
import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING

from hydra.core.hydra_config import HydraConfig
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from forecast.cli.compose import find_named_files
from forecast.cli.overrides import typed_overrides
from forecast.data import DataModule
from forecast.data.time_features import parse_frequency
from forecast.evaluation.levels import QUANTILE_LOSS, parse_levels
from forecast.system import distributed, signals
from forecast.system.errors import ConfigError, NotInstalled, check_choice, check_count
from forecast.system.keys import MODEL_KEYS, TASK_KEYS

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

LOGGER_PACKAGES = {
    "wandb": ("wandb",),
    "tensorboard": ("tensorboard",),
    "mlflow": ("mlflow", "sqlalchemy", "alembic"),
}
"""The packages of each logger, which are those of the extra of its name."""

MONITORED = ("val/mse", "val/mae")
MONITORED_QUANTILES = (*MONITORED, "val/quantile_loss")

IGNORED = (
    ".*LeafSpec.*",  # Lightning's use of torch
    ".*smaller than the logging interval.*",  # curves are logged by epoch
    ".*dirpath has changed.*",  # a run that continues from another run's checkpoint writes its own
    ".*Grad strides do not match.*",  # a copy of one small gradient per step
    ".*FSDP2-wrapped module.*",  # nothing is written into a forecast, which is a view
    ".*sync_dist=True.*",  # scores are summed over the processes before they are logged
)
"""Messages of Lightning that do not concern users of this package."""


CONSTRUCTED = {"size", "variables", *(row.name for row in (*TASK_KEYS, *MODEL_KEYS))}
"""Keys, beside those of `model` and `trainer`, whose values only constructors check."""


def needs_construction() -> bool:
    """Whether a setting was typed that only constructors check. If not, PyTorch is imported after the data."""
    typed = typed_overrides().keys() - {"trainer.max_epochs"} if HydraConfig.initialized() else ()
    return any(key in CONSTRUCTED or key.startswith(("model.", "trainer.")) for key in typed)


def check_settings(config: DictConfig) -> None:
    """Check everything that the configuration alone decides.

    A command calls this before it reads data, which may take minutes.

    Raises:
        ConfigError: naming the first wrong setting.
    """
    if config.resume not in (None, AUTO):
        raise ConfigError(f"resume={config.resume} is unknown; use resume=auto, or checkpoint=FILE")
    parse_levels(config.levels)
    check_loss(config.loss)
    check_refit(config)
    check_loggers(config)
    if config.optimizer.get("fused") not in (None, AUTO, True, False):
        raise ConfigError(f"optimizer.fused={config.optimizer.fused} must be {AUTO}, true or false")
    if config.callbacks.get("checkpoint") is None:
        raise ConfigError("callbacks.checkpoint=null: every run needs this callback; leave the setting out")
    check_monitors(config)
    check_epochs(config)
    check_precision(config)
    check_frequency(config)
    devices = config.trainer.devices
    if isinstance(devices, int) and devices > 0 and isinstance(config.data.batch_size, int):
        check_batch_size(config.data.batch_size, devices * config.trainer.num_nodes)


def check_trainer(config: DictConfig, trainer: "L.Trainer", data: "DataModule") -> None:
    """Check what depends on the machine and on the data, before Lightning starts more processes.

    Raises:
        ConfigError: naming the first wrong setting.
    """
    check_device_precision(config, trainer)
    check_processes(trainer)
    check_batch_size(data.batch_size, trainer.world_size)


def check_frequency(config: DictConfig) -> None:
    """Raise ConfigError for a step between rows that is none."""
    if config.data.get("freq") is not None:
        try:
            parse_frequency(str(config.data.freq))
        except ConfigError as error:
            raise ConfigError(f"data.freq: {error}") from None


def check_batch_size(windows: int, processes: int) -> None:
    """Raise ConfigError if the windows of a batch cannot be divided among the processes."""
    if windows % processes:
        raise ConfigError(f"data.batch_size={windows} must divide by the number of processes, {processes}")


def check_loggers(config: DictConfig) -> None:
    """Raise ConfigError for an unknown mode of W&B, and NotInstalled if a package of a logger is not installed."""
    if "mode" in config.logger:
        check_wandb_mode("logger.mode", config.logger.mode)
    for name in config.logger:
        if any(find_spec(package) is None for package in LOGGER_PACKAGES.get(str(name), ())):
            raise NotInstalled(f"logger={name}", str(name))


def check_wandb_mode(key: str, mode: object) -> None:
    """Raise ConfigError unless a setting is a mode of W&B."""
    if mode not in WANDB_MODES:
        raise ConfigError(f"{key}={mode} must be {' or '.join(WANDB_MODES)}")


def check_loss(name: str) -> None:
    """Raise ConfigError if there is no loss of this name."""
    if name not in (*LOSSES, QUANTILE_LOSS):
        raise ConfigError(f"loss={name} is unknown; choose one of {', '.join((*LOSSES, QUANTILE_LOSS))}")


def check_refit(config: DictConfig) -> None:
    """Raise ConfigError for an unknown value of `refit`, or a schedule that needs validation windows."""
    if config.refit not in (None, "full"):
        raise ConfigError(f"refit={config.refit} is unknown; use refit=full")
    if config.refit and config.schedule._target_.endswith("plateau"):
        raise ConfigError(
            "schedule=plateau needs validation windows, and refit=full has none; use another schedule"
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


def check_precision(config: DictConfig) -> None:
    """Raise ConfigError for a precision that the data and the linear model do not support."""
    precision = str(config.trainer.precision)
    if precision in ("bf16-true", "16-true"):
        raise ConfigError(
            f"trainer.precision={precision}: data and the linear model are float32; use {precision[:-4]}mixed"
        )


def check_device_precision(config: DictConfig, trainer: "L.Trainer") -> None:
    """Raise ConfigError for a precision that the device does not support; Lightning would take another."""
    precision = config.trainer.precision
    if is_float16(precision) and trainer.strategy.root_device.type == "cpu":
        raise ConfigError(f"trainer.precision={precision} needs a GPU; on the CPU use bf16-mixed or 32-true")


def is_float16(precision: object) -> bool:
    return str(precision).startswith("16")


def check_processes(trainer: "L.Trainer") -> None:
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
