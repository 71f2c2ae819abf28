"""Reading of the data that a configuration describes. Imports no torch, so that a command refuses a file at once."""

from hydra.utils import instantiate
from omegaconf import DictConfig

from forecast.cli.named_files import find_named_files
from forecast.data import DataModule
from forecast.system import signals
from forecast.system.errors import ConfigError


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
