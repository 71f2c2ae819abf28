"""Composition of configurations, checks of composed ones, and the help."""

import re
import secrets
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.types import Override
from hydra.errors import ConfigCompositionException, MissingConfigException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from forecast.checkpoints import contents
from forecast.cli import overrides, safety
from forecast.cli.overrides import first_of_sweep, refuse_sweep
from forecast.runs.folder import UNREADABLE, read_overrides
from forecast.system import distributed, keys, location
from forecast.system.errors import CONF, ConfigError, DataError
from forecast.system.formatting import write_setting, write_value
from forecast.system.hydra_internals import VERSION_BASE, prefer_own_plugins

WIDTH, INDENT, NAME_WIDTH = 120, 2, 20  # characters of a line, before a row, and of the column of names

LINE = re.compile(r"(?P<indent> *)(?P<key>[\w.]+):(?P<value>.*?)(?:(?<=\s)# (?P<comment>.*))?$")
"""A line of a YAML file with a key."""


def describe_keys(*names: str, _root_: DictConfig) -> str:
    """Describe keys of the command of a configuration in one row each; the resolver `key_help` of help texts."""
    rows = []
    for name in names:
        default = OmegaConf.select(_root_, name)
        default = OmegaConf.to_container(default) if OmegaConf.is_config(default) else default
        has_default = default is not None and default is not False
        rows.append(format_row(name, find_comment(_root_, name), write_value(default) if has_default else ""))
    return "\n".join(rows)


def format_row(name: str, comment: str, default: str) -> str:
    """Write a row: the name, and beside it the comment and the default, in several lines if they are long."""
    text = f"{comment} (default: {default})" if default else comment
    width = WIDTH - INDENT - NAME_WIDTH
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    first = name.ljust(NAME_WIDTH - 2) + "  "
    return f"\n{' ' * (INDENT + NAME_WIDTH)}".join([f"{' ' * INDENT}{first}{lines[0]}", *lines[1:]])


def find_comment(config: DictConfig, name: str) -> str:
    """Find the comment on a key: in the files of the command, of the chosen option of its group, of the other options.

    Raises KeyError: no file has a comment on this key.
    """
    group, _, key = name.partition(".")
    chosen = f"{config.hydra.runtime.choices.get(group)}.yaml"
    options = sorted((CONF / group).rglob("*.yaml"), key=lambda path: (path.name != chosen, path))
    places = [(path, name) for path in files_of_command(config.hydra.job.name)] + [(path, key) for path in options]
    found = (read_comments(path).get(key) for path, key in places)
    comment = next(filter(None, found), None)
    if comment is None:
        raise KeyError(f"conf/ has no comment on the key {name}")
    return comment


def files_of_command(command: str) -> Iterator[Path]:
    path = CONF / f"{command}.yaml"
    yield path
    for name in re.findall(r"^  - (\w+)$", path.read_text("utf-8"), re.MULTILINE):
        if name != "_self_":
            yield from files_of_command(name)


@cache
def read_comments(path: Path) -> dict[str, str]:
    """Read the comments beside the keys of a YAML file, by dotted key; a comment may continue in the lines below."""
    comments: dict[str, str] = {}
    parents: list[tuple[int, str]] = []  # the keys above, with their indents
    name, column = "", -1
    for line in path.read_text("utf-8").splitlines():
        if name and line.strip().startswith("# ") and line.index("#") == column:
            comments[name] += " " + line.strip().removeprefix("# ")
            continue
        name, match = "", LINE.fullmatch(line)
        if match is None:
            continue
        indent = len(match["indent"])
        parents = [*(each for each in parents if each[0] < indent), (indent, match["key"])]
        if match["comment"]:
            name, column = ".".join(key for _, key in parents), line.index("# ")
            comments[name] = match["comment"]
    return comments


def by_horizon(pred_len: int, values: dict[int, int]) -> int:
    """Return the value of an experiment's table for this horizon. Raises ConfigError: the table has no such horizon."""
    if pred_len not in values:
        known = ", ".join(map(str, values))
        raise ConfigError(f"pred_len={pred_len}: this experiment has settings for the horizons {known} only")
    return values[pred_len]


OmegaConf.register_new_resolver("processes_per_node", distributed.processes_per_node, replace=True)
OmegaConf.register_new_resolver("nodes", distributed.nodes, replace=True)
OmegaConf.register_new_resolver("key_help", describe_keys, replace=True)
OmegaConf.register_new_resolver("at_most", min, replace=True)
OmegaConf.register_new_resolver("by_horizon", by_horizon, replace=True)
OmegaConf.register_new_resolver("choose", lambda condition, yes, no: yes if condition else no, replace=True)
OmegaConf.register_new_resolver("attention_name", keys.name_attention, replace=True)
OmegaConf.register_new_resolver("attention_types", lambda: ",".join(overrides.options("attention")), replace=True)
OmegaConf.register_new_resolver("random_suffix", lambda *_: secrets.token_hex(3), use_cache=True, replace=True)

RUN_NAME = re.compile(r"[^./\\][^/\\]{0,150}")

FROM_CHECKPOINT = tuple(key for key in keys.AS_TRAINED if key in keys.ROWS)
"""Keys that the files of conf/data refer to. A command on a trained model takes them from its checkpoint."""


def compose_config(*arguments: str, config_name: str = "train") -> DictConfig:
    """Compose the configuration of these overrides outside of a run, with an empty `output_dir`."""
    prefer_own_plugins()
    with initialize_config_dir(str(CONF), version_base=VERSION_BASE):
        return compose(config_name, overrides=["++output_dir=''", *arguments])


def compose_command(config_name: str, arguments: Sequence[str], *, sweeps: bool = False) -> DictConfig:
    """Check a command's overrides and compose its configuration, Hydra's part included.

    Hydra composes the chosen options of groups. The keys of this configuration are the valid keys, and its values give
    the types of valid values. Then Hydra composes all overrides. With `sweeps`, overrides may have several values; the
    configuration has the first of a sweep over choices.

    Raises ConfigError: a key or option is unknown, a value has the wrong type or is out of range, an override has
    several values without -m, an interpolation cannot be resolved, or the run name is not a valid folder name.
    """
    parsed = overrides.parse(arguments)
    groups = [override for override in parsed if overrides.is_group(override)]
    for group in groups:
        if not group.key_or_group.startswith("hydra/"):
            overrides.check_options(group)
    prefer_own_plugins()
    with initialize_config_dir(str(CONF), version_base=VERSION_BASE):
        try:
            options = [first_of_sweep(group) for group in groups]
            config = compose(config_name, overrides=options, return_hydra_config=True)
        except MissingConfigException as error:  # `check_options` checks the groups of conf/
            raise overrides.missing_option(error) from None
        except ConfigCompositionException as error:
            raise overrides.missing_group(error, options) from None
        overrides.check_installed(config.hydra.runtime.choices)
        safety.check_search_path(arguments)
        overrides.check_keys(parsed, config)
        if len(groups) < len(parsed):
            typed = [each for each in parsed if each.is_choice_sweep() or not each.is_sweep_override()]
            config = compose(config_name, overrides=list(map(first_of_sweep, typed)), return_hydra_config=True)
    overrides.check_search_space(config, {override.key_or_group for override in parsed})
    check_interpolations(config)
    if not sweeps and config.hydra.mode != RunMode.MULTIRUN:
        refuse_sweep(parsed)
    return config


def check_interpolations(config: DictConfig) -> None:
    """Check that every interpolation can be resolved, and that the run name is a valid folder name.

    Raises ConfigError: one of them is invalid; the message names the key.
    """
    config = keys.without_hydra(config)
    if "output_dir" in config:
        config.output_dir = ""  # known only within a run
    try:
        for key in FROM_CHECKPOINT:
            config.setdefault(key, 0)
        OmegaConf.resolve(config)
    except OmegaConfBaseException as error:
        unresolved = [name for name, value in safety.leaves(config) if "${" in str(value)]
        # of several, the one that the others refer to
        key = min(unresolved, key=lambda name: name.count("."), default="a setting")
        reason = str(error).splitlines()[0].removeprefix("ConfigError raised while resolving interpolation: ")
        raise ConfigError(f"{key}: {reason}") from None
    except RecursionError:
        raise ConfigError("the interpolations ${...} of the settings refer to each other without end") from None
    name = config.get("run_name")
    if name is not None and not (RUN_NAME.fullmatch(str(name)) and str(name).isprintable()):
        raise ConfigError(f"run_name={name} is not a valid folder name; give another")


def check_checkpoint(config: DictConfig) -> None:
    """Raise ConfigError if no checkpoint is given."""
    if not config.checkpoint:
        raise ConfigError("checkpoint= is needed: checkpoint=runs/RUN, or a checkpoint file")


FILES = set(keys.FILE_SOURCES) - {"store"}
"""Values of data.name that stand for a file at data.path; a store is a folder."""


def find_named_files(config: DictConfig) -> None:
    """Find the checkpoint and the data file, before the libraries that read them are imported.

    `checkpoint=latest` is replaced by the run that it means, so that it is looked up once. Files at URLs are left to
    their readers, and so are stores and the data of a trained model.

    Raises CheckpointError, DataError: one of them does not exist.
    """
    if config.get("checkpoint"):
        config.checkpoint = str(contents.find_run(config.checkpoint))
    data = config.get("data") or {}
    if data.get("name") in FILES and (given := data.get("path")):
        path = location.locate(given)
        if isinstance(path, Path):
            location.check_exists(path)


def inherit_settings(command: str, arguments: Sequence[str]) -> list[str]:
    """The overrides of the run whose training goes on from `checkpoint=`, without those whose key or group is typed.

    Settings that say where results are written, and how jobs are started, are not taken, nor those of its own file if
    `data.path` or `data` is typed. A checkpoint file without the folder of its run has no overrides.

    Raises CheckpointError: there is no such checkpoint.
    """
    typed = {override.key_or_group: override for override in overrides.parse(arguments)}
    given, has_own = typed.get("checkpoint"), bool({"experiment", "suggest"} & {*typed})
    if command != "train" or has_own or given is None or given.is_sweep_override():
        return []
    if not (path := _first_value(given)):
        return []
    checkpoint = contents.find_checkpoint(path, prefer="last")
    try:
        texts = read_overrides(checkpoint.parent.parent / "overrides.yaml")
    except UNREADABLE:
        return []
    content, other_file = contents.read_plain(checkpoint), bool({"data", "data.path", "data.root"} & {*typed})
    found, wanted = [], keys.RUN_EFFECTS - {keys.Effect.NAME}
    for text, override in zip(texts, overrides.parse(texts), strict=True):
        key = keys.key_of_override(text)
        row, group = keys.row_of(key), key.split(".")[0]
        is_typed = key in typed or (group in typed and group != "data")
        is_of_file = other_file and (
            (row is not None and row.one_file and key != "data.drop")
            or (key == "data" and _first_value(override) not in keys.FILE_SOURCES)
        )
        if key != "checkpoint" and keys.effect_of(key) in wanted and not (is_typed or is_of_file):
            found.append(_resolve_path(text, key, _first_value(override), content))
    return found


def _resolve_path(text: str, key: str, value: Any, content: Mapping[str, Any]) -> str:
    """An override, whose relative path of data begins where the run of a checkpoint was started if it is not here."""
    name = key.removeprefix("data.")
    resolved = contents.resolve_paths({name: value}, content)[name] if key.startswith("data.") else value
    return text if resolved == value else overrides.quote(f"{key}={resolved}", sweep=False)


IMPLYING = ("train", "check", "backtest")  # commands in which `data.path` implies a value of `data`


def imply_data(command: str, arguments: Sequence[str]) -> tuple[list[str], str]:
    """The overrides that `data.path` implies where no `data=` is typed, and the line that says so, if one is needed.

    They are data=csv, data=store, or data=long with the columns of the file that are not typed. Of several files, the
    first one decides. An experiment, and a checkpoint that is backtested, have data of their own.

    Nothing is composed: options of reading are those that are typed.

    Raises ConfigError: an argument cannot be read.
    """
    parsed = overrides.parse(arguments)
    typed = {override.key_or_group: override for override in parsed if not override.is_delete()}
    path = _first_value(typed["data.path"]) if "data.path" in typed else None
    with_own = {"data", "experiment", *(["checkpoint"] if command == "backtest" else [])}
    if command not in IMPLYING or not path or with_own & typed.keys():
        return [], ""
    settings, why = _find_layout(str(path), typed)
    settings = {key: value for key, value in settings.items() if key not in typed}
    is_usual = settings == {"data": "csv"} and command != "train"
    shown = " ".join(write_setting(key, value) for key, value in settings.items())
    texts = {key: value if isinstance(value, str) else write_value(value) for key, value in settings.items()}
    implied = [overrides.quote(f"{key}={text}", sweep=False) for key, text in texts.items()]
    return implied, "" if is_usual else f"taken:     {shown}  ({why})"


def _first_value(override: Override) -> Any:
    """The value of an override, or the first one of a sweep; None if it has none."""
    value = next(iter(overrides.values_of(override)), None)
    return getattr(value, "text", value)  # of a sweep, a text in quotes


def _find_layout(path: str, typed: Mapping[str, Override]) -> tuple[dict[str, Any], str]:
    """The settings that suit a file, and the reason. A file that does not exist, or is at a URL, counts as a table."""
    from forecast.data.files.read import find_layout  # imports pandas
    from forecast.data.files.read_options import ReadOptions
    from forecast.data.store import is_store

    if is_store(path):
        return {"data": "store"}, "a store"
    given = {key.removeprefix("data."): override for key, override in typed.items() if key.startswith("data.")}
    of_series, of_table = (overrides.keys_of_file(CONF / f"data/{name}.yaml") for name in ("long", "csv"))
    named = [key for key in given if key in {"melt"} | (of_series - of_table)]
    file, layout, reason, why = location.locate(path), {}, "", "not examined"
    if isinstance(file, Path) and file.exists():
        values = {key: _first_value(override) for key, override in given.items()}
        date_column = values.get("date_column", "ds" if named else "date")
        drop = values.get("drop")
        try:
            options = ReadOptions.of_settings(values)
            layout, reason = find_layout(file, date_column, options, drop if isinstance(drop, list) else ())
        except (TypeError, DataError):  # composing or reading names what is wrong
            return {"data": "long" if named else "csv"}, why
        why = reason or "one series"
    if named and not reason:
        return {"data": "long"}, f"data.{named[0]} is typed"
    return {"data": "csv", **layout}, why
