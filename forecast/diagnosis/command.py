"""The training command that the suggestions make, ready to paste into a shell."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from forecast.diagnosis.advice import Setting
from forecast.overrides import FREE_TEXT, quote_value


def training_command(typed: Mapping[str, Any], settings: Sequence[Setting]) -> str:
    """`python -m forecast.train` with what the user said of the data, then the settings."""
    chosen = dict(typed) | {setting.key: setting.value for setting in settings}
    arguments = [argument(key, value) for key, value in chosen.items()]
    return shlex.join(["python", "-m", "forecast.train", *arguments])


def argument(key: str, value: Any) -> str:
    """One `key=value` as the commands read it."""
    text = f"{key}={value}"
    return text if isinstance(value, str) and FREE_TEXT.match(text) else f"{key}={_written(value)}"


def _written(value: Any) -> str:
    if isinstance(value, list):
        return f"[{','.join(map(_written, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = str(value)
    return (
        text
        if not isinstance(value, str) or re.fullmatch(r"[A-Za-z_][A-Za-z0-9_./-]*", text)
        else quote_value(text)
    )
