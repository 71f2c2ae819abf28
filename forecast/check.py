"""Describe a data file before training: `forecast check --help`."""

from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig
from hydra.utils import instantiate
from omegaconf import DictConfig

from forecast.cli.compose import compose_command
from forecast.cli.main import main_without_run_folder
from forecast.cli.overrides import options_with_key, parse, typed_overrides, values_of
from forecast.system.errors import ConfigError
from forecast.system.files import atomic_file, check_output_files, output_file, write_json
from forecast.system.progress import status

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

    from forecast.tools.check.advice import Setting
    from forecast.tools.check.diagnosis import Diagnosis

FIGURES = (".png", ".svg", ".pdf")
CHECKED = ("seq_len", "label_len", "pred_len", "features")  # what suggestions depend on, beside `data`
BATCHES = ("data.batch_size", "data.eval_batch_size", "data.windows_per_epoch")  # on which they do not depend
WITH_OWN_SETTINGS = ("checkpoint", "experiment")
SLOTS = ("decoder", "cross")  # of attention, that only models with a decoder have


def check(config: DictConfig) -> None:
    """Read and examine the data, print the findings, and save them as a figure and as JSON if `output` is given."""
    from forecast.tools.check.report import collect_findings, print_report, save_figure

    path = None if config.output is None else output_file(config.output, *FIGURES)
    if path is not None:
        check_output_files(path, path.with_suffix(".json"), overwrite=config.overwrite)
    typed = typed_about_data()
    found = examine(config, typed)
    print_report(found, typed)
    if path is None:
        print("nothing is saved: output=check.png saves a picture, and these findings as check.json")
        return
    beside = path.with_suffix(".json")
    with status(f"Drawing {path}"), atomic_file(beside) as findings, atomic_file(path) as figure:
        save_figure(found, figure)
        write_json(findings, collect_findings(found, typed))
    print(f"saved {path} and {beside}")


def examine(config: DictConfig, typed: dict[str, Any]) -> "Diagnosis":
    """Read and examine the data of a configuration of `forecast.check`, in which these keys below `data` were typed."""
    from forecast.tools.check.advice import Choices
    from forecast.tools.check.diagnosis import diagnose

    lengths = {"seq_len": config.seq_len or 1, "pred_len": config.pred_len or 1}
    make = partial(instantiate, config.data, **lengths, features=config.features or "M")
    names = {each.name for each in fields(Choices)}
    chosen = {name: config.data[name] for name in names & config.data.keys()}
    chosen |= {name: config[name] for name in CHECKED}
    chosen |= {"batch_size": typed.get("data.batch_size"), "na_values": config.data.get("na_values")}
    with status("Examining the data"):
        return diagnose(make, Choices(**chosen, target_typed="data.target" in typed))  # type: ignore[reportArgumentType]


def typed_about_data() -> dict[str, Any]:
    """The chosen data group, then the keys of the group that the user typed, which depend on it."""
    typed = {key: argument for key, argument in typed_overrides().items() if key.startswith("data.")}
    about = {key: parse([argument])[0].value() for key, argument in typed.items()}
    return {"data": HydraConfig.get().runtime.choices["data"], **about}


def suggest_settings(config: DictConfig, arguments: Sequence[str]) -> list[str]:
    """Print the settings that `forecast.check` suggests and that no argument sets, and return them as overrides.

    `config` is composed of the arguments, the overrides as typed without `suggest=true`, and has Hydra's part.

    Raises:
        ConfigError: the data or the lengths are swept over, or a checkpoint or an experiment sets them.
        DataError: as `forecast.check` does.
    """
    from forecast.tools.check.advice import leave_out_typed, print_suggested

    typed = {override.key_or_group: override for override in parse(arguments) if not override.is_delete()}
    for key in WITH_OWN_SETTINGS:
        if key in typed and config.hydra.runtime.choices.get(key, config.get(key)):
            value = ",".join(map(str, values_of(typed[key])))
            raise ConfigError(f"suggest=true: {key}={value} has its own settings; leave suggest=true out")
    keys = (key for key in typed if key in CHECKED or (key.startswith("data.") and key not in BATCHES))
    about = {key: typed[key] for key in keys}
    for key in ("data", *about):
        if key in typed and typed[key].is_sweep_override():
            raise ConfigError(f"suggest=true: {key} decides the suggested settings; give it one value")
    found = _diagnose(config, about)
    settings = leave_out_typed(found.settings, _find_settled(config, typed, found.settings))
    return print_suggested(settings, found.describe_options(typed))


def _diagnose(config: DictConfig, about: "dict[str, Override]") -> "Diagnosis":
    from forecast.tools.check.diagnosis import warnings_only_with_errors

    source = config.hydra.runtime.choices["data"]
    arguments = [f"data={source}", *(override.input_line or "" for override in about.values())]
    data = {key: override.value() for key, override in about.items() if key.startswith("data.")}
    if isinstance(config.data.batch_size, int):
        data["data.batch_size"] = config.data.batch_size
    check = compose_command("check", arguments)
    with warnings_only_with_errors():
        return examine(check, {"data": source, **data})


def _find_settled(config: DictConfig, typed: "dict[str, Override]", settings: "Sequence[Setting]") -> set[str]:
    """The keys that are not suggested: those that are typed or searched, and what other typed keys exclude."""
    settled = {*typed, *(config.hydra.sweeper.get("params") or {})}
    if "windows_per_epoch" in typed:
        settled.add("trainer.max_epochs")  # it was suggested for other epochs
    if "types" not in config.model.attention:
        settled.add("attention")  # the typed model has none
    model = next((str(setting.value) for setting in settings if setting.key == "model"), None)
    options = [key.removeprefix("model.") for key in typed if key.startswith("model.")]
    are_known = (model in options_with_key("model", key.split(".")[0]) for key in options)
    if settled & {*SLOTS} or not all(are_known):
        settled.add("model")
    return settled


if __name__ == "__main__":
    main_without_run_folder("check")
