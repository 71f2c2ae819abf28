"""The run's loggers: made from the configuration, given the final results, closed whatever happens."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
from hydra.utils import instantiate
from lightning.pytorch.loggers import Logger, TensorBoardLogger, WandbLogger
from omegaconf import DictConfig

from forecast.errors import ConfigError
from forecast.report import Measured


def make(config: DictConfig) -> list[Logger]:
    """Every logger that the configuration names (`logger=[wandb,csv]`)."""
    if config.mode not in ("offline", "online"):
        raise ConfigError(f"logger.mode={config.mode} must be offline or online")
    return [instantiate(config[name], _convert_="all") for name in config if name != "mode"]


def log_results(
    loggers: list[Logger], content: dict[str, Any], measured: Measured, images: dict[str, Path]
) -> None:
    """Final scores and skill to every logger; error by step as a table and pictures where one can show them."""
    final = {f"test/{name}": value for name, value in content["test"].items()}
    for baseline, scores in content["baselines"].items():
        final |= {f"baseline/{baseline}/{name}": value for name, value in scores.items()}
    final |= {
        key: content[key]
        for key in ("skill", "seconds", "windows_per_second", "peak_memory_mb", "n_parameters")
    }
    steps = pd.DataFrame({name: errors.by_step()["mse"].numpy() for name, errors in measured.errors.items()})
    steps.insert(0, "step", range(1, len(steps) + 1))
    for logger in loggers:
        logger.log_metrics(final)
        if isinstance(logger, WandbLogger):
            logger.experiment.summary.update(final)
            logger.log_table("error_by_step", dataframe=steps)
            for name, path in images.items():
                logger.log_image(name, [str(path)])
        if isinstance(logger, TensorBoardLogger):
            from matplotlib import pyplot as plt

            for name, path in images.items():
                logger.experiment.add_image(name, plt.imread(path)[..., :3], dataformats="HWC")


@contextmanager
def finished_at_the_end() -> Iterator[None]:
    """Close the W&B run in every case, or the next run of a sweep would write into it."""
    try:
        yield
    except BaseException:
        finish(exit_code=1)
        raise
    finish(exit_code=0)


def finish(exit_code: int) -> None:
    import wandb

    if wandb.run is not None:
        wandb.finish(exit_code=exit_code)
