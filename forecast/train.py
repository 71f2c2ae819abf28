"""Train a forecaster, test it beside baselines, save the results: `forecast train --help`."""

import time
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from forecast.cli.main import main_with_run_folder
from forecast.system.memory import PeakMemory, keep_freed_memory

if TYPE_CHECKING:
    from forecast.data import DataModule


def train(config: DictConfig, data: "DataModule | None" = None) -> float:
    """Train, test and save one model, as the configuration describes.

    `data`: a data module that is set up. None: create the one that `config.data` describes.

    Returns:
        The score of the tested model on the validation windows: the quantile loss with loss=quantile, otherwise the
        MSE, of scaled values. A search minimises it.
    """
    from forecast.training.preparation import check_settings, read_data

    keep_freed_memory()
    check_settings(config)
    memory, began = PeakMemory(), time.perf_counter()
    data = read_data(config) if data is None else data
    seconds = time.perf_counter() - began
    from forecast.training.run import train_on  # imports Lightning: a file is refused before

    return train_on(config, data, memory, seconds)


if __name__ == "__main__":
    main_with_run_folder("train", show_sweep="forecast.compare:show_sweep")
