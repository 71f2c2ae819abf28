"""Checks of override values: types from the defaults, limits from the table of keys. Imports no torch."""

import math
from typing import Any

from omegaconf import ListConfig

from forecast.system.checks import check_count
from forecast.system.errors import ConfigError
from forecast.system.keys import RESULT, Key, Takes, row_of

MAX_NUMBER = 2**63
"""Largest absolute value of a number whose key has no limits."""


def check_value(key: str, value: Any, default: Any) -> None:
    """Check the type and the range of one value. Constructors check everything else.

    Raises:
        ConfigError: the value is invalid; the message names the key, the value and the valid values.
    """
    row = row_of(key) or Key(key, RESULT)
    if row.takes is Takes.NAME and (value is None or not str(value).strip()):
        raise ConfigError(f"{key}={'null' if value is None else ''}: a name is needed")
    if value == "" and key.startswith("data.") and key != "data.path":
        raise ConfigError(f"{key}=: no value: give one, or leave {key}= out")
    if row.takes is Takes.ANY_TYPE:
        if key == "trainer.devices":
            check_devices(key, value)
    elif row.takes is Takes.COUNT_OR_NULL:
        if value is not None:
            check_count(key, value, advice=", or null")
    elif value is None:
        check_null(key, default, has_meaning=row.null)
    else:
        check_type(key, value, default, takes_a_word=row.takes is Takes.LIST_OR_WORD)
        if isinstance(value, int | float):
            check_range(key, value, row.limits)


def check_devices(key: str, value: Any) -> None:
    """Raise ConfigError if a number of devices is zero, empty or a fraction."""
    if value == 0 or isinstance(value, float) or value in ([], ""):
        raise ConfigError(
            f"{key}={value}: a number of processes or GPUs is needed, or a list of GPUs, or -1 for all"
        )


def check_null(key: str, default: Any, *, has_meaning: bool) -> None:
    """Raise ConfigError if null replaces a list, or a number for which null has no meaning."""
    if isinstance(default, ListConfig) or (is_number(default) and not has_meaning):
        what = "number" if is_number(default) else "list"
        raise ConfigError(f"{key}=null: a {what} is needed, as in {key}={default}")


def check_type(key: str, value: Any, default: Any, *, takes_a_word: bool) -> None:
    """Raise ConfigError unless the value has the type of the default."""
    if is_number(default):
        check_number(key, value, default)
    if isinstance(default, bool) and not isinstance(value, bool):
        raise ConfigError(f"{key}={value}: true or false is needed")
    if isinstance(default, ListConfig) and not isinstance(value, list) and not takes_a_word:
        raise ConfigError(f"{key}={value}: a list is needed, as in {key}={default}")
    if isinstance(default, str) and isinstance(value, list | dict):
        raise ConfigError(f"{key}={value}: one word or text is needed, as in {key}={default}")


def check_number(key: str, value: Any, default: int | float) -> None:
    """Raise ConfigError unless the value is a finite number, and a whole one if the default is."""
    if not is_number(value):
        raise ConfigError(f"{key}={value}: a number is needed, as in {key}={default}")
    if isinstance(default, int) and isinstance(value, float) and not value.is_integer():
        raise ConfigError(f"{key}={value}: a whole number is needed, as in {key}={default}")
    if not math.isfinite(value):
        raise ConfigError(f"{key}={value}: a finite number is needed, as in {key}={default}")


def check_range(key: str, value: int | float, limits: tuple[int, int] | None) -> None:
    """Raise ConfigError for a number beyond its limits."""
    if limits is None:
        if abs(value) > MAX_NUMBER:
            raise ConfigError(f"{key}={value}: too large a number")
    elif not limits[0] <= value <= limits[1]:
        raise ConfigError(f"{key}={value}: a number from {limits[0]:,} to {limits[1]:,} is needed")


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
