"""Loggers of a run: create them from the configuration, start them, log the final results, close them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from lightning.pytorch.loggers import Logger, TensorBoardLogger
from omegaconf import DictConfig

from forecast.evaluation.measurement import Results
from forecast.system.errors import NotInstalled
from forecast.system.identity import flatten
from forecast.training.service_logger import FinalResults, ServiceLogger


def make_loggers(config: DictConfig) -> list[Logger]:
    """Create the loggers of the configuration (`logger=[wandb,csv]`).

    Raises:
        NotInstalled: a package of a logger is not installed.
    """
    loggers = []
    for name in config:
        if name == "mode":
            continue
        try:
            loggers.append(instantiate(config[name], _convert_="all"))
        except InstantiationException as error:
            if isinstance(error.__cause__, ModuleNotFoundError):
                raise NotInstalled(f"logger={name}", str(name)) from None
            raise
    return loggers


@contextmanager
def running(loggers: list[Logger]) -> Iterator[None]:
    """Start the loggers, and close them even after an error, so that the next run of a sweep does not write to them.

    Raises:
        ConfigError: a tracking service cannot be reached.
    """
    status = "failed"
    try:
        for logger in loggers:
            if isinstance(logger, ServiceLogger):
                logger.begin()
        yield
        status = "success"
    finally:
        for logger in loggers:
            logger.finalize(status)
            if isinstance(logger, ServiceLogger):
                logger.end(succeeded=status == "success")


def log_results(
    loggers: list[Logger],
    content: dict[str, Any],
    results: Results,
    images: dict[str, Path],
    window_errors: Path,
    step: int,
) -> None:
    """Log final scores, skill and costs to every logger, and figures and errors to those that keep them."""
    final = FinalResults(collect_scores(content), error_by_step(results), images, window_errors, content)
    for logger in loggers:
        if isinstance(logger, ServiceLogger):
            logger.log_final(final, step)
            continue
        logger.log_metrics(final.scores, step=step)
        if isinstance(logger, TensorBoardLogger):
            from matplotlib import pyplot as plt

            for name, path in images.items():
                image = plt.imread(path)[..., :3]
                logger.experiment.add_image(name, image, global_step=step, dataformats="HWC")


def collect_scores(content: dict[str, Any]) -> dict[str, Any]:
    """Collect the numbers that every logger receives at the end from the content of metrics.json."""
    parts = {"test": "test", "baseline": "baselines", "intervals": "intervals"}
    scores = dict(flatten({name: content[part] for name, part in parts.items()}, sign="/"))
    costs = ["seconds", "windows_per_second", "ms_per_window", "n_parameters"]
    if content["peak_memory_of"] == "device":  # that of a process holds what earlier runs freed
        costs.append("peak_memory_mb")
    scores |= {key: score for key, score in content.items() if key.startswith("validation_")}
    scores |= {key: content[key] for key in ("skill", "best_epoch", "shrinkage_weight", *costs)}
    for slot, summary in content["attention_slots"].items():
        scores |= {f"tokens/{slot}/{side}": summary[side] for side in ("queries", "keys")}
    return scores


def error_by_step(results: Results) -> pd.DataFrame:
    """Tabulate the MSE at each step of the horizon, one column for the model and each baseline."""
    steps = pd.DataFrame({name: errors.by_step()["mse"].numpy() for name, errors in results.errors.items()})
    steps.insert(0, "step", range(1, len(steps) + 1))
    return steps
