"""What a key's value may be, judged by the value it has unless told otherwise. Imports no torch."""

import math
from typing import Any

from omegaconf import ListConfig

from forecast.errors import ConfigError

NAMES_A_PLACE = ("output", "output_root")

TAKES_MANY_TYPES = ("trainer.devices", "trainer.deterministic", "data.date_column")

TAKES_A_WORD = ("data.split", "logger")
"""Lists for which one word has a meaning too."""

MAY_BE_NULL = (
    "trainer.gradient_clip_val",
    "windows_per_epoch",
    "data.windows_per_epoch",
    "data.eval_batch_size",
)
"""Keys of numbers for which null has a meaning too."""

WHOLE_OR_NULL = ("num_features", "conv_kernel", "threads")
"""Last parts of keys that are counts, or null, whichever their default is."""

LIMITS = {
    "seed": (0, 2**32 - 1),
    "optimizer.lr": (0, 1_000),
    "optimizer.weight_decay": (0, 1_000),
    "schedule.warmup": (0, 1),
    "schedule.final": (0, 1),
    "schedule.factor": (0, 1),
    "schedule.full_epochs": (0, 2**31),
    "schedule.patience": (0, 2**31),
    "trainer.max_epochs": (1, 2**31),
    "trainer.gradient_clip_val": (0, 2**31),
    "trainer.accumulate_grad_batches": (1, 2**20),
    "trainer.log_every_n_steps": (1, 2**31),
    "trainer.num_nodes": (1, 2**16),
    "callbacks.checkpoint.every_minutes": (0, 2**31),
    "callbacks.early_stopping.patience": (1, 2**31),
    "callbacks.progress.refresh_rate": (0, 2**31),
    "data.batch_size": (1, 2**20),
    "data.eval_batch_size": (1, 2**20),
    "model.encoder_layers": (1, 1_000),
    "model.decoder_layers": (1, 1_000),
    "repeats": (1, 2**20),
}
"""The least and the most that a key can be: beyond, work would begin that never ends or memory be taken for nothing."""


def check_value(key: str, value: Any, default: Any) -> None:
    """Refuse a value of another type, or beyond all sense. The rest is the constructors' to judge.

    Raises:
        ConfigError: saying what is needed.
    """
    if key in NAMES_A_PLACE and (value is None or not str(value).strip()):
        raise ConfigError(f"{key}={'null' if value is None else ''}: a name is needed")
    if key == "trainer.devices" and (value == 0 or isinstance(value, float) or value in ([], "")):
        raise ConfigError(
            f"{key}={value}: a number of processes or GPUs is needed, or a list of GPUs, or -1 for all"
        )
    if key in TAKES_MANY_TYPES:
        return
    if key.rsplit(".", 1)[-1] in WHOLE_OR_NULL:
        if value is not None and (type(value) is not int or value < 1):
            raise ConfigError(f"{key}={value}: a whole number of at least 1 is needed, or null")
        return
    is_number = isinstance(default, int | float) and not isinstance(default, bool)
    if value is None:
        if (is_number and key not in MAY_BE_NULL) or isinstance(default, ListConfig):
            what = "number" if is_number else "list"
            raise ConfigError(f"{key}=null: a {what} is needed, as in {key}={default}")
        return
    if is_number:
        check_number(key, value, default)
    if isinstance(default, bool) and not isinstance(value, bool):
        raise ConfigError(f"{key}={value}: true or false is needed")
    if isinstance(default, ListConfig) and not isinstance(value, list) and key not in TAKES_A_WORD:
        raise ConfigError(f"{key}={value}: a list is needed, as in {key}={default}")
    if isinstance(default, str) and isinstance(value, list | dict):
        raise ConfigError(f"{key}={value}: one word or text is needed, as in {key}={default}")
    if not isinstance(value, int | float):
        return
    if key not in LIMITS and abs(value) > 2**63:
        raise ConfigError(f"{key}={value}: too large a number")
    lowest, highest = LIMITS.get(key, (value, value))
    if not lowest <= value <= highest:
        raise ConfigError(f"{key}={value}: a number from {lowest:,} to {highest:,} is needed")


def check_number(key: str, value: Any, default: int | float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{key}={value}: a number is needed, as in {key}={default}")
    if isinstance(default, int) and isinstance(value, float) and not value.is_integer():
        raise ConfigError(f"{key}={value}: a whole number is needed, as in {key}={default}")
    if not math.isfinite(value):
        raise ConfigError(f"{key}={value}: a finite number is needed, as in {key}={default}")
