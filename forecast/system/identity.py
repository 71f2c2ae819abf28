"""Settings that identify a run, derived from the table of keys (`forecast.system.keys`)."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from omegaconf import DictConfig, OmegaConf

from forecast.system.keys import AFTER, LAUNCH, LOG, NAME, PLACE, RESULT, SOURCE, Effect, row_of

ALL_EFFECTS = frozenset(Effect)
RUN_EFFECTS = ALL_EFFECTS - {PLACE, LOG, LAUNCH}
"""Effects of the keys that a run and the command that resumes it must have in common."""
VARIANT_EFFECTS = RUN_EFFECTS - {SOURCE, AFTER, NAME}
"""Effects of the keys that change scores on the same test windows."""


def effect_of(key: str, config: Mapping[str, Any] | None = None) -> Effect:
    """The effect of a key in a configuration. A key that the user added may change the result."""
    row = row_of(key)
    if row is None:
        return RESULT
    if row.effect_if is not None and config is not None:
        other, value, effect = row.effect_if
        if config.get(other) == value:
            return effect
    return row.effect


def effect_of_override(argument: str) -> Effect:
    """The effect of an override as typed: `key=value` or `group=option`, possibly after `+` or `~`."""
    return effect_of(key_of_override(argument))


def key_of_override(argument: str) -> str:
    """The dotted key of an override."""
    return argument.partition("=")[0].lstrip("+~").partition("@")[0].replace("/", ".")


def identifying_overrides(arguments: Sequence[str]) -> list[str]:
    """Select the overrides in which two commands must agree to be the same sweep or search."""
    return sorted(argument for argument in arguments if effect_of_override(argument) in RUN_EFFECTS)


def identity(
    config: Mapping[str, Any],
    effects: Iterable[Effect] = ALL_EFFECTS,
    *,
    below: str = "",
    per_machine: bool = True,
) -> dict[str, Any]:
    """Select the settings, by dotted key, whose keys have one of these effects.

    Args:
        config: plain values, with interpolations resolved.
        effects: effects of the selected keys.
        below: select only the keys of this group.
        per_machine: whether to select keys that may differ between the machines of one run.
    """
    wanted = frozenset(effects)
    return {
        key: value
        for key, value in flatten(config)
        if key.startswith(f"{below}." if below else "")
        and effect_of(key, config) in wanted
        and (per_machine or not is_per_machine(key))
    }


def is_per_machine(key: str) -> bool:
    """Whether the value of a key may differ between the machines of one run."""
    row = row_of(key)
    return row is not None and row.per_machine


def flatten(config: Mapping[str, Any], prefix: str = "", sign: str = ".") -> Iterator[tuple[str, Any]]:
    """Yield the key of every value of nested mappings, joined with `sign`, and the value; {} is a value too."""
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from flatten(value, f"{prefix}{key}{sign}", sign)
        else:
            yield f"{prefix}{key}", value


def name_attention(attention: str, _parent_: Mapping[str, Any]) -> str:
    """Return the name of an attention type, and of each slot of another type: `full-encoder-linear`.

    Args:
        attention: the type in conf/attention.
        _parent_: the slots. `types` holds the type of each; `variables` is like the slots of an encoder.
    """
    types = {**_parent_["types"]}
    usual = {"encoder": attention, "decoder": attention, "cross": "full", "variables": types["encoder"]}
    types["variables"] = _parent_.get("variables", _parent_)["types"]["encoder"]
    return attention + "".join(f"-{slot}-{types[slot]}" for slot in usual if types[slot] != usual[slot])


def without_hydra(config: DictConfig) -> DictConfig:
    """Copy a configuration without Hydra's part. Keys can be added to the copy."""
    copy = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
    OmegaConf.set_struct(copy, False)
    return copy


def variant_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that affect the tested forecasts, by dotted key. A setting that is null counts as absent.

    Paths in the run's own folder are omitted. `config` has plain values with resolved interpolations.
    """
    folder = str(config.get("output_dir"))
    settings = {}
    for key, value in identity(config, VARIANT_EFFECTS).items():
        if key == "checkpoint" and value is not None:
            value = "another run's"  # each seed starts from a checkpoint of its own
        is_own_path = isinstance(value, str) and value.startswith(f"{folder}/")
        if value is not None and not is_own_path:
            settings[key] = value
    return settings


def variant_id(config: Mapping[str, Any]) -> str:
    """Return a hash of the settings that change the forecasts, but for the seed: equal for the seeds of a variant.

    It also holds the name of the data file, without its folder. `config` has plain values with resolved interpolations.
    """
    settings = {key: value for key, value in variant_settings(config).items() if key != "seed"}
    settings["data.path"] = PurePath(str(config["data"].get("path"))).name
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()[:10]


def without_local_paths(config: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Copy a configuration without the keys that name places of files, and with other absolute paths cut to a name."""
    kept = {}
    for name, value in config.items():
        key = f"{above}{name}"
        if isinstance(value, Mapping):
            kept[name] = without_local_paths(value, f"{key}.")
        elif effect_of(key) != PLACE:
            is_path = isinstance(value, str) and PurePath(value).is_absolute()
            kept[name] = PurePath(value).name if is_path else value
    return kept


def first_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, Any, Any] | None:
    """The first key that differs between two identities, with both values; None if they are equal."""
    for key in {**old, **new}:
        if old.get(key) != new.get(key):
            return key, old.get(key), new.get(key)
    return None
