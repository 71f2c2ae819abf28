"""Configurations made in a program as the command line would make them, kept, and looked at. Imports no torch."""

from collections.abc import Sequence
from pathlib import Path

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from forecast import processes
from forecast.errors import ConfigError
from forecast.files import whole_file
from forecast.paths import CONF

OmegaConf.register_new_resolver("processes_per_node", processes.per_node, replace=True)
OmegaConf.register_new_resolver("nodes", processes.nodes, replace=True)


def composed(*overrides: str, config_name: str = "train") -> DictConfig:
    """What these overrides give, outside a run: its `output_dir` is empty."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(config_name, overrides=["output_dir=''", *overrides])


def run_folder(config_name: str, arguments: Sequence[str]) -> str:
    """Where a run of these arguments that begins now would be kept."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(config_name, overrides=[*arguments], return_hydra_config=True).hydra.run.dir


def keep(folder: Path, config: DictConfig, typed: Sequence[str]) -> None:
    """Write how a run was configured into its folder: `config.yaml`, and what was typed as `overrides.yaml`."""
    with whole_file(folder / "config.yaml") as temporary:
        OmegaConf.save(config, temporary)
    keep_typed(folder, typed)


def keep_typed(folder: Path, typed: Sequence[str]) -> None:
    with whole_file(folder / "overrides.yaml") as temporary:
        OmegaConf.save(OmegaConf.create(list(typed)), temporary)


def check_one_table(config: DictConfig, command: str) -> None:
    """Raises ConfigError where a command that is made for one table is given many series."""
    if config.data._target_ == "forecast.data.SeriesData":
        raise ConfigError(
            f"data=long: {command} works on one table; train, predict and evaluate take many series"
        )


def check_checkpoint(config: DictConfig) -> None:
    """Raises ConfigError where a command on a trained model was not told which."""
    if not config.checkpoint:
        raise ConfigError("checkpoint= is needed: checkpoint=runs/RUN, or a checkpoint file")
