"""Quoting of free text (paths, columns, separators) that Hydra's grammar might not accept."""

import os
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from forecast.system.arguments import quote_for_shell, quote_text, read_mapping
from forecast.system.errors import ConfigError
from forecast.system.keys import TABLE, Takes

FREE_TEXT = re.compile(
    rf"^(\+{{0,2}}(?:{'|'.join(re.escape(row.name) for row in TABLE if row.text)}))=(.*)$", re.DOTALL
)

TEXT_OR_LIST = frozenset(row.name for row in TABLE if row.text and row.takes is Takes.ANY_TYPE)
"""Keys that take one free text, such as a column, or a list of them."""


FILES = frozenset({"data.path", "data.static_path", "data.future_path", "checkpoint", "future"})
"""Keys of files that must exist."""


def quote_all(arguments: Sequence[str], *, sweep: bool) -> list[str]:
    """Quote the values of the arguments that take free text. Raises ConfigError for one that the shell has split."""
    joined = join_split(arguments)
    if joined is not None:
        raise ConfigError(f"the shell splits arguments at spaces: write {quote_for_shell(joined)}")
    return [quote(argument, sweep=sweep) for argument in arguments]


def join_split(arguments: Sequence[str]) -> str | None:
    """The first argument whose value the shell has split at spaces, as it was meant; None if there is none."""
    starts = [number for number, argument in enumerate(arguments) if _has_key(argument)]
    for start, end in pairwise([*starts, len(arguments)]):
        if end - start == 1:
            continue
        joined = " ".join(arguments[start:end])
        key, _, value = joined.partition("=")
        is_text = FREE_TEXT.match(joined) is not None and (key not in FILES or os.path.exists(value))
        if (is_text or not can_parse(arguments[start])) and can_parse(quote(joined, sweep=False)):
            return joined
    return None


def _has_key(argument: str) -> bool:
    return "=" in argument or argument.startswith("~")


def can_parse(argument: str) -> bool:
    """Whether an argument follows Hydra's grammar."""
    try:
        OverridesParser.create().parse_overrides([argument])
    except (HydraException, RecursionError):
        return False
    return True


def quote(argument: str, *, sweep: bool) -> str:
    """Quote the value of a key that takes free text.

    In a multirun, commas separate the values of a sweep, and each value is quoted separately. Values in quotes, `null`,
    `???` and interpolations do not change.
    """
    match = FREE_TEXT.match(argument)
    if match is None:
        return quote_mapping(argument)
    key, text = match.groups()
    if key.endswith(("output", "output_root")) and text.startswith("~"):
        text = os.path.expanduser(text)
    if key.lstrip("+") in TEXT_OR_LIST and text.startswith("[") and text.endswith("]"):
        return argument
    values = split_values(text) if sweep and text != "," else [text]
    return f"{key}=" + ",".join(quote_value(value) for value in values)


def split_values(text: str) -> list[str]:
    """Split the values of a sweep at commas, except for those in quotes."""
    values, start, sign = [], 0, ""
    for place, letter in enumerate(text):
        if sign:
            sign = "" if letter == sign else sign
        elif letter in "'\"" and place == start:
            sign = letter
        elif letter == ",":
            values.append(text[start:place])
            start = place + 1
    return [*values, text[start:]]


def quote_mapping(argument: str) -> str:
    """Quote a mapping that Hydra's grammar cannot read, such as one with column names in quotes; see `read_mapping`."""
    key, _, value = argument.partition("=")
    if not isinstance(read_mapping(value), dict):
        return argument
    return argument if can_parse(argument) else f"{key}=" + quote_text(value, "'")


def quote_value(value: str) -> str:
    """Quote one value, unless it is quoted, `null`, `???`, empty or an interpolation."""
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    if quoted or value in ("null", "???", "") or value.startswith("${"):
        return value
    return quote_text(value, "'")


def write_override(key: str, value: Any) -> str:
    """Write the override that sets a key to a number or a text."""
    return f"{key}={value if isinstance(value, int | float) else quote_value(str(value))}"
