"""Start a W&B run and describe its location. Imports no Lightning."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from forecast.system.errors import ConfigError

WANDB_MODES = ("offline", "online")


@contextmanager
def starting_wandb() -> Iterator[None]:
    """Start a W&B run without its messages. Raises ConfigError if W&B cannot be reached."""
    import wandb

    wandb.setup(wandb.Settings(silent=True))  # the settings of a run take effect too late
    try:
        yield
    except wandb.Error as error:
        first_line = str(error).splitlines()[0]
        raise ConfigError(
            f"W&B cannot be reached ({first_line}); set up an account with `wandb login`, "
            "or use logger.mode=offline, which needs neither account nor network"
        ) from error


def describe_wandb(run: Any) -> str:
    """The address of a W&B run, as a line."""
    return f"W&B: {run.url or f'offline run; upload it with: wandb sync {Path(run.dir).parent}'}"
