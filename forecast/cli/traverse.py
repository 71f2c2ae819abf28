"""The settings of a configuration whose interpolations may not resolve. Imports no torch."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from omegaconf import Container, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from forecast.system.errors import ConfigError

MAX_CONTAINERS = 3_000
"""Largest number of mappings and lists in a configuration. One that refers to itself has infinitely many."""


def leaves(config: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted key and the value of every setting, also of those in lists and behind interpolations.

    Raises:
        ConfigError: the configuration refers to itself without end.
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


def list_settings(config: DictConfig, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each dotted key and its value, which is None if it cannot be resolved. A list is one value."""
    for key in map(str, config):
        name = f"{prefix}{key}"
        value = None if OmegaConf.is_missing(config, key) else value_or_none(config, key)
        if isinstance(value, DictConfig) and not OmegaConf.is_interpolation(config, key):
            yield from list_settings(value, f"{name}.")
        else:
            yield name, value


def value_or_none(config: DictConfig, key: str) -> Any:
    """The value of a key; None for an interpolation that cannot be resolved."""
    try:
        return config[key]
    except OmegaConfBaseException:
        return None


def is_resolvable(config: DictConfig, key: str) -> bool:
    """Whether the value of a key has no unresolvable interpolation."""
    try:
        OmegaConf.select(config, key)
    except (OmegaConfBaseException, RecursionError):
        return False
    return True
