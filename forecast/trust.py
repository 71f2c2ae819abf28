"""What a configuration may have made: exactly the classes that the files below conf/ name.

Hydra makes whatever a `_target_` names, and resolves `${...}` before that. A checkpoint's configuration is data that a
stranger may have written; a command line may be pasted from anywhere. A class becomes known by a YAML file below conf/,
as a new attention does, or by its whole name in the environment variable FORECAST_TARGETS (several: parted by colons).

Imports no torch: `forecast.cli` looks before every command.
"""

import os
import re
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from omegaconf import Container, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from forecast.errors import CheckpointError, ConfigError
from forecast.paths import CONF

FLAGS = ("config_dir", "config_path", "config_name", "experimental_rerun")
"""Hydra's flags that read settings from elsewhere; the last one unpickles them."""

LOGGING = {
    "logging.StreamHandler",
    "logging.FileHandler",
    "ext://sys.stdout",
    "ext://sys.stderr",
    "${hydra.runtime.output_dir}/${hydra.job.name}.log",
    "${hydra:runtime.output_dir}/${hydra:job.name}.log",
}
"""What Hydra's logging files and ours name; logging.config calls what stands under `()` and `class`."""

SIMPLE = re.compile(r"\$\{[\w.]+\}|\$\{(?:hydra|now|oc\.env|random_suffix|member_folder):[^${}]*\}")
"""Interpolations that cannot make a mapping out of text."""

MOST_GROUPS = 3_000
"""Mappings and lists that a configuration may have: one that refers to itself at every level has endlessly many."""


def named(*groups: str) -> frozenset[str]:
    """The targets that the files of these configuration groups name, of all groups where none is given."""
    files = [path for group in groups or [""] for path in (CONF / group).rglob("*.yaml")]
    return frozenset(
        name for path in files for name in re.findall(r"_target_: *([\w.]+)", path.read_text("utf-8"))
    ) | frozenset(filter(None, os.environ.get("FORECAST_TARGETS", "").split(":")))


def of_plugins() -> frozenset[str]:
    """The targets in the configurations that Hydra and its installed launchers and sweepers bring along."""

    def below(store: dict[str, Any]) -> Iterator[str]:
        for entry in store.values():
            if isinstance(entry, dict):
                yield from below(entry)
            elif isinstance(entry.node, DictConfig) and isinstance(target := entry.node.get("_target_"), str):
                yield target

    return frozenset(below(ConfigStore.instance().repo))


# ---- the command line


def check_flags(typed: Namespace) -> None:
    """Raises ConfigError for a flag that reads settings from elsewhere."""
    for flag in FLAGS:
        if getattr(typed, flag) is not None:
            raise ConfigError(
                f"--{flag.replace('_', '-')}: settings come from conf/ and the command line alone; "
                "put a YAML file into conf/"
            )


def check_composed(config_name: str, arguments: list[str]) -> DictConfig:
    """All that these overrides give, Hydra's own part too, looked at before Hydra makes any of it.

    `arguments` hold no sweeps. Raises ConfigError naming the first key that would have anything made but what is known.
    """
    for argument in arguments:
        if argument.lstrip("+~").startswith("hydra.searchpath"):
            raise ConfigError(f"{argument}: settings come from conf/ alone; put a YAML file there")
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose(config_name, overrides=arguments, return_hydra_config=True)
    check_targets(config, named() | of_plugins())
    for name, value in leaves(config.hydra, "hydra"):
        if name == "hydra.sweeper.custom_search_space" and value is not None:
            raise ConfigError(f"{name}={value}: a search's space is written in conf/search, as values alone")
        if name.startswith(("hydra.job_logging.", "hydra.hydra_logging.")):
            named_there = name.endswith((".()", ".class")) or "://" in str(value) or "${" in str(value)
            if named_there and value not in LOGGING:
                raise ConfigError(f"{name}={value}: logging may use {', '.join(sorted(LOGGING)[2:])} alone")
        text, before = str(value), ""
        while text != before:
            text, before = SIMPLE.sub("", text), text
        if "${" in text and not name.startswith("hydra.help."):
            raise ConfigError(f"{name}={value}: write out what it should be")
    return config


def check_targets(config: Any, known: frozenset[str]) -> None:
    """Raises ConfigError naming the first `_target_` in a configuration, interpolations resolved, that is not known."""
    for name, value in leaves(config):
        if "_target_" in name.split(".") and value not in known:
            raise ConfigError(
                f"{name}={value}: only what a file below conf/ names can be made; nothing was run. Name a class of "
                "your own in a YAML file there, or in the environment variable FORECAST_TARGETS"
            )


def leaves(config: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted name and value of every setting, resolved where it can be. Raises ConfigError for endless ones."""
    waiting, seen = [(prefix, config)], 0
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, Container) and (value._is_none() or value._is_missing()):
            value = None
        if isinstance(value, Mapping | Sequence) and not isinstance(value, str):
            seen += 1
            if seen > MOST_GROUPS:
                raise ConfigError(f"{name}: the settings repeat themselves without end")
            keys = list(value) if isinstance(value, Mapping) else range(len(value))
            waiting += [(f"{name}.{key}".lstrip("."), resolved(value, key)) for key in reversed(keys)]
        else:
            yield name, value


def resolved(config: Any, key: Any) -> Any:
    """A setting's value; the text of an interpolation that points nowhere yet."""
    try:
        return config[key]
    except OmegaConfBaseException:
        node = config._get_node(key)
        return node._value() if node is not None else None


# ---- checkpoints

TRUSTED = named("attention", "cross", "model", "data")
"""Models, attention layers and data modules."""

TRAINING = named("optimizer", "schedule")
"""Optimizers and schedules, for training again with a checkpoint's settings."""


def check_trusted(path: Path, config: Any, known: frozenset[str] | None = TRUSTED) -> None:
    """Raises CheckpointError where a configuration from `path` is not plain values, or names anything but `known`.

    None: it may name what it likes, as it is only read.
    """
    waiting = [config]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            target = value.get("_target_")
            if known is not None and target is not None and target not in known:
                raise CheckpointError(
                    f"{path}: it names {target}, which no checkpoint of ours does; nothing was run"
                )
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
        elif not (value is None or isinstance(value, str | bool | int | float)) or "${" in str(value):
            raise CheckpointError(f"{path}: its settings are not plain values, as ours are; nothing was run")


def published(saved: dict[str, Any], root: str | None) -> dict[str, Any]:
    """A downloaded set's settings with its address and hash from this project: a checkpoint's own are not used.

    Nor does a checkpoint say where a download goes: without a `root` that the user gave, only into this project's own.
    """
    file = shipped("data").get(str(saved["name"]), {})
    is_ours = file.get("path") == saved["path"]
    may_download = is_ours and (root is not None or saved["root"] == "data")
    return {
        **saved,
        "url": file.get("url") if may_download else None,
        "hash": file.get("hash") if is_ours else None,
        "by_hand": "its file, or say where it lies: data.root=FOLDER",
    }


def shipped(group: str) -> dict[str, dict[str, Any]]:
    """The files of a configuration group, by name, as they are written."""
    return {path.stem: dict(OmegaConf.load(path)) for path in (CONF / group).glob("*.yaml")}  # type: ignore[arg-type]
