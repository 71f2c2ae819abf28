"""Body of `python -m forecast.train`: read the data, then train a forecaster, test it and save the results."""

import time
from typing import TYPE_CHECKING

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from forecast.cli.overrides import typed_overrides
from forecast.system.memory import PeakMemory, keep_freed_memory
from forecast.training.preparation import check_settings, filter_messages, read_data

if TYPE_CHECKING:
    from forecast.data import DataModule


CONSTRUCTED = ("model.", "size", "variables", "label_len", "trainer.")
"""Beginnings of the keys whose values only constructors check. If none is typed, PyTorch is imported after the data."""


def check_training(config: DictConfig) -> None:
    """Check everything that the configuration alone decides, before data are read; see `check_settings`."""
    check_settings(config)
    typed = typed_overrides() if HydraConfig.initialized() else {}
    if any(key.startswith(CONSTRUCTED) and key != "trainer.max_epochs" for key in typed):
        from forecast.training.build import check_construction

        filter_messages()  # Lightning sets the levels of its loggers when it is imported
        check_construction(config)


def train(config: DictConfig, data: "DataModule | None" = None) -> float:
    """Train, test and save one model, as the configuration describes.

    Args:
        config: the composed configuration.
        data: a data module that is set up. None: create the one that `config.data` describes.

    Returns:
        The score of the tested model on the validation windows: the quantile loss with loss=quantile, otherwise the
        MSE, of scaled values. A search minimises it.
    """
    keep_freed_memory()
    check_training(config)
    memory, began = PeakMemory(), time.perf_counter()
    data = read_data(config) if data is None else data
    seconds = time.perf_counter() - began
    from forecast.training.run import train_on  # imports Lightning: a file is refused before

    return train_on(config, data, memory, seconds)
