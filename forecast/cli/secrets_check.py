"""Keep secrets out of what is written: run folders, logs, checkpoints and pages may be handed on.

A secret belongs into the environment or a password file (WANDB_API_KEY, ~/.netrc), where the libraries look for it.
"""

import os
import re
from collections.abc import Sequence
from typing import Any

from forecast.cli.allowed_targets import leaves
from forecast.system.errors import ConfigError

KEY = re.compile(
    r"(?:^|[._])(?:api_?key|(?:secret|private|access)_?key|secret|token|passw(?:or)?d|credentials?)$", re.I
)
VARIABLE = re.compile(r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:$|_)", re.I)
ADDRESS = re.compile(
    r"://[^/?#\s]+@|[?&][\w-]*(?:token|secret|signature|password|credential|api_?key)[\w-]*=", re.I
)
SHORTEST = 8  # characters of a variable that can be told from other text
ADVICE = (
    "it would be kept where others may read it; set an environment variable (WANDB_API_KEY) or use a password file "
    "(~/.netrc)"
)


def check_typed(arguments: Sequence[str]) -> None:
    """Raises ConfigError, which does not repeat it, for a secret on the command line."""
    known = in_environment()
    for argument in arguments:
        key, _, value = argument.partition("=")
        check_setting(key.lstrip("+~"), value, known)
        if value.startswith("{"):
            for below, text in re.findall(r"([\w.]+)['\"]?\s*:\s*([^,{}]*)", value):
                check_setting(f"{key.lstrip('+~')}.{below}", text, known)


def check(config: Any) -> None:
    """Raises ConfigError, which does not repeat it, for a secret in a configuration, interpolations resolved."""
    known = in_environment()
    for name, value in leaves(config):
        if value is not None and not isinstance(value, bool):
            check_setting(name, str(value), known)


def in_environment() -> dict[str, str]:
    """Secrets by the names of their variables."""
    return {
        name: text for name, text in os.environ.items() if VARIABLE.search(name) and len(text) >= SHORTEST
    }


def check_setting(name: str, value: str, known: dict[str, str]) -> None:
    if KEY.search(name) and value not in ("", "null"):
        raise ConfigError(f"{name}: a secret: {ADVICE}")
    if ADDRESS.search(value):
        raise ConfigError(f"{name}: an address with a secret in it: {ADVICE}")
    for variable, secret in known.items():
        if secret in name + value:
            raise ConfigError(f"{name.replace(secret, '...')}: the value of {variable}: {ADVICE}")
