"""Overrides: quoting of free text, and checks before Hydra composes them."""

import difflib
import math
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override, RangeSweep
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from forecast.system.errors import CONF, ConfigError, NotInstalled, check_count
from forecast.system.formatting import quote_text, read_mapping, write_setting
from forecast.system.keys import RESULT, ROWS, TABLE, Key, Takes, key_of_override, row_of
from forecast.system.location import GROUPS_OF_ATTENTION, conf_files, conf_folders, folder_of_group

FREE_TEXT = re.compile(
    rf"^(\+{{0,2}}(?:{'|'.join(re.escape(row.name) for row in TABLE if row.text)}))=(.*)$", re.DOTALL
)

TEXT_OR_LIST = frozenset(row.name for row in TABLE if row.text and row.takes is Takes.ANY_TYPE)
"""Keys that take one free text, such as a column, or a list of them."""


def quote(argument: str, *, sweep: bool) -> str:
    """Quote the value of a key that takes free text.

    In a multirun, commas separate the values of a sweep, and each value is quoted separately. Values in quotes, `null`,
    `???` and interpolations do not change.
    """
    match = FREE_TEXT.match(argument)
    if match is None:
        return quote_mapping(argument)
    key, text = match.groups()
    if key.endswith(("output", "output_root")) and text.startswith("~"):
        text = os.path.expanduser(text)
    if key.lstrip("+") in TEXT_OR_LIST and text.startswith("[") and text.endswith("]"):
        return argument
    of_sweep = r"""(?:^|,)('[^']*'(?=,|$)|"[^"]*"(?=,|$)|[^,]*)"""  # between commas, except for those in quotes
    values = re.findall(of_sweep, text) if sweep and text != "," else [text]
    return f"{key}=" + ",".join(quote_value(value) for value in values)


def quote_mapping(argument: str) -> str:
    """Quote a mapping that Hydra's grammar cannot read, such as one with column names in quotes; see `read_mapping`."""
    key, _, value = argument.partition("=")
    if not isinstance(read_mapping(value), dict):
        return argument
    try:
        parse([argument])
    except ConfigError:
        return f"{key}=" + quote_text(value, "'")
    return argument


def quote_value(value: str) -> str:
    """Quote one value, unless it is quoted, `null`, `???`, empty or an interpolation."""
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    if quoted or value in ("null", "???", "") or value.startswith("${"):
        return value
    return quote_text(value, "'")


def values_of(override: Override) -> list[Any]:
    """The value of an override, all values of a sweep over choices, or both ends of one over numbers.

    Hydra checks other sweeps, which have none here.
    """
    value = override.value()
    if isinstance(value, IntervalSweep):
        return [value.start, value.end]
    if override.is_choice_sweep() or isinstance(value, RangeSweep):
        values = list(override.sweep_iterator(transformer=lambda x: x))
        return values if override.is_choice_sweep() else [*values[:1], *values[-1:]]
    return [] if override.is_sweep_override() or override.is_delete() else [value]


def refuse_sweep(overrides: Sequence[Override]) -> None:
    """Raise ConfigError for an override with several values, in a command without -m."""
    for override in overrides:
        if override.is_sweep_override():
            raise ConfigError(
                f"{override.input_line}: several values: give one of them, or a list in brackets; forecast.train, "
                "forecast.backtest and forecast.benchmark run each of them with -m"
            )


def first_of_sweep(override: Override) -> str:
    if not override.is_choice_sweep():
        return override.input_line or ""
    return f"{override.get_key_element()}={next(iter(override.sweep_string_iterator()))}"


MAX_NUMBER = 2**63  # largest absolute value of a number whose key has no limits


def check_value(key: str, value: Any, default: Any) -> None:
    """Check the type and the range of one value. Constructors check everything else.

    Raises ConfigError: the value is invalid; the message names the key, the value and the valid values.
    """
    row = row_of(key) or Key(key, RESULT)
    if row.takes is Takes.COUNT_OR_NULL and value is not None:
        check_count(key, value, advice=", or null")
    needed = find_needed(row, key, value, default)
    if needed:
        raise ConfigError(f"{key}={'null' if value is None else value}: {needed}")


def find_needed(row: Key, key: str, value: Any, default: Any) -> str | None:
    """What the key needs in place of an invalid value; None for a valid one."""
    if row.takes is Takes.NAME and (value is None or not str(value).strip()):
        return "a name is needed"
    if value == "" and key.startswith("data.") and key != "data.path":
        return f"no value: give one, or leave {key}= out"
    if key == "trainer.devices" and (value == 0 or isinstance(value, float) or value in ([], "")):
        return "a number of processes or GPUs is needed, or a list of GPUs, or -1 for all"
    if row.takes in (Takes.ANY_TYPE, Takes.COUNT_OR_NULL):
        return None
    needed = None
    if value is None:
        if isinstance(default, ListConfig) or (is_number(default) and not row.null):
            needed = "a number" if is_number(default) else "a list"
    elif is_number(default):
        needed = find_needed_number(value, whole=isinstance(default, int))
    elif isinstance(default, bool):
        return None if isinstance(value, bool) else "true or false is needed"
    elif isinstance(default, ListConfig):
        is_list = isinstance(value, list) or row.takes is Takes.LIST_OR_WORD
        needed = None if is_list else "a list"
    elif isinstance(default, str) and isinstance(value, list | dict):
        needed = "one word or text"
    if needed:
        usual = list(default) if isinstance(default, ListConfig) else default
        is_item = isinstance(default, ListConfig) and isinstance(value, str | int | float)
        return f"{needed} is needed, as in {write_setting(key, [value] if is_item else usual)}"
    smallest, largest = row.limits or (-MAX_NUMBER, MAX_NUMBER)
    is_no_number = row.limits and default is None and value is not None and not is_number(value)
    if not is_no_number and (not isinstance(value, int | float) or smallest <= value <= largest):
        return None
    return f"a number from {smallest:,} to {largest:,} is needed" if row.limits else "too large a number"


def find_needed_number(value: Any, *, whole: bool) -> str | None:
    """The kind of number that is needed in place of a value; None for a valid one."""
    if not is_number(value):
        return "a number"
    is_finite = math.isfinite(value)
    if whole:
        return None if is_finite and value == int(value) else "a whole number"
    return None if is_finite else "a finite number"


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


MULTIPLE_CHOICE = ("logger",)  # groups of which several options can be chosen together

EXTRAS = {  # options that need an extra, with the name of the extra, which is also the name of its package
    "hydra/sweeper/optuna": "optuna",
    "hydra/launcher/ray": "ray",
    "hydra/launcher/submitit_local": "submitit",
    "hydra/launcher/submitit_slurm": "submitit",
}


NEAR = 0.7  # similarity of two names, from 0 to 1, above which one may be meant by the other

USUAL = {  # keys by the names that other programs give them
    "epochs": "trainer.max_epochs", "lr": "optimizer.lr", "learning_rate": "optimizer.lr", "run": "checkpoint",
    "batch_size": "data.batch_size", "horizon": "pred_len", "context_length": "seq_len", "target": "data.target",
    "input": "data.path", "file": "data.path", "csv": "data.path", "gpu": "trainer.devices", "gpus": "trainer.devices",
}  # fmt: skip

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
            raise ConfigError(
                f"{argument}: cannot be read; write key=value; text that holds commas, brackets or spaces as "
                "\"key='the text'\""
            ) from None
    return parsed


def typed_overrides() -> dict[str, str]:
    return {key_of_override(argument): argument for argument in HydraConfig.get().overrides.task}


# ---- options of groups


def is_group(override: Override) -> bool:
    key = override.key_or_group.split("@")[0]
    return "." not in key and (
        key.startswith("hydra/") or any((folder / folder_of_group(key)).is_dir() for folder in conf_folders())
    )


def options(group: str) -> list[str]:
    """The options of a group: the names of its YAML files, with their folders below that of the group."""
    if group in GROUPS_OF_ATTENTION:
        return [path.stem for path in conf_files(group)]
    places = [folder / group for folder in conf_folders()]
    return sorted({str(p.relative_to(place).with_suffix("")) for place in places for p in place.rglob("*.yaml")})


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
            if name is not None and group in GROUPS_OF_ATTENTION:
                check_attention_type(group, str(name))


def check_attention_type(group: str, name: str) -> None:
    """Check the file of an attention type, and that the type can serve the slots that the group fills.

    Raises ConfigError: the file names no class, or the class has no form for one of the slots.
    """
    path = next(path for path in conf_files(group) if path.stem == name)
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict) or "_target_" not in content:
        raise ConfigError(
            f"{group}={name}: {path} must name the class, as _target_: module.Class, and its options beside it"
        )
    if group in ("cross", "variables") or not path.is_relative_to(CONF):
        from hydra.utils import get_object

        try:
            attention = get_object(content["_target_"])  # imports PyTorch, as the run does
            for slot in ("encoder", "decoder") if group == "attention" else (group,):
                attention.role_in(slot)
        # no such role, no such class, or a class without roles
        except (ValueError, ImportError, AttributeError) as error:
            reason = " ".join(str(error).split())
            raise ConfigError(f"{group}={name}: {content['_target_']} cannot be used: {reason}") from None


def check_installed(choices: Mapping[str, str | None]) -> None:
    """Raise NotInstalled if the chosen option of a group needs an extra that is not installed."""
    for group, name in choices.items():
        extra = EXTRAS.get(f"{group}/{name}")
        if extra is not None and find_spec(extra) is None:
            raise NotInstalled(f"{group}={name}", extra)


def missing_option(error: MissingConfigException) -> ConfigError:
    """Create the error for an option of a group of Hydra that does not exist."""
    group, _, name = (error.missing_cfg_file or "").rpartition("/")
    return ConfigError(f"{group}={name}: there is no such {group}. There are {', '.join(error.options or [])}.")


def missing_group(error: ConfigCompositionException, options: Sequence[str]) -> ConfigError:
    """Create the error for an option of a group that the command does not have. Hydra advises +, which cannot help."""
    typed = next((option for option in options if f"'{option.partition('=')[0]}'" in str(error)), None)
    if typed is None:
        return ConfigError(str(error).splitlines()[0])
    return ConfigError(f"{typed}: this command has no such group of options (--cfg all lists its keys)")


# ---- keys


def list_settings(config: DictConfig, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each dotted key and its value, which is None if it cannot be resolved. A list is one value."""
    for key in map(str, config):
        name = f"{prefix}{key}"
        try:
            value = config[key]
        except OmegaConfBaseException:  # of a missing value too
            value = None
        if isinstance(value, DictConfig) and not OmegaConf.is_interpolation(config, key):
            yield from list_settings(value, f"{name}.")
        else:
            yield name, value


def check_keys(overrides: Sequence[Override], defaults: DictConfig) -> None:
    """Check that each override names a key of `defaults` and gives it a value of the right type and range.

    Raises ConfigError: a key is unknown or computed, or a value is invalid; the message says which are valid.
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
        for value in values_of(override):
            if key not in known and not isinstance(value, dict | None):
                below = [name for name in known if name.startswith(f"{key}.")][:3]
                raise ConfigError(f"{key}={value}: it is a group of settings; set one of them: {', '.join(below)}")
            check_value(key, value, known.get(key))
        drawn = override.value()
        if isinstance(drawn, IntervalSweep) and isinstance(drawn.start, float) and isinstance(known.get(key), int):
            raise ConfigError(f"{override.input_line}: whole numbers are needed, as in int(interval(1,4))")


def check_search_space(config: DictConfig, typed: Collection[str]) -> None:
    """Check the search space of a configuration as if it was typed, without the keys that an override replaces.

    Raises ConfigError: as `check_keys` and `check_options` do.
    """
    params = config.hydra.sweeper.get("params") or {}
    space = parse([f"{key}={value}" for key, value in params.items() if key not in typed])
    for override in filter(is_group, space):
        check_options(override)
    check_keys(space, config)


def unknown_key(key: str, known: Mapping[str, Any]) -> str:
    """The message for an unknown key, with the known key or group whose last part is most like its last part."""
    names = [name for name in known if name not in COMPUTED and not name.startswith("hydra.")]
    own = {name.split(".")[0] for name in names}
    groups = {path.name for path in CONF.iterdir() if path.is_dir()} if "model" in own else set()
    group, _, last = key.rpartition(".")
    if group in groups and (options := options_with_key(group, last)):
        there = ", ".join(f"{group}={name}" for name in options)
        return f"{key}: the chosen {group} has no such key; these options have it: {there}"
    meant = find_similar(key, [*names, *own, *groups])
    hint = f"; did you mean {meant}?" if meant else ""
    return f"{key}: there is no such key{hint} (--cfg job lists them all)"


def find_similar(key: str, names: Sequence[str]) -> str | None:
    """The one of these keys and groups that is usual for `key`, or whose last part is most like its last part."""
    group, _, last = key.rpartition(".")
    usual = USUAL.get(last)
    if usual is not None and usual.split(".")[0] in {name.split(".")[0] for name in names}:
        return usual
    # of several keys with the same last part, that of the typed group, then the shortest
    ordered = sorted(names, key=lambda name: (name.rpartition(".")[0] == group, -name.count(".")))
    by_last = {name.rpartition(".")[2]: name for name in ordered}
    near = difflib.get_close_matches(last, by_last, n=1, cutoff=NEAR)
    return by_last[near[0]] if near else None


def unknown_flag(flag: str, defaults: DictConfig) -> str:
    key, _, value = flag.lstrip("-").partition("=")
    key = key.replace("-", "_")
    names = [name for name, _ in list_settings(defaults) if not name.startswith("hydra.")]
    meant = key if key in names else find_similar(key, names)
    advice = f"write {meant}={value or 'VALUE'}" if meant else "--help lists them"
    return f"{flag}: settings are written without dashes, as KEY=VALUE: {advice}"


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
