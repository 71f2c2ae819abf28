"""The run's loggers: made from the configuration, started, given the final results, closed whatever happens."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from lightning.pytorch.loggers import Logger, TensorBoardLogger, WandbLogger
from omegaconf import DictConfig

from forecast.errors import ConfigError
from forecast.report import Measured


def make(config: DictConfig) -> list[Logger]:
    """Every logger that the configuration names (`logger=[wandb,csv]`).

    Raises:
        ConfigError: an unknown mode, or a logger whose package is not installed.
    """
    if config.mode not in ("offline", "online"):
        raise ConfigError(f"logger.mode={config.mode} must be offline or online")
    loggers = []
    for name in config:
        if name == "mode":
            continue
        try:
            loggers.append(instantiate(config[name], _convert_="all"))
        except InstantiationException as error:
            if isinstance(error.__cause__, ModuleNotFoundError):
                raise ConfigError(
                    f"logger={name}: a package is not installed: pip install 'forecast[{name}]'"
                ) from None
            raise
    return loggers


@contextmanager
def running(loggers: list[Logger]) -> Iterator[None]:
    """Start the loggers, and close them in every case, or the next run of a sweep would write into this one's.

    Raises:
        ConfigError: W&B cannot be started (no account, no network).
    """
    status = "failed"
    try:
        for logger in loggers:
            if isinstance(logger, WandbLogger):
                start_wandb(logger)
        yield
        status = "success"
    finally:
        for logger in loggers:
            logger.finalize(status)
            if isinstance(logger, WandbLogger):
                finish_wandb(exit_code=0 if status == "success" else 1)


def start_wandb(logger: WandbLogger) -> None:
    import wandb

    wandb.setup(wandb.Settings(silent=True))  # what a run's own settings come too late for
    try:
        _ = logger.experiment  # starts the run, in the first process only
    except wandb.Error as error:
        first_line = str(error).splitlines()[0]
        raise ConfigError(
            f"W&B cannot be reached ({first_line}); `wandb login` sets an account up, "
            "and logger.mode=offline needs neither account nor network"
        ) from error


def finish_wandb(exit_code: int) -> None:
    import wandb

    run = wandb.run
    if run is None:  # another process than the first, or it could not be started
        return
    where = run.url or f"offline run; upload it with: wandb sync {Path(run.dir).parent}"
    run.finish(exit_code=exit_code)
    print(f"W&B: {where}")


def log_results(
    loggers: list[Logger], content: dict[str, Any], measured: Measured, images: dict[str, Path], step: int
) -> None:
    """Final scores and skill to every logger; error by step as a table and pictures where one can show them."""
    final = {f"test/{name}": value for name, value in content["test"].items()}
    for baseline, scores in content["baselines"].items():
        final |= {f"baseline/{baseline}/{name}": value for name, value in scores.items()}
    final |= {
        key: content[key]
        for key in ("skill", "seconds", "windows_per_second", "peak_memory_mb", "n_parameters")
    }
    for logger in loggers:
        if isinstance(logger, WandbLogger):
            logger.experiment.summary.update(final)  # single values: a curve of one point says nothing
            logger.log_table("error_by_step", dataframe=error_by_step(measured), step=step)
            for name, path in images.items():
                logger.log_image(f"pictures/{name}", [str(path)], step=step)
            continue
        logger.log_metrics(final, step=step)
        if isinstance(logger, TensorBoardLogger):
            from matplotlib import pyplot as plt

            for name, path in images.items():
                image = plt.imread(path)[..., :3]
                logger.experiment.add_image(name, image, global_step=step, dataformats="HWC")


def error_by_step(measured: Measured) -> pd.DataFrame:
    """MSE at each step of the horizon, one column for the model and each baseline."""
    steps = pd.DataFrame({name: errors.by_step()["mse"].numpy() for name, errors in measured.errors.items()})
    steps.insert(0, "step", range(1, len(steps) + 1))
    return steps
