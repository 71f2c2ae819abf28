"""`suggest=true`: the settings that `forecast.check` suggests for the data, as overrides of a training command."""

import sys
from collections.abc import Sequence

from hydra.core.override_parser.types import Override
from omegaconf import DictConfig

from forecast.cli.compose import compose_command
from forecast.cli.overrides import parse
from forecast.commands.check import examine
from forecast.system import distributed
from forecast.system.errors import ConfigError
from forecast.system.identity import key_of_override
from forecast.tools.check.settings import Setting, format_argument

LENGTHS = ("seq_len", "label_len", "pred_len", "features")
OF_ANOTHER_RUN = ("checkpoint", "experiment")
"""Keys whose value sets the settings that `suggest=true` would choose."""


def expand(config: DictConfig, arguments: Sequence[str]) -> list[str]:
    """Replace `suggest=true` by the settings that `forecast.check` suggests and that no argument sets.

    Args:
        config: the composed configuration of the arguments, with Hydra's part.
        arguments: the overrides as typed.

    Returns:
        The suggested overrides, then the others as typed.

    Raises:
        ConfigError: the data or the lengths are swept over, or a checkpoint or an experiment sets them.
        DataError: as `forecast.check` does.
    """
    rest = [argument for argument in arguments if key_of_override(argument) != "suggest"]
    typed = {override.key_or_group: override for override in parse(rest)}
    for key in OF_ANOTHER_RUN:
        if key in typed:
            raise ConfigError(
                f"suggest=true: {key}={typed[key].value()} has its own settings; leave suggest=true out"
            )
    about = {key: override for key, override in typed.items() if key.startswith("data.") or key in LENGTHS}
    for key in ("data", *about):
        if key in typed and typed[key].is_sweep_override():
            raise ConfigError(
                f"suggest=true suggests settings for one data set and one horizon: give {key} one value"
            )
    settings = _suggest(config.hydra.runtime.choices["data"], about)
    chosen = [setting for setting in settings if not _is_set(setting.key, typed)]
    if distributed.is_first():
        for setting in chosen:
            print(f"suggested: {setting.key}={setting.value}  ({setting.why})", file=sys.stderr)
    return [*(format_argument(setting.key, setting.value) for setting in chosen), *rest]


def _suggest(source: str, about: dict[str, Override]) -> list[Setting]:
    arguments = [f"data={source}", *(override.input_line or "" for override in about.values())]
    data = {key: override.value() for key, override in about.items() if key.startswith("data.")}
    return examine(compose_command("check", arguments), {"data": source, **data}).settings


def _is_set(key: str, typed: dict[str, Override]) -> bool:
    """Whether an argument sets a key, or chooses another model than the suggested one, with sizes of its own."""
    return key in typed or (key.startswith("model") and "model" in typed)
