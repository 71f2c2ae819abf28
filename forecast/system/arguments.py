"""Values and overrides as they are typed on the command line."""

import re
import shlex
from typing import Any


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


def quote_for_shell(argument: str) -> str:
    """Quote an argument for Bash, if it needs quotes: in double quotes if it has single ones and nothing to expand."""
    if "'" in argument and not re.search(r'["$`\\!]', argument):
        return f'"{argument}"'
    return shlex.quote(argument)
