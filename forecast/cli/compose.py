"""Composition of configurations, and checks of composed configurations. Imports no torch."""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.types import Override
from hydra.errors import MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from forecast.cli import overrides
from forecast.system import distributed
from forecast.system.errors import ConfigError
from forecast.system.hydra_internals import VERSION_BASE
from forecast.system.paths import CONF

OmegaConf.register_new_resolver("processes_per_node", distributed.per_node, replace=True)
OmegaConf.register_new_resolver("nodes", distributed.nodes, replace=True)
OmegaConf.register_new_resolver(
    "random_suffix", lambda *_: secrets.token_hex(3), use_cache=True, replace=True
)

RUN_NAME = re.compile(r"[^./\\][^/\\]{0,150}")

FROM_CHECKPOINT = ("seq_len", "pred_len", "features", "seed")
"""Keys that the files of conf/data refer to. A command on a trained model takes them from its checkpoint."""


@dataclass(frozen=True)
class ComposedCommand:
    """A command line after parsing, checks and composition."""

    overrides: list[str]
    """The overrides as typed, with free text quoted."""
    parsed: list[Override]
    config: DictConfig
    """The configuration with Hydra's part, and with the first value of each sweep over choices."""


def composed(*arguments: str, config_name: str = "train") -> DictConfig:
    """Compose the configuration of these overrides outside of a run, with an empty `output_dir`."""
    with initialize_config_dir(str(CONF), version_base=VERSION_BASE):
        return compose(config_name, overrides=["output_dir=''", *arguments])


def compose_command(config_name: str, arguments: Sequence[str]) -> ComposedCommand:
    """Check and compose a command's overrides.

    Raises:
        ConfigError: a key or option is unknown, a value has the wrong type or is out of range, an interpolation cannot
            be resolved, or the run name is not a valid folder name.
    """
    parsed = overrides.parse(arguments)
    groups = [o for o in parsed if overrides.is_group(o)]
    for group in groups:
        if not group.key_or_group.startswith("hydra/"):
            overrides.check_options(group)
    chosen = [overrides.first_of_sweep(group) for group in groups]
    with initialize_config_dir(str(CONF), version_base=VERSION_BASE):
        try:
            defaults = compose(config_name, overrides=chosen, return_hydra_config=True)
        except MissingConfigException as error:  # of a group of Hydra; groups of conf/ are checked above
            raise overrides.missing_option(error) from None
        overrides.check_installed(chosen)
        check_search_path(arguments)
        overrides.check_keys(parsed, defaults)
        first = overrides.first_of_sweeps(parsed)
        is_default = sorted(first) == sorted(chosen)
        config = defaults if is_default else compose(config_name, overrides=first, return_hydra_config=True)
    check_resolves(config, {o.key_or_group for o in parsed})
    return ComposedCommand(list(arguments), parsed, config)


def check_search_path(arguments: Sequence[str]) -> None:
    """Raise ConfigError for an override of Hydra's search path."""
    for argument in arguments:
        if argument.lstrip("+~").startswith("hydra.searchpath"):
            raise ConfigError(f"{argument}: settings come only from conf/; put a YAML file there")


def check_resolves(config: DictConfig, typed: set[str]) -> None:
    """Check that every interpolation can be resolved, and that the run name is a valid folder name.

    Raises:
        ConfigError: one of them is invalid; the message names the key.
    """
    config = without_hydra(config)
    if "output_dir" in config and "output_dir" not in typed:
        config.output_dir = ""  # known only within a run
    for key in FROM_CHECKPOINT:
        config.setdefault(key, 0)
    try:
        OmegaConf.resolve(config)
    except (OmegaConfBaseException, RecursionError) as error:
        given = typed & set(dict(overrides.flatten(config)))
        key = next((key for key in sorted(given) if not is_resolvable(config, key)), "a setting")
        raise ConfigError(f"{key}: {str(error).splitlines()[0]}") from None
    name = config.get("run_name")
    if name is not None and not (RUN_NAME.fullmatch(str(name)) and str(name).isprintable()):
        raise ConfigError(f"run_name={name} is not a valid folder name; give another")


def without_hydra(config: DictConfig) -> DictConfig:
    """Copy a configuration without Hydra's part. Keys can be added to the copy."""
    copy = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
    OmegaConf.set_struct(copy, False)
    return copy


def is_resolvable(config: DictConfig, key: str) -> bool:
    """Whether the value of a key has no unresolvable interpolation."""
    try:
        OmegaConf.select(config, key)
    except OmegaConfBaseException:
        return False
    return True


def check_checkpoint(config: DictConfig) -> None:
    """Raise ConfigError if no checkpoint is given."""
    if not config.checkpoint:
        raise ConfigError("checkpoint= is needed: checkpoint=runs/RUN, or a checkpoint file")
