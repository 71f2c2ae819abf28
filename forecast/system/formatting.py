"""Formatting of values for people and for the command line."""

import json
import math
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

import yaml


def decimals(size: float) -> int:
    """Return the number of decimals that show three or four significant digits of a number of this size."""
    return 0 if size >= 1000 else 1 if size >= 10 else 3 if size >= 0.1 else 4


def format_column(values: Iterable[float]) -> list[str]:
    """Format the numbers of a column with the decimals that the smallest one needs."""
    values = list(values)
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    places = decimals(min(sizes, default=1.0))
    return [f"{value:,.{places}f}" for value in values]


def format_amount(value: float) -> str:
    """Format a number of any size for reading: `0.1234`, `12.34`, `1234`, `12,345`; `-` if it is not known."""
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def plural(count: int, what: str) -> str:
    """Return the count with the noun in the singular or plural: `1 row`, `2 rows`, `2 series`."""
    return f"{count:,} {what}{'s' * (count != 1 and what != 'series')}"


def shorten(names: Sequence[str], count: int = 8) -> str:
    """List the first `count` names, and count the others; semicolons separate names with commas."""
    sign = "; " if any("," in name for name in names[:count]) else ", "
    return sign.join(names[:count]) + (f" and {len(names) - count:,} more" if len(names) > count else "")


def format_duration(seconds: float) -> str:
    """Format a duration with the unit that suits it: `8 s`, `12 min`, `3.5 h`."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5970 else f"{seconds / 3600:.1f} h"


def format_tokens(role: str, queries: int, keys: int) -> str:
    """Return the number of tokens of an attention layer; of cross-attention, queries × keys."""
    return f"{queries} × {keys}" if role == "cross" else f"{queries}"


def write_value(value: Any) -> str:
    """Write a value in the syntax of overrides; texts that are no plain names are put in double quotes."""
    if isinstance(value, list | tuple):
        return f"[{','.join(map(write_value, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = str(value)
    is_plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_./-]*", text) and text not in ("null", "true", "false")
    return text if not isinstance(value, str) or is_plain else quote_text(text, '"')


def quote_text(text: str, sign: str) -> str:
    """Put a text in quotes, single or double (`sign`), so that Hydra reads it unchanged."""
    # Hydra reads \" as ", and right before a quote \\ as \
    escaped = re.sub(rf"(\\*)({sign}|$)", lambda m: m[1] * 2 + (f"\\{sign}" if m[2] else ""), text)
    return f"{sign}{escaped}{sign}"


def write_mapping(name: str, value: Any) -> str:
    """Write one value for a column of this name, as `read_mapping` reads it: {NAME: VALUE}."""
    is_plain = re.fullmatch(r"\w[\w ./-]*", name) and yaml.safe_load(name) == name
    return f"{{{name if is_plain else json.dumps(name, ensure_ascii=False)}: {value}}}"


def read_mapping(value: Any) -> Any:
    """Read a text such as `{wv (m/s): 0, "a, b": 1}` as a mapping in YAML. Other values do not change.

    Hydra's grammar has no quotes for keys, so mappings with other keys than plain names reach the program as texts.
    """
    if not (isinstance(value, str) and value.startswith("{") and value.endswith("}")):
        return value
    try:
        found = yaml.safe_load(value)
    except yaml.YAMLError:
        return value
    return found if isinstance(found, dict) else value


def quote_for_shell(argument: str) -> str:
    """Quote an argument for Bash, if it needs quotes: in double quotes if it has single ones and nothing to expand."""
    if "'" in argument and not re.search(r'["$`\\!]', argument):
        return f'"{argument}"'
    return shlex.quote(argument)


def write_setting(key: str, value: Any) -> str:
    """Write an override as it is typed in a shell; brackets need no quotes in Bash. A tab is written as \\t."""
    text = f"{key}={value if isinstance(value, str) else write_value(value)}".replace("\t", r"\t")
    return text if re.fullmatch(r"[\w.=,\[\]/-]+", text) else quote_for_shell(text)
