"""Settings that the user chose, suggested settings, and the training command with both."""

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forecast.cli.overrides import FREE_TEXT
from forecast.system.formatting import quote_for_shell, write_value


@dataclass(frozen=True)
class Setting:
    """A suggested value of a configuration key, and the reason."""

    key: str
    value: Any
    why: str


@dataclass(frozen=True)
class Choices:
    """Values that the user chose; None where there is no choice.

    Attributes:
        target_typed: whether `target` was typed; some data sets have a default target.
        columns_typed: whether data.columns was typed.
        columns: the targets; None: all columns without another role.
        steps, na_values: these options; None if the source has no such option.
        must_fit: whether lengths that leave no windows are refused, as in training; else shorter ones are suggested.
    """

    seq_len: int | None = None
    label_len: int | None = None
    pred_len: int | None = None
    features: str | None = None
    target: str | None = None
    target_typed: bool = False
    season: int | None = None
    batch_size: int | None = None
    columns: Sequence[str] | None = None
    columns_typed: bool = False
    past_covariates: Sequence[str] = ()
    future_covariates: Sequence[str] = ()
    drop: Sequence[str] = ()
    steps: str | None = None
    freq: str | None = None
    eval_stride: int | None = 1
    na_values: Sequence[int | float | str] | None = ()
    must_fit: bool = False


def leave_out_typed(settings: Sequence[Setting], typed: Collection[str]) -> list[Setting]:
    """Leave out the settings of the keys in `typed`, and with the key `model` all settings of a model."""
    others = [setting for setting in settings if setting.key not in typed]
    return [setting for setting in others if "model" not in typed or not setting.key.startswith("model")]


def print_suggested(settings: Sequence[Setting], options: Sequence[str]) -> list[str]:
    """Print suggested settings with their reasons to standard error, and return them as overrides.

    `options` are lines on settings that are not suggested; they are printed too.
    """
    lines = [format_argument(setting.key, setting.value) for setting in settings]
    for line, setting in zip(lines, settings, strict=True):
        print(f"suggested: {line}  ({setting.why})", file=sys.stderr)
    for option in options:
        print(f"not set:   {option}", file=sys.stderr)
    return lines


def write_command(typed: Mapping[str, Any], settings: Sequence[Setting], program: str = "train") -> str:
    """Return a command, quoted for a shell: the data keys that the user typed, then the settings."""
    chosen = dict(typed) | {setting.key: setting.value for setting in settings}
    arguments = [format_argument(key, value) for key, value in chosen.items()]
    return " ".join(["python", "-m", f"forecast.{program}", *map(quote_for_shell, arguments)])


def format_argument(key: str, value: Any) -> str:
    """Format an override so that the commands read the same value back."""
    text = f"{key}={value}"
    return text if isinstance(value, str) and FREE_TEXT.match(text) else f"{key}={write_value(value)}"
