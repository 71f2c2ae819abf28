"""Body of `python -m forecast.train`: read the data, then train a forecaster, test it and save the results."""

import time
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from forecast.system.memory import PeakMemory, keep_freed_memory
from forecast.training.read_data import read_data

if TYPE_CHECKING:
    from forecast.data import DataModule


def train(config: DictConfig, data: "DataModule | None" = None) -> float:
    """Train, test and save one model, as the configuration describes.

    Args:
        config: the composed configuration. Values `auto` are replaced in place.
        data: a data module that is set up. None: create the one that `config.data` describes.

    Returns:
        The score of the tested model on the validation windows: the quantile loss with loss=quantile, otherwise the
        MSE, of scaled values. A search minimises it.
    """
    keep_freed_memory()
    memory, began = PeakMemory(), time.perf_counter()
    data = read_data(config) if data is None else data
    seconds = time.perf_counter() - began
    from forecast.training.run import train_on  # imports Lightning: a file is refused before

    return train_on(config, data, memory, seconds)
