"""Configurations composed once per process, and choices that contain every option of every group in conf/."""

from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from itertools import zip_longest

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from forecast.cli.compose import compose_config
from forecast.cli.overrides import options
from forecast.system.errors import CONF

FRAGMENTS = {
    *(("data", f"base/{name}") for name in ("reading", "text", "windows")),
    ("experiment", "informer2020/paper"),
}
"""Options that other files include, and that cannot be chosen alone."""

SHARED = ("common", "tool", "trained")  # files that the configurations of several commands include

COMMANDS = sorted(path.stem for path in CONF.glob("*.yaml") if path.stem not in SHARED)
GROUPS = sorted({*(path.name for path in CONF.iterdir() if path.is_dir()), "variables"} - {"hydra"})


def choices() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Overrides of `train` and `benchmark`: the n-th one chooses the n-th option of every group."""
    yield from (("benchmark", (f"benchmark={option}",)) for option in options("benchmark"))
    groups = {group: options_of(group) for group in GROUPS if group != "benchmark"}
    groups["hydra/launcher"] = options("hydra/launcher")
    alone = ("mlp", "patch_encoder")
    groups["model"] = [option for option in groups["model"] if option not in alone]
    yield from (("train", (f"model={name}",)) for name in alone)  # experiments set the sizes of an Informer
    of_one_model = [option for option in groups["experiment"] if option.startswith("compare_attention")]
    groups["experiment"] = [option for option in groups["experiment"] if option not in of_one_model]
    yield from (("train", (f"experiment={option}",)) for option in of_one_model)
    for chosen in zip_longest(*groups.values()):
        named = {group: option for group, option in zip(groups, chosen, strict=True) if option is not None}
        yield "train", tuple(f"{g}={f'[{o}]' if g == 'logger' else o}" for g, o in named.items())


def options_of(group: str) -> list[str]:
    """The options of a group that can be chosen alone."""
    return [option for option in options(group) if (group, option) not in FRAGMENTS]


@cache
def composed_once(*overrides: str) -> DictConfig:
    """The training configuration with these overrides. Tests share it: copy it before you change it."""
    return compose_config(*overrides)


def with_values(config: DictConfig, *values: str) -> DictConfig:
    """A copy of a configuration with other values of some keys, each as `key=value`."""
    config = deepcopy(config)
    OmegaConf.set_struct(config, False)
    config.merge_with_dotlist(list(values))
    return config


@cache
def compose_choice(command: str, overrides: tuple[str, ...] = ()) -> DictConfig:
    """The configuration of a command, with the part of Hydra. Tests share it: copy it before you change it."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(command, overrides=list(overrides), return_hydra_config=True)
