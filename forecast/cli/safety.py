"""Safety: allowed targets, and secrets that stay out of run folders."""

import os
import re
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from omegaconf import Container, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from forecast.system.errors import ConfigError
from forecast.system.hydra_internals import plugin_targets
from forecast.system.location import known_targets

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


MAX_CONTAINERS = 3_000
"""Largest number of mappings and lists in a configuration. One that refers to itself has infinitely many."""


def leaves(config: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted key and the value of every setting, also of those in lists and behind interpolations.

    Raises ConfigError: the configuration refers to itself without end.
    """
    waiting, seen = [(prefix, config)], 0
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, Mapping | Sequence) and not isinstance(value, str):
            seen += 1
            if seen > MAX_CONTAINERS:
                raise ConfigError(f"{name}: the settings repeat themselves without end")
            keys = list(value) if isinstance(value, Mapping) else range(len(value))
            waiting += [(f"{name}.{key}".lstrip("."), value_or_text(value, key)) for key in reversed(keys)]
        else:
            yield name, value


def value_or_text(config: Any, key: Any) -> Any:
    """The value of a setting: the text of an interpolation that cannot be resolved yet, None for a missing value."""
    try:
        return config[key]
    except OmegaConfBaseException:
        if isinstance(config, Container) and OmegaConf.is_missing(config, key):
            return None
        plain: Any = OmegaConf.to_container(config)
        return plain[key]


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

    Raises ConfigError: a target is not allowed, or a value is a secret; the message names the first such key.
    """
    check(config, known_targets() | plugin_targets())
    for name, value in leaves(config.hydra, "hydra"):
        if name.startswith(("hydra.job_logging.", "hydra.hydra_logging.")):
            is_named = name.endswith((".()", ".class")) or "://" in str(value) or "${" in str(value)
            if is_named and value not in LOGGING:
                raise ConfigError(f"{name}={value}: logging may only use {', '.join(sorted(LOGGING)[2:])}")
        text, before = str(value), ""
        while text != before:
            text, before = SAFE_INTERPOLATION.sub("", text), text
        if "${" in text and not name.startswith("hydra.help."):
            raise ConfigError(f"{name}={value}: this interpolation is not allowed here; write the value itself")


def check_targets(config: Any, known: frozenset[str]) -> None:
    """Raise ConfigError that names the first `_target_`, with interpolations resolved, that is not in `known`."""
    for name, value in leaves(config):
        if "_target_" in name.split(".") and value not in known:
            raise ConfigError(
                f"{name}={value}: no file below conf/ names this class; nothing was run. Name a class of "
                "your own in a YAML file there, or in the environment variable FORECAST_TARGETS"
            )


KEY = re.compile(
    r"(?:^|[._])(?:api_?key|(?:secret|private|access)_?key|secret|token|passw(?:or)?d|credentials?)$", re.I
)
VARIABLE = re.compile(r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:$|_)", re.I)
ADDRESS = re.compile(r"://[^/?#\s]+@|[?&][\w-]*(?:token|secret|signature|password|credential|api_?key)[\w-]*=", re.I)
MIN_LENGTH = 8  # fewer characters of a variable may occur in other text by chance
ADVICE = (
    "it would be saved where others may read it; set an environment variable (WANDB_API_KEY) or use a password file "
    "(~/.netrc)"
)


def check_typed(arguments: Sequence[str]) -> None:
    """Raise ConfigError for a secret on the command line. The message does not repeat the secret."""
    known = in_environment()
    for argument in arguments:
        key, _, value = argument.partition("=")
        check_setting(key.lstrip("+~"), value, known)
        if value.startswith("{"):
            for below, text in re.findall(r"([\w.]+)['\"]?\s*:\s*([^,{}]*)", value):
                check_setting(f"{key.lstrip('+~')}.{below}", text, known)


def check(config: Any, targets: frozenset[str] | None = None) -> None:
    """Check a configuration before any of it is instantiated; `targets`: the allowed ones, otherwise those of conf/.

    Raises ConfigError: a target is not allowed, or a value is a secret, which the message does not repeat.
    """
    check_targets(config, known_targets() if targets is None else targets)
    known = in_environment()
    for name, value in leaves(config):
        if value is not None and not isinstance(value, bool):
            check_setting(name, str(value), known)


def in_environment() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if VARIABLE.search(name) and len(text) >= MIN_LENGTH}


def check_setting(name: str, value: str, known: dict[str, str]) -> None:
    """Raise ConfigError if a setting is a secret by its key, its address or its value."""
    if KEY.search(name) and value not in ("", "null"):
        raise ConfigError(f"{name}: a secret: {ADVICE}")
    if ADDRESS.search(value):
        raise ConfigError(f"{name}: an address with a secret in it: {ADVICE}")
    for variable, secret in known.items():
        if secret in name + value:
            raise ConfigError(f"{name.replace(secret, '...')}: the value of {variable}: {ADVICE}")
