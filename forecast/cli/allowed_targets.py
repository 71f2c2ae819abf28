"""Allowed targets: a configuration may only instantiate the classes that the files below conf/ name.

Hydra instantiates whatever a `_target_` names and resolves `${...}` before that, and a command line may be pasted
from anywhere. To allow a class, such as a new attention, name it in a YAML file below conf/, or give its full name in
the environment variable FORECAST_TARGETS (several names are separated by colons). Checkpoints are checked by
`forecast.checkpoints.settings`.

Imports no torch: `forecast.cli.main` runs these checks before every command.
"""

import re
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from omegaconf import Container, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from forecast.system.errors import ConfigError
from forecast.system.hydra_internals import plugin_targets
from forecast.system.targets import known_targets

FLAGS = ("config_dir", "config_path", "config_name", "experimental_rerun")
"""Hydra's flags that read settings from elsewhere; the last one unpickles them."""

LOGGING = {
    "logging.StreamHandler",
    "logging.FileHandler",
    "ext://sys.stdout",
    "ext://sys.stderr",
    "${hydra.runtime.output_dir}/${hydra.job.name}.log",
    "${hydra:runtime.output_dir}/${hydra:job.name}.log",
}
"""What Hydra's logging files and ours name: `logging.config` calls what stands under `()` and `class`."""

SIMPLE = re.compile(r"\$\{[\w.]+\}|\$\{(?:hydra|now|oc\.env|random_suffix|job_folder):[^${}]*\}")
"""Interpolations that cannot turn text into a mapping."""

MOST_GROUPS = 3_000
"""The largest number of mappings and lists in a configuration; one that refers to itself has infinitely many."""


# ---- the command line


def check_flags(typed: Namespace) -> None:
    """Raises ConfigError for a flag that reads settings from elsewhere."""
    for flag in FLAGS:
        if getattr(typed, flag) is not None:
            raise ConfigError(
                f"--{flag.replace('_', '-')}: settings come from conf/ and the command line alone; "
                "put a YAML file into conf/"
            )


def check_composed(config: DictConfig) -> None:
    """Check a composed configuration, Hydra's part included, before Hydra instantiates any of it.

    Raises:
        ConfigError: naming the first key with a target that is not allowed.
    """
    check_targets(config, known_targets() | plugin_targets())
    for name, value in leaves(config.hydra, "hydra"):
        if name == "hydra.sweeper.custom_search_space" and value is not None:
            raise ConfigError(f"{name}={value}: a search's space is written in conf/search, as values alone")
        if name.startswith(("hydra.job_logging.", "hydra.hydra_logging.")):
            is_named = name.endswith((".()", ".class")) or "://" in str(value) or "${" in str(value)
            if is_named and value not in LOGGING:
                raise ConfigError(f"{name}={value}: logging may use {', '.join(sorted(LOGGING)[2:])} alone")
        text, before = str(value), ""
        while text != before:
            text, before = SIMPLE.sub("", text), text
        if "${" in text and not name.startswith("hydra.help."):
            raise ConfigError(f"{name}={value}: write out what it should be")


def check_targets(config: Any, known: frozenset[str]) -> None:
    """Raises ConfigError naming the first `_target_` of a configuration, interpolations resolved, that is not known."""
    for name, value in leaves(config):
        if "_target_" in name.split(".") and value not in known:
            raise ConfigError(
                f"{name}={value}: only what a file below conf/ names can be made; nothing was run. Name a class of "
                "your own in a YAML file there, or in the environment variable FORECAST_TARGETS"
            )


def leaves(config: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted key and the value of every setting, resolved where possible.

    Raises:
        ConfigError: the configuration refers to itself without end.
    """
    waiting, seen = [(prefix, config)], 0
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, Mapping | Sequence) and not isinstance(value, str):
            seen += 1
            if seen > MOST_GROUPS:
                raise ConfigError(f"{name}: the settings repeat themselves without end")
            keys = list(value) if isinstance(value, Mapping) else range(len(value))
            waiting += [(f"{name}.{key}".lstrip("."), resolved(value, key)) for key in reversed(keys)]
        else:
            yield name, value


def resolved(config: Any, key: Any) -> Any:
    """A setting's value. An interpolation that cannot be resolved yet is its own text, a missing value None."""
    try:
        return config[key]
    except OmegaConfBaseException:
        if isinstance(config, Container) and OmegaConf.is_missing(config, key):
            return None
        plain: Any = OmegaConf.to_container(config)
        return plain[key]
