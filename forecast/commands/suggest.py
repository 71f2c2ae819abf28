"""`suggest=true`: the settings that `forecast.check` suggests for the data, as overrides of a training command."""

from collections.abc import Sequence

from hydra.core.override_parser.types import Override
from omegaconf import DictConfig

from forecast.cli.compose import compose_command
from forecast.cli.overrides import options_with_key, parse, values_of
from forecast.commands.check import examine
from forecast.system.errors import ConfigError
from forecast.tools.check.advice import Setting, leave_out_typed, print_suggested
from forecast.tools.check.diagnosis import Diagnosis, warnings_only_with_errors

CHECKED = ("seq_len", "label_len", "pred_len", "features")
"""Keys beside those of `data` that the suggestions depend on."""
BATCHES = ("data.batch_size", "data.eval_batch_size", "data.windows_per_epoch")
"""Keys of `data` on which they do not depend."""
WITH_OWN_SETTINGS = ("checkpoint", "experiment")
SLOTS = ("decoder", "cross")
"""Slots of attention that only models with a decoder have."""


def suggest_settings(config: DictConfig, arguments: Sequence[str]) -> list[str]:
    """Print the settings that `forecast.check` suggests and that no argument sets, and return them as overrides.

    Args:
        config: the composed configuration of the arguments, with Hydra's part.
        arguments: the overrides as typed, without `suggest=true`.

    Raises:
        ConfigError: the data or the lengths are swept over, or a checkpoint or an experiment sets them.
        DataError: as `forecast.check` does, or a split has no window of the typed lengths.
    """
    typed = {override.key_or_group: override for override in parse(arguments) if not override.is_delete()}
    for key in WITH_OWN_SETTINGS:
        if key in typed and config.hydra.runtime.choices.get(key, config.get(key)):
            value = ",".join(map(str, values_of(typed[key])))
            raise ConfigError(f"suggest=true: {key}={value} has its own settings; leave suggest=true out")
    about = {
        key: override
        for key, override in typed.items()
        if key in CHECKED or (key.startswith("data.") and key not in BATCHES)
    }
    for key in ("data", *about):
        if key in typed and typed[key].is_sweep_override():
            raise ConfigError(f"suggest=true: {key} decides the suggested settings; give it one value")
    found = _diagnose(config, about)
    settings = leave_out_typed(found.settings, _find_settled(config, typed, found.settings))
    return print_suggested(settings, found.describe_options(typed))


def _diagnose(config: DictConfig, about: dict[str, Override]) -> Diagnosis:
    source = config.hydra.runtime.choices["data"]
    arguments = [f"data={source}", *(override.input_line or "" for override in about.values())]
    data = {key: override.value() for key, override in about.items() if key.startswith("data.")}
    if isinstance(config.data.batch_size, int):
        data["data.batch_size"] = config.data.batch_size
    check = compose_command("check", arguments)
    with warnings_only_with_errors():
        return examine(check, {"data": source, **data}, must_fit=True)


def _find_settled(config: DictConfig, typed: dict[str, Override], settings: Sequence[Setting]) -> set[str]:
    """The keys that are not suggested: those that are typed or searched, and what other typed keys exclude."""
    settled = {*typed, *(config.hydra.sweeper.get("params") or {})}
    if config.budget or "windows_per_epoch" in typed:
        settled.add("trainer.max_epochs")  # it was suggested for other epochs
    if "types" not in config.model.attention:
        settled.add("attention")  # the typed model has none
    model = next((str(setting.value) for setting in settings if setting.key == "model"), None)
    options = [key.removeprefix("model.") for key in typed if key.startswith("model.")]
    if settled & {*SLOTS} or any(
        model not in options_with_key("model", key.split(".")[0]) for key in options
    ):
        settled.add("model")
    return settled
