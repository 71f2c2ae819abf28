"""Checks of overrides for unknown keys, unknown options and invalid values, before Hydra composes them.

Imports no torch: this module runs before every command.
"""

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, ListConfig

from forecast.cli.limits import check_value
from forecast.cli.sweep_values import draws_fractions, ends_of, values_of
from forecast.cli.traverse import list_settings
from forecast.system.arguments import write_setting
from forecast.system.conf_folders import conf_files, conf_folders
from forecast.system.errors import ConfigError, NotInstalled
from forecast.system.identity import key_of_override
from forecast.system.keys import ROWS, Takes, row_of
from forecast.system.paths import CONF, user_path

MULTIPLE_CHOICE = ("logger",)
"""Groups of which several options can be chosen together."""

EXTRAS = {
    "hydra/sweeper/optuna": "optuna",
    "hydra/launcher/ray": "ray",
    "hydra/launcher/submitit_local": "submitit",
    "hydra/launcher/submitit_slurm": "submitit",
}
"""Options that need an extra, with the name of the extra, which is also the name of its package."""


NEAR = 0.7
"""Similarity of the names of two keys, from 0 to 1, above which one may be meant by the other."""

COMPUTED = {row.name: row.set_by for row in ROWS.values() if row.set_by}
"""Keys that are not typed, each with the key that sets it."""


def parse(arguments: Sequence[str]) -> list[Override]:
    """Parse overrides. Raises ConfigError for an argument that does not follow Hydra's grammar."""
    parser = OverridesParser.create()
    parsed = []
    for argument in arguments:
        try:
            parsed += parser.parse_overrides([argument])
        except (HydraException, RecursionError):
            raise ConfigError(f"{argument}: cannot be read; {_explain_syntax(argument, arguments)}") from None
    return parsed


def _explain_syntax(argument: str, arguments: Sequence[str]) -> str:
    """How to write one of the arguments, which does not follow Hydra's grammar."""
    key = "checkpoint" if argument.endswith(".ckpt") else "data.path"
    is_given = any(other.startswith(f"{key}=") for other in arguments)
    if re.fullmatch(r"[\w./~-]+", argument) and not is_given and user_path(argument).is_file():
        return f"write {key}={argument}"
    return "write key=value; text that holds commas, brackets or spaces as \"key='the text'\""


def typed_overrides() -> dict[str, str]:
    """Return the overrides that the user typed for this run, by dotted key."""
    return {key_of_override(argument): argument for argument in HydraConfig.get().overrides.task}


# ---- options of groups


def is_group(override: Override) -> bool:
    """Whether an override chooses an option of a group."""
    key = override.key_or_group.split("@")[0]
    return "." not in key and (
        key.startswith("hydra/") or any((folder / key).is_dir() for folder in conf_folders())
    )


def options(group: str) -> list[str]:
    """The options of a group: the names of its YAML files."""
    places = [folder / group for folder in conf_folders()]
    return sorted(
        {str(p.relative_to(place).with_suffix("")) for place in places for p in place.rglob("*.yaml")}
    )


def check_options(override: Override) -> None:
    """Raise ConfigError for an option that a group does not have."""
    group = override.key_or_group.split("@")[0]
    known = options(group)
    for value in values_of(override):
        if isinstance(value, list) and group not in MULTIPLE_CHOICE:
            raise ConfigError(
                f"{group}={value}: give one option; to try several, use -m {group}={','.join(map(str, value))}"
            )
        for name in value if isinstance(value, list) else [value]:
            if name is not None and name not in known:
                matches = difflib.get_close_matches(str(name), known, n=3 if len(known) > 10 else 1)
                hint = f"; did you mean {' or '.join(matches)}?" if matches else "."
                every = f" There are {', '.join(known)}." if len(known) <= 10 else ""
                raise ConfigError(f"{group}={name}: there is no such {group}{hint}{every}")


def find_own_options(overrides: Sequence[Override], group: str) -> list[str]:
    """Return the chosen options of a group that only the user's folder has (FORECAST_CONF)."""
    chosen = [
        name for override in overrides if override.key_or_group == group for name in values_of(override)
    ]
    return [str(name) for name in chosen if name and not (CONF / group / f"{name}.yaml").exists()]


def check_installed(choices: Mapping[str, str | None]) -> None:
    """Raise NotInstalled if the chosen option of a group needs an extra that is not installed."""
    for group, name in choices.items():
        extra = EXTRAS.get(f"{group}/{name}")
        if extra is not None and find_spec(extra) is None:
            raise NotInstalled(f"{group}={name}", extra)


def missing_option(error: MissingConfigException) -> ConfigError:
    """Create the error for an option of a group of Hydra that does not exist."""
    group, _, name = (error.missing_cfg_file or "").rpartition("/")
    return ConfigError(
        f"{group}={name}: there is no such {group}. There are {', '.join(error.options or [])}."
    )


# ---- keys


def check_keys(overrides: Sequence[Override], defaults: DictConfig) -> None:
    """Check that each override names a key of `defaults` and gives it a value of the right type and range.

    Raises:
        ConfigError: a key is unknown or computed, or a value is invalid; the message says which are valid.
    """
    known = dict(list_settings(defaults))
    branches = {key.rsplit(".", n)[0] for key in known for n in range(1, key.count(".") + 1)}
    for override in overrides:
        key = override.key_or_group
        if is_group(override) or override.is_add() or (override.is_force_add() and key not in known):
            continue
        if key not in known and key not in branches:
            raise ConfigError(unknown_key(key, known))
        if key in COMPUTED:
            default = known[COMPUTED[key]]
            example = COMPUTED[key] if default is None else f"{COMPUTED[key]}={default}"
            raise ConfigError(f"{key}: it is computed; set {example} instead")
        refuse_words(override, known.get(key))
        for value in [*values_of(override), *ends_of(override)]:
            if key not in known and not isinstance(value, dict | None):
                below = [name for name in known if name.startswith(f"{key}.")][:3]
                raise ConfigError(
                    f"{key}={value}: it is a group of settings; set one of them: {', '.join(below)}"
                )
            check_value(key, value, known.get(key))
        if draws_fractions(override) and isinstance(known.get(key), int):
            raise ConfigError(f"{override.input_line}: whole numbers are needed, as in int(interval(1,4))")


def refuse_words(override: Override, default: Any) -> None:
    """Raise ConfigError for words or numbers where the default is a list; the message has the list of them."""
    values, key = values_of(override), override.key_or_group
    takes_words = (row_of(key) or ROWS["seed"]).takes is not Takes.TYPE_OF_DEFAULT
    if (
        isinstance(default, ListConfig)
        and not takes_words
        and any(isinstance(v, str | int | float) for v in values if v != "")
    ):
        given = ",".join(map(str, values))
        raise ConfigError(f"{key}={given}: a list is needed, as in {write_setting(key, values)}")


def check_search_space(config: DictConfig, typed: Collection[str]) -> None:
    """Check the search space of a configuration as if it was typed, without the keys that an override replaces.

    Raises:
        ConfigError: as `check_keys` and `check_options` do.
    """
    params = config.hydra.sweeper.get("params") or {}
    space = parse([f"{key}={value}" for key, value in params.items() if key not in typed])
    for override in filter(is_group, space):
        check_options(override)
    check_keys(space, config)


def unknown_key(key: str, known: dict[str, Any]) -> str:
    """The message for an unknown key, with the nearest known keys and groups."""
    known = {name: value for name, value in known.items() if name not in COMPUTED}
    top = {name.split(".")[0] for name in known}
    groups = {path.name for path in CONF.iterdir() if path.is_dir()} if "model" in top else set()
    by_last = {name.rsplit(".", 1)[-1]: name for name in known if not name.startswith("hydra.")}
    group, _, last = key.rpartition(".")
    if group in groups and (options := options_with_key(group, last)):
        there = ", ".join(f"{group}={name}" for name in options)
        return f"{key}: the chosen {group} has no such key; these options have it: {there}"
    matches = [by_last[last]] if last in by_last else []
    if last == key:
        matches += difflib.get_close_matches(key, top | groups, n=2, cutoff=NEAR)
    if last != key or not matches:
        near = difflib.get_close_matches(key, known, n=2, cutoff=NEAR)
        matches += [name for name in near if _are_near(last, name.rsplit(".", 1)[-1])]
    if not matches:
        matches = [by_last[m] for m in difflib.get_close_matches(last, by_last, n=2, cutoff=NEAR)]
    matches = list(dict.fromkeys(matches))
    hint = f"; did you mean {' or '.join(matches[:3])}?" if matches else ""
    return f"{key}: there is no such key{hint} (--cfg job lists them all)"


def _are_near(text: str, other: str) -> bool:
    return bool(difflib.get_close_matches(text, [other], cutoff=NEAR))


def options_with_key(group: str, key: str) -> list[str]:
    """The options of a group of Hydra, in the folder conf/, whose file sets this key itself or by its defaults."""
    return [path.stem for path in conf_files(group) if key in keys_of_file(path)]


def keys_of_file(path: Path) -> set[str]:
    """The keys of a group that a YAML file of the group sets, itself or by its defaults."""
    content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    of_group = content.get(path.parent.name)  # of a file whose package is _global_
    keys = {*content, *of_group} if isinstance(of_group, dict) else {*content}
    entries = [entry for entry in content.get("defaults", []) if isinstance(entry, str)]
    included = [path.parent / f"{entry.removesuffix('@_here_')}.yaml" for entry in entries]
    return keys.union(*(keys_of_file(file) for file in included if file.is_file()))
