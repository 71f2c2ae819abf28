"""Checks of the values of settings.

`advice` ends the message.
"""

from collections.abc import Iterable

from forecast.system.errors import ConfigError


def check_choice(key: str, value: object, choices: Iterable[str], *, advice: str = "") -> None:
    """Raise ConfigError unless the value of the setting `key` is one of `choices`."""
    known = list(choices)
    if value not in known:
        raise ConfigError(f"{key}={value} is not one of {', '.join(known)}{advice}")


def check_count(
    key: str, value: object, *, unit: str | None = None, least: int = 1, advice: str = ""
) -> None:
    """Raise ConfigError unless the value of the setting `key` is a whole number (of `unit`) of at least `least`."""
    if type(value) is not int or value < least:
        limit = f"of at least {least}" if unit is None else f"of {unit}, at least {least}"
        raise ConfigError(f"{key}={value} must be a whole number {limit}{advice}")


def check_flag(key: str, value: object) -> None:
    """Raise ConfigError unless the value of the setting `key` is true, false or null."""
    if value not in (None, True, False):
        raise ConfigError(f"{key}={value}: true, false or null is needed")
