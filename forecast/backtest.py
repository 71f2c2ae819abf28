"""Forecast from many past origins with what was known at each: `forecast backtest --help`."""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from forecast.checkpoints.contents import TRAINING_TARGETS, check_stored_settings
from forecast.cli.compose import find_named_files
from forecast.cli.main import main_with_run_folder
from forecast.cli.overrides import typed_overrides
from forecast.system.errors import ConfigError
from forecast.system.keys import BACKTEST_KEYS
from forecast.system.memory import keep_freed_memory

if TYPE_CHECKING:
    from forecast.data import DataModule
    from forecast.evaluation.measurement import Backtest
    from forecast.inference.model import TrainedModel

OWN_KEYS = tuple(row.name for row in BACKTEST_KEYS)

# with a checkpoint: keys that may be given, and keys whose value comes from the command
ALLOWED_WITH_CHECKPOINT = {*OWN_KEYS, "checkpoint", "levels", "data", "trainer", "output_root", "hydra"}
FROM_COMMAND = (*OWN_KEYS, "output_dir", "callbacks", "trainer")


def backtest(config: DictConfig) -> None:
    """Forecast from every origin, with a model from a checkpoint or newly trained ones; save tables and a figure."""
    from forecast.inference.forecast import check_backtest
    from forecast.training.preparation import check_settings, filter_messages, read_data

    keep_freed_memory()
    check_backtest(config)
    check_settings(config)
    data = read_data_of_checkpoint(config) if config.checkpoint else read_data(config)
    from forecast.inference.backtest import backtest_with_training  # imports Lightning
    from forecast.reports.backtest import print_backtest, report_policies, save_backtest

    filter_messages()  # Lightning sets the levels of its loggers when it is imported
    if config.checkpoint:
        backtests = backtest_checkpoint(config, data)
    else:
        data.setup()
        backtests = backtest_with_training(data, config)
    folder = Path(config.output_dir)
    for policy, tested in backtests.items():
        save_backtest(folder if len(backtests) == 1 else folder / policy, tested)
    if len(backtests) > 1:
        report_policies(folder, backtests)
    else:
        print_backtest(folder, *backtests.values())


def read_data_of_checkpoint(config: DictConfig) -> "DataModule":
    """Read the data for the model of a checkpoint. Raises ConfigError for settings that come from the checkpoint."""
    from forecast.inference.model_data import read_model_data

    typed = typed_overrides()
    for key, argument in typed.items():
        if key.split(".")[0] not in ALLOWED_WITH_CHECKPOINT:
            raise ConfigError(
                f"{argument}: with checkpoint=, a backtest takes its settings from the checkpoint: leave this one out"
            )
    find_named_files(config)
    data: dict[str, Any] = OmegaConf.to_container(config.data)  # type: ignore[assignment]
    names = {key.removeprefix("data.").split(".")[0] for key in typed if key.startswith("data.")}
    given = data if "data" in typed else {name: data[name] for name in names}
    return read_model_data(config.checkpoint, tested=True).read_data(given)


def backtest_checkpoint(config: DictConfig, data: "DataModule") -> "dict[str, Backtest]":
    """Backtest the model of a checkpoint; with `refit_every`, models that are trained with its settings."""
    from forecast.inference.backtest import NEVER, backtest_model, backtest_with_training
    from forecast.inference.forecasters import find_unread_columns, list_forecasters
    from forecast.inference.model import load_tested

    model = load_tested(config.checkpoint)
    settings = merge_settings(model, config, typed_overrides())
    if config.refit_every is None:
        unread = find_unread_columns(list_forecasters(model))
        return {NEVER: backtest_model(model, model.data(data, unread), settings)}
    return backtest_with_training(model.data(data), settings)


def merge_settings(model: "TrainedModel", config: DictConfig, keys: Collection[str]) -> DictConfig:
    """Merge the configuration of the checkpoint with that of the command, in which `keys` were typed.

    Callbacks and trainer come from the command, because the checkpoint may come from other hardware, and because they
    name classes that are instantiated. The limits of training come from the checkpoint unless they are typed.
    """
    from forecast.training.create_model import keep_precision

    check_stored_settings(model.path, [model.config["optimizer"], model.config["schedule"]], TRAINING_TARGETS)
    settings = OmegaConf.create(model.config)
    for key in (*FROM_COMMAND, *(["levels"] if "levels" in keys else [])):
        settings[key] = config[key]
    for key in ("max_epochs", "gradient_clip_val", "precision"):
        if f"trainer.{key}" not in keys:
            settings.trainer[key] = model.config["trainer"][key]
    settings.trainer.precision = keep_precision(settings.trainer.precision)
    return settings


if __name__ == "__main__":
    main_with_run_folder("backtest", can_resume=False)
