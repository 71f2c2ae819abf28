"""Checks that keep secrets out of run folders, logs, checkpoints and pages, which users may share.

Secrets belong in the environment (WANDB_API_KEY) or in a password file (~/.netrc), where libraries look for them.
"""

import os
import re
from collections.abc import Sequence
from typing import Any

from forecast.cli.traverse import leaves
from forecast.system.errors import ConfigError

KEY = re.compile(
    r"(?:^|[._])(?:api_?key|(?:secret|private|access)_?key|secret|token|passw(?:or)?d|credentials?)$", re.I
)
VARIABLE = re.compile(r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:$|_)", re.I)
ADDRESS = re.compile(
    r"://[^/?#\s]+@|[?&][\w-]*(?:token|secret|signature|password|credential|api_?key)[\w-]*=", re.I
)
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


def check(config: Any) -> None:
    """Raise ConfigError for a secret in a configuration. The message does not repeat the secret."""
    known = in_environment()
    for name, value in leaves(config):
        if value is not None and not isinstance(value, bool):
            check_setting(name, str(value), known)


def in_environment() -> dict[str, str]:
    """Secrets in the environment, by the names of their variables."""
    return {
        name: text for name, text in os.environ.items() if VARIABLE.search(name) and len(text) >= MIN_LENGTH
    }


def check_setting(name: str, value: str, known: dict[str, str]) -> None:
    """Raise ConfigError if a setting is a secret by its key, its address or its value."""
    if KEY.search(name) and value not in ("", "null"):
        raise ConfigError(f"{name}: a secret: {ADVICE}")
    if ADDRESS.search(value):
        raise ConfigError(f"{name}: an address with a secret in it: {ADVICE}")
    for variable, secret in known.items():
        if secret in name + value:
            raise ConfigError(f"{name.replace(secret, '...')}: the value of {variable}: {ADVICE}")
