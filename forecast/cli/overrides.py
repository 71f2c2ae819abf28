"""Overrides: quoting of free text, and checks before Hydra composes them."""

import difflib
import math
import os
import re
from collections.abc import Collection, Mapping, Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override, RangeSweep
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, ListConfig

from forecast.cli.traverse import list_settings
from forecast.system.errors import CONF, ConfigError, NotInstalled, check_count, user_path
from forecast.system.formatting import quote_for_shell, quote_text, read_mapping, write_setting
from forecast.system.keys import RESULT, ROWS, TABLE, Key, Takes, key_of_override, row_of
from forecast.system.location import GROUPS_OF_ATTENTION, conf_files, conf_folders, folder_of_group

FREE_TEXT = re.compile(
    rf"^(\+{{0,2}}(?:{'|'.join(re.escape(row.name) for row in TABLE if row.text)}))=(.*)$", re.DOTALL
)

TEXT_OR_LIST = frozenset(row.name for row in TABLE if row.text and row.takes is Takes.ANY_TYPE)
"""Keys that take one free text, such as a column, or a list of them."""


FILES = frozenset({"data.path", "data.static_path", "data.future_path", "checkpoint", "future"})
"""Keys of files that must exist."""


def quote_all(arguments: Sequence[str], *, sweep: bool) -> list[str]:
    """Quote the values of the arguments that take free text. Raises ConfigError for one that the shell has split."""
    joined = join_split(arguments)
    if joined is not None:
        raise ConfigError(f"the shell splits arguments at spaces: write {quote_for_shell(joined)}")
    return [quote(argument, sweep=sweep) for argument in arguments]


def join_split(arguments: Sequence[str]) -> str | None:
    """The first argument whose value the shell has split at spaces, as it was meant; None if there is none."""
    starts = [number for number, argument in enumerate(arguments) if _has_key(argument)]
    for start, end in pairwise([*starts, len(arguments)]):
        if end - start == 1:
            continue
        joined = " ".join(arguments[start:end])
        key, _, value = joined.partition("=")
        is_text = FREE_TEXT.match(joined) is not None and (key not in FILES or os.path.exists(value))
        if (is_text or not can_parse(arguments[start])) and can_parse(quote(joined, sweep=False)):
            return joined
    return None


def _has_key(argument: str) -> bool:
    return "=" in argument or argument.startswith("~")


def can_parse(argument: str) -> bool:
    """Whether an argument follows Hydra's grammar."""
    try:
        OverridesParser.create().parse_overrides([argument])
    except (HydraException, RecursionError):
        return False
    return True


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
    values = split_values(text) if sweep and text != "," else [text]
    return f"{key}=" + ",".join(quote_value(value) for value in values)


def split_values(text: str) -> list[str]:
    """Split the values of a sweep at commas, except for those in quotes."""
    values, start, sign = [], 0, ""
    for place, letter in enumerate(text):
        if sign:
            sign = "" if letter == sign else sign
        elif letter in "'\"" and place == start:
            sign = letter
        elif letter == ",":
            values.append(text[start:place])
            start = place + 1
    return [*values, text[start:]]


def quote_mapping(argument: str) -> str:
    """Quote a mapping that Hydra's grammar cannot read, such as one with column names in quotes; see `read_mapping`."""
    key, _, value = argument.partition("=")
    if not isinstance(read_mapping(value), dict):
        return argument
    return argument if can_parse(argument) else f"{key}=" + quote_text(value, "'")


def quote_value(value: str) -> str:
    """Quote one value, unless it is quoted, `null`, `???`, empty or an interpolation."""
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    if quoted or value in ("null", "???", "") or value.startswith("${"):
        return value
    return quote_text(value, "'")


def write_override(key: str, value: Any) -> str:
    """Write the override that sets a key to a number or a text."""
    return f"{key}={value if isinstance(value, int | float) else quote_value(str(value))}"


def values_of(override: Override) -> list[Any]:
    """The value of an override, or all values of a sweep over choices. Hydra checks other sweeps."""
    if override.is_choice_sweep():
        return list(override.sweep_iterator(transformer=lambda x: x))
    return [] if override.is_sweep_override() or override.is_delete() else [override.value()]


def ends_of(override: Override) -> list[Any]:
    """The first and the last value of a sweep over an interval or a range of numbers."""
    value = override.value()
    if isinstance(value, IntervalSweep):
        return [value.start, value.end]
    if isinstance(value, RangeSweep) and (values := list(override.sweep_iterator(transformer=lambda x: x))):
        return [values[0], values[-1]]
    return []


def draws_fractions(override: Override) -> bool:
    """Whether an override draws numbers from an interval that is not one of whole numbers."""
    value = override.value()
    return isinstance(value, IntervalSweep) and isinstance(value.start, float)


def refuse_sweep(overrides: Sequence[Override]) -> None:
    """Raise ConfigError for an override with several values, in a command without -m."""
    for override in overrides:
        if override.is_sweep_override():
            raise ConfigError(
                f"{override.input_line}: several values: give one of them, or a list in brackets; forecast.train, "
                "forecast.backtest and forecast.benchmark run each of them with -m"
            )


def first_of_sweep(override: Override) -> str:
    """An override as text, with the first value of a sweep over choices."""
    if not override.is_choice_sweep():
        return override.input_line or ""
    return f"{override.get_key_element()}={next(iter(override.sweep_string_iterator()))}"


def first_of_sweeps(overrides: Sequence[Override]) -> list[str]:
    """Overrides as text, with the first value of each sweep over choices; without sweeps over ranges and intervals."""
    return [first_of_sweep(o) for o in overrides if o.is_choice_sweep() or not o.is_sweep_override()]


MAX_NUMBER = 2**63
"""Largest absolute value of a number whose key has no limits."""


def check_value(key: str, value: Any, default: Any) -> None:
    """Check the type and the range of one value. Constructors check everything else.

    Raises:
        ConfigError: the value is invalid; the message names the key, the value and the valid values.
    """
    row = row_of(key) or Key(key, RESULT)
    if row.takes is Takes.NAME and (value is None or not str(value).strip()):
        raise ConfigError(f"{key}={'null' if value is None else ''}: a name is needed")
    if value == "" and key.startswith("data.") and key != "data.path":
        raise ConfigError(f"{key}=: no value: give one, or leave {key}= out")
    if row.takes is Takes.ANY_TYPE:
        if key == "trainer.devices":
            check_devices(key, value)
    elif row.takes is Takes.COUNT_OR_NULL:
        if value is not None:
            check_count(key, value, advice=", or null")
    elif value is None:
        check_null(key, default, has_meaning=row.null)
    else:
        check_type(key, value, default, takes_a_word=row.takes is Takes.LIST_OR_WORD)
        if isinstance(value, int | float):
            check_range(key, value, row.limits)


def check_devices(key: str, value: Any) -> None:
    """Raise ConfigError if a number of devices is zero, empty or a fraction."""
    if value == 0 or isinstance(value, float) or value in ([], ""):
        raise ConfigError(
            f"{key}={value}: a number of processes or GPUs is needed, or a list of GPUs, or -1 for all"
        )


def check_null(key: str, default: Any, *, has_meaning: bool) -> None:
    """Raise ConfigError if null replaces a list, or a number for which null has no meaning."""
    if isinstance(default, ListConfig) or (is_number(default) and not has_meaning):
        what = "number" if is_number(default) else "list"
        raise ConfigError(f"{key}=null: a {what} is needed, as in {key}={default}")


def check_type(key: str, value: Any, default: Any, *, takes_a_word: bool) -> None:
    """Raise ConfigError unless the value has the type of the default."""
    if is_number(default):
        check_number(key, value, default)
    if isinstance(default, bool) and not isinstance(value, bool):
        raise ConfigError(f"{key}={value}: true or false is needed")
    if isinstance(default, ListConfig) and not isinstance(value, list) and not takes_a_word:
        raise ConfigError(f"{key}={value}: a list is needed, as in {key}={default}")
    if isinstance(default, str) and isinstance(value, list | dict):
        raise ConfigError(f"{key}={value}: one word or text is needed, as in {key}={default}")


def check_number(key: str, value: Any, default: int | float) -> None:
    """Raise ConfigError unless the value is a finite number, and a whole one if the default is."""
    if not is_number(value):
        raise ConfigError(f"{key}={value}: a number is needed, as in {key}={default}")
    if isinstance(default, int) and isinstance(value, float) and not value.is_integer():
        raise ConfigError(f"{key}={value}: a whole number is needed, as in {key}={default}")
    if not math.isfinite(value):
        raise ConfigError(f"{key}={value}: a finite number is needed, as in {key}={default}")


def check_range(key: str, value: int | float, limits: tuple[int, int] | None) -> None:
    """Raise ConfigError for a number beyond its limits."""
    if limits is None:
        if abs(value) > MAX_NUMBER:
            raise ConfigError(f"{key}={value}: too large a number")
    elif not limits[0] <= value <= limits[1]:
        raise ConfigError(f"{key}={value}: a number from {limits[0]:,} to {limits[1]:,} is needed")


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


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
        key.startswith("hydra/") or any((folder / folder_of_group(key)).is_dir() for folder in conf_folders())
    )


def options(group: str) -> list[str]:
    """The options of a group: the names of its YAML files."""
    places = [folder / folder_of_group(group) for folder in conf_folders()]
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
            if name is not None and group in GROUPS_OF_ATTENTION:
                check_attention_type(group, str(name))


def check_attention_type(group: str, name: str) -> None:
    """Check the file of an attention type, and that the type can serve the slots that the group fills.

    Raises:
        ConfigError: the file names no class, or the class has no form for one of the slots.
    """
    path = next((path for path in conf_files(group) if path.stem == name), None)
    if path is None:
        raise ConfigError(f"{group}={name}: place {name.rpartition('/')[2]}.yaml in attention/ itself")
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
        except ValueError as error:
            raise ConfigError(f"{group}={name}: {error}") from None
        except (ImportError, AttributeError) as error:
            raise ConfigError(
                f"{group}={name}: {content['_target_']} is not a subclass of forecast.attention.Attention that can be "
                f"imported: {' '.join(str(error).split())}"
            ) from None


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
