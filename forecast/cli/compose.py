"""Composition of configurations, and checks of composed configurations. Imports no torch."""

import re
import secrets
from collections.abc import Sequence

from hydra import compose, initialize_config_dir
from hydra.errors import MissingConfigException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from forecast.cli import allowed_targets, key_help, overrides
from forecast.cli.sweep_values import first_of_sweep, first_of_sweeps, refuse_sweep
from forecast.cli.traverse import is_resolvable, list_settings
from forecast.system import distributed
from forecast.system.errors import ConfigError
from forecast.system.hydra_internals import VERSION_BASE, apply_values, prefer_own_plugins
from forecast.system.identity import name_attention, without_hydra
from forecast.system.keys import AS_TRAINED, ROWS
from forecast.system.paths import CONF

OmegaConf.register_new_resolver("processes_per_node", distributed.processes_per_node, replace=True)
OmegaConf.register_new_resolver("nodes", distributed.nodes, replace=True)
OmegaConf.register_new_resolver("key_help", key_help.describe_keys, replace=True)
OmegaConf.register_new_resolver("at_most", min, replace=True)
OmegaConf.register_new_resolver("attention_name", name_attention, replace=True)
OmegaConf.register_new_resolver(
    "random_suffix", lambda *_: secrets.token_hex(3), use_cache=True, replace=True
)

RUN_NAME = re.compile(r"[^./\\][^/\\]{0,150}")

FROM_CHECKPOINT = tuple(key for key in AS_TRAINED if key in ROWS)
"""Keys that the files of conf/data refer to. A command on a trained model takes them from its checkpoint."""


def compose_config(*arguments: str, config_name: str = "train") -> DictConfig:
    """Compose the configuration of these overrides outside of a run, with an empty `output_dir`."""
    prefer_own_plugins()
    with initialize_config_dir(str(CONF), version_base=VERSION_BASE):
        return compose(config_name, overrides=["output_dir=''", *arguments])


def compose_command(config_name: str, arguments: Sequence[str], *, sweeps: bool = False) -> DictConfig:
    """Check a command's overrides and compose its configuration, Hydra's part included.

    Hydra composes the chosen options of groups. The keys of this configuration are the valid keys, and its values give
    the types of valid values. Then the other overrides are applied. With `sweeps`, overrides may have several values;
    the configuration has the first of a sweep over choices.

    Raises:
        ConfigError: a key or option is unknown, a value has the wrong type or is out of range, an override has several
            values without -m, an interpolation cannot be resolved, or the run name is not a valid folder name.
    """
    parsed = overrides.parse(arguments)
    groups = [override for override in parsed if overrides.is_group(override)]
    for group in groups:
        if not group.key_or_group.startswith("hydra/"):
            overrides.check_options(group)
    with initialize_config_dir(str(CONF), version_base=VERSION_BASE):
        config = compose_options(config_name, [first_of_sweep(group) for group in groups])
        allowed_targets.check_search_path(arguments)
        overrides.check_keys(parsed, config)
        if len(groups) < len(parsed):
            apply_values(config, first_of_sweeps(parsed), overrides.is_group)
    typed = {override.key_or_group for override in parsed}
    overrides.check_search_space(config, typed)
    check_interpolations(config, typed)
    if not sweeps and config.hydra.mode != RunMode.MULTIRUN:
        refuse_sweep(parsed)
    return config


def compose_options(config_name: str, options: list[str]) -> DictConfig:
    """Compose the configuration of these options of groups.

    Raises:
        ConfigError: an option of a group of Hydra does not exist, or needs an extra that is not installed.
    """
    prefer_own_plugins()
    try:
        config = compose(config_name, overrides=options, return_hydra_config=True)
    except MissingConfigException as error:  # `check_options` checks the groups of conf/
        raise overrides.missing_option(error) from None
    overrides.check_installed(config.hydra.runtime.choices)
    return config


def check_interpolations(config: DictConfig, typed: set[str]) -> None:
    """Check that every interpolation can be resolved, and that the run name is a valid folder name.

    Raises:
        ConfigError: one of them is invalid; the message names the key.
    """
    config = without_hydra(config)
    if "output_dir" in config:
        config.output_dir = ""  # known only within a run
    for key in FROM_CHECKPOINT:
        config.setdefault(key, 0)
    try:
        OmegaConf.resolve(config)
    except (OmegaConfBaseException, RecursionError) as error:
        keys = [key for key, _ in list_settings(config)]
        keys.sort(key=lambda key: key not in typed)  # of several, one that the user typed
        key = next((key for key in keys if not is_resolvable(config, key)), "a setting")
        raise ConfigError(f"{key}: {str(error).splitlines()[0]}") from None
    name = config.get("run_name")
    if name is not None and not (RUN_NAME.fullmatch(str(name)) and str(name).isprintable()):
        raise ConfigError(f"run_name={name} is not a valid folder name; give another")


def check_checkpoint(config: DictConfig) -> None:
    """Raise ConfigError if no checkpoint is given."""
    if not config.checkpoint:
        raise ConfigError("checkpoint= is needed: checkpoint=runs/RUN, or a checkpoint file")
