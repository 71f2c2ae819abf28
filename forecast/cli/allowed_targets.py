"""Allowed targets: a configuration may only instantiate the classes that the files below conf/ name.

Hydra instantiates any class that a `_target_` names, and a user may paste a command line of unknown origin. To allow a
class, such as a new attention type, name it in a YAML file below conf/ or in the environment variable FORECAST_TARGETS,
which separates several names with colons. `forecast.checkpoints.settings` checks checkpoints.

Imports no torch: `forecast.cli.main` runs these checks before every command.
"""

import re
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from omegaconf import DictConfig

from forecast.cli.traverse import leaves
from forecast.system.errors import ConfigError
from forecast.system.hydra_internals import plugin_targets
from forecast.system.targets import known_targets

FLAGS = ("config_dir", "config_path", "config_name", "experimental_rerun")
"""Hydra's flags that read settings from other places than conf/; the last one unpickles a file."""

LOGGING = {
    "logging.StreamHandler",
    "logging.FileHandler",
    "ext://sys.stdout",
    "ext://sys.stderr",
    "${hydra.runtime.output_dir}/${hydra.job.name}.log",
    "${hydra:runtime.output_dir}/${hydra:job.name}.log",
}
"""Allowed values of logging settings. `logging.config` calls the values of the keys `()` and `class`."""

SAFE_INTERPOLATION = re.compile(r"\$\{[\w.]+\}|\$\{(?:hydra|now|oc\.env|random_suffix|job_folder):[^${}]*\}")
"""Interpolations that cannot turn text into a mapping, which could name a target."""


def check_flags(typed: Namespace) -> None:
    """Raise ConfigError for a flag that reads settings from other places than conf/."""
    for flag in FLAGS:
        if getattr(typed, flag) is not None:
            raise ConfigError(
                f"--{flag.replace('_', '-')}: settings come only from conf/ and the command line; "
                "put a YAML file into conf/"
            )


def check_search_path(arguments: Sequence[str]) -> None:
    """Raise ConfigError for an override of Hydra's search path."""
    for argument in arguments:
        if argument.lstrip("+~").startswith("hydra.searchpath"):
            raise ConfigError(f"{argument}: settings come only from conf/; put a YAML file there")


def check_composed(config: DictConfig) -> None:
    """Check a composed configuration, Hydra's part included, before Hydra instantiates any of it.

    Raises:
        ConfigError: a target is not allowed; the message names the first such key.
    """
    check_targets(config, known_targets() | plugin_targets())
    for name, value in leaves(config.hydra, "hydra"):
        if name.startswith(("hydra.job_logging.", "hydra.hydra_logging.")):
            is_named = name.endswith((".()", ".class")) or "://" in str(value) or "${" in str(value)
            if is_named and value not in LOGGING:
                raise ConfigError(f"{name}={value}: logging may only use {', '.join(sorted(LOGGING)[2:])}")
        text, before = str(value), ""
        while text != before:
            text, before = SAFE_INTERPOLATION.sub("", text), text
        if "${" in text and not name.startswith("hydra.help."):
            raise ConfigError(
                f"{name}={value}: this interpolation is not allowed here; write the value itself"
            )


def check_targets(config: Any, known: frozenset[str]) -> None:
    """Raise ConfigError that names the first `_target_`, with interpolations resolved, that is not in `known`."""
    for name, value in leaves(config):
        if "_target_" in name.split(".") and value not in known:
            raise ConfigError(
                f"{name}={value}: no file below conf/ names this class; nothing was run. Name a class of "
                "your own in a YAML file there, or in the environment variable FORECAST_TARGETS"
            )
