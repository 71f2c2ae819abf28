"""Loggers of a run: create them from the configuration, start them, log the final results, close them."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from lightning.pytorch.loggers import Logger, TensorBoardLogger
from omegaconf import DictConfig

from forecast.evaluation.results import Results
from forecast.system.errors import ConfigError, NotInstalled
from forecast.training.resumable_loggers import WandbLogger
from forecast.training.wandb_runs import WANDB_MODES, describe_wandb, starting_wandb


def make(config: DictConfig) -> list[Logger]:
    """Create the loggers of the configuration (`logger=[wandb,csv]`).

    Raises:
        ConfigError: an unknown mode, or a logger whose package is not installed.
    """
    if config.mode not in WANDB_MODES:
        raise ConfigError(f"logger.mode={config.mode} must be offline or online")
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
                finish_wandb(logger, exit_code=0 if status == "success" else 1)


def start_wandb(logger: WandbLogger) -> None:
    with starting_wandb():
        logger.begin()


def finish_wandb(logger: WandbLogger, exit_code: int) -> None:
    import wandb

    run = wandb.run
    if run is None:  # not the first process, or W&B could not be started
        return
    where = describe_wandb(run)
    logger.attempt(lambda: run.finish(exit_code=exit_code))
    print(where)


def log_results(
    loggers: list[Logger], content: dict[str, Any], results: Results, images: dict[str, Path], step: int
) -> None:
    """Log final scores, skill and costs to every logger, and figures and errors by step to those that show them."""
    parts = {"test": "test", "baseline": "baselines", "intervals": "intervals"}
    final = flatten({name: content[part] for name, part in parts.items()})
    costs = ("seconds", "windows_per_second", "ms_per_window", "peak_memory_mb", "n_parameters")
    final |= {
        key: content[key] for key in ("skill", "validation_mse", "best_epoch", "shrinkage_weight", *costs)
    }
    for slot, summary in content["attention_slots"].items():
        final |= {f"tokens/{slot}/{side}": summary[side] for side in ("queries", "keys")}
    for logger in loggers:
        if isinstance(logger, WandbLogger):
            log_results_to_wandb(logger, final, error_by_step(results), images, step)
            continue
        logger.log_metrics(final, step=step)
        if isinstance(logger, TensorBoardLogger):
            from matplotlib import pyplot as plt

            for name, path in images.items():
                image = plt.imread(path)[..., :3]
                logger.experiment.add_image(name, image, global_step=step, dataformats="HWC")


def log_results_to_wandb(
    logger: WandbLogger, final: dict[str, float], steps: pd.DataFrame, images: dict[str, Path], step: int
) -> None:
    """Log each part in an attempt of its own: after the connection is lost, nothing may be asked of the run."""
    # summary: a curve of one point says nothing
    logger.attempt(lambda: logger.experiment.summary.update(final))
    logger.attempt(lambda: logger.log_table("error_by_step", dataframe=steps, step=step))
    logger.attempt(lambda: log_horizon(logger.experiment, steps))
    for name, path in images.items():
        logger.attempt(partial(logger.log_image, f"pictures/{name}", [str(path)], step=step))


def flatten(nested: dict[str, Any], prefix: str = "") -> dict[str, float]:
    """Flatten `{"baseline": {"naive": {"mse": 1.0}}}` to `{"baseline/naive/mse": 1.0}`."""
    flat = {}
    for name, value in nested.items():
        path = f"{prefix}{name}"
        flat |= flatten(value, f"{path}/") if isinstance(value, dict) else {path: value}
    return flat


def log_horizon(run: Any, steps: pd.DataFrame) -> None:
    """Log error by step as curves over `horizon/step`, which W&B can overlay and average over runs."""
    run.define_metric("horizon/step", hidden=True)
    rows = steps.rename(columns=lambda name: f"horizon/{name}" if name == "step" else f"horizon/{name}_mse")
    for name in rows.columns.drop("horizon/step"):
        run.define_metric(name, step_metric="horizon/step", summary="none")
    for row in rows.to_dict("records"):
        run.log(row)


def error_by_step(results: Results) -> pd.DataFrame:
    """Tabulate the MSE at each step of the horizon, one column for the model and each baseline."""
    steps = pd.DataFrame({name: errors.by_step()["mse"].numpy() for name, errors in results.errors.items()})
    steps.insert(0, "step", range(1, len(steps) + 1))
    return steps
