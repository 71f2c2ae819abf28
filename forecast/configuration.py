"""Configurations made in a program, as the command line would make them. Imports no torch."""

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from forecast.paths import CONF


def composed(*overrides: str, config_name: str = "train") -> DictConfig:
    """What these overrides give, outside a run: its `output_dir` is empty."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(config_name, overrides=["output_dir=''", *overrides])
