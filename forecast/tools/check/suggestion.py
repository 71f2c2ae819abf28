"""The training command with the suggested settings, quoted for a shell."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from forecast.cli.quoting import FREE_TEXT, quote_value
from forecast.tools.check.settings import Setting


def write_command(typed: Mapping[str, Any], settings: Sequence[Setting]) -> str:
    """`python -m forecast.train` with the keys that the user typed about the data, then the settings."""
    chosen = dict(typed) | {setting.key: setting.value for setting in settings}
    arguments = [format_argument(key, value) for key, value in chosen.items()]
    return shlex.join(["python", "-m", "forecast.train", *arguments])


def format_argument(key: str, value: Any) -> str:
    """Format one `key=value` so that the commands read the value back."""
    text = f"{key}={value}"
    return text if isinstance(value, str) and FREE_TEXT.match(text) else f"{key}={_format_value(value)}"


def _format_value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{','.join(map(_format_value, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = str(value)
    return (
        text
        if not isinstance(value, str) or re.fullmatch(r"[A-Za-z_][A-Za-z0-9_./-]*", text)
        else quote_value(text)
    )
