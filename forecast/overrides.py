"""Command-line overrides as people type them: quoted for Hydra's grammar, unknown keys and wrong types refused.

Imports no torch: it runs before every command.
"""

import difflib
import os
import re
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from forecast.errors import ConfigError, NotInstalled
from forecast.paths import CONF
from forecast.values import check_value

FREE_TEXT = re.compile(
    r"^(\+{0,2}(?:checkpoint|output|output_root|title|project|entity|hydra\.(?:run|sweep)\.dir"
    r"|start|window|future|runs\.(?:group|data)"
    r"|data\.(?:path|static_path|future_path|id_column|root|target|separator|decimal|thousands|date_column|date_format|timezone|freq)))=(.*)$",
    re.DOTALL,
)

TAKE_SEVERAL = ("logger",)
"""Groups of which several files can be chosen together."""

RUN_NAME = re.compile(r"[^./\\][^/\\]{0,150}")

EXTRAS = {
    "hydra/sweeper/optuna": "optuna",
    "hydra/launcher/ray": "ray",
    "hydra/launcher/submitit_local": "submitit",
    "hydra/launcher/submitit_slurm": "submitit",
}
"""What only works once an extra is installed, whose name is that of its package too."""


def quote(argument: str, *, sweep: bool) -> str:
    """Quote a free-text value (a path, a column, a separator), which Hydra's grammar might refuse.

    In a multirun, commas part the values of a sweep, so each is quoted alone. Values that the user already quoted,
    `null`, `???` and interpolations stay as they are.
    """
    match = FREE_TEXT.match(argument)
    if match is None:
        return argument
    key, text = match.groups()
    if key.endswith(("output", "output_root")) and text.startswith("~"):
        text = os.path.expanduser(text)
    if key.endswith("date_column") and text.startswith("[") and text.endswith("]"):  # a date and a time
        return argument
    values = text.split(",") if sweep and text != "," else [text]
    return f"{key}=" + ",".join(quote_value(value) for value in values)


def quote_value(value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    if quoted or value in ("null", "???", "") or value.startswith("${"):
        return value
    # Hydra reads \' as ' and, right before a quote, \\ as \.
    escaped = re.sub(r"(\\*)('|$)", lambda m: m[1] * 2 + ("\\'" if m[2] else ""), value)
    return f"'{escaped}'"


def check(config_name: str, arguments: list[str]) -> None:
    """Refuse overrides that name no key or option, or give text where a number stands.

    Raises:
        ConfigError: naming the nearest known names.
    """
    overrides = parse(arguments)
    with initialize_config_dir(str(CONF), version_base="1.3"):
        groups = [o for o in overrides if is_group(o)]
        for group in groups:
            if not group.key_or_group.startswith("hydra/"):
                check_options(group)
        texts = [first_of_sweep(group) for group in groups]
        try:
            base = compose(config_name, overrides=texts, return_hydra_config=True)
        except MissingConfigException as error:  # one of Hydra's own groups: ours were looked up
            raise ConfigError(missing(error)) from None
    known = dict(flatten(base))
    branches = {key.rsplit(".", n)[0] for key in known for n in range(1, key.count(".") + 1)}
    check_installed(texts)
    for override in overrides:
        key = override.key_or_group
        if is_group(override) or override.is_add() or (override.is_force_add() and key not in known):
            continue
        if key not in known and key not in branches:
            raise ConfigError(unknown_key(key, known))
        for value in values_of(override):
            if key not in known and not isinstance(value, dict | None):
                raise ConfigError(f"{key}={value}: it has settings of its own: {below(key, known)}")
            check_value(key, value, known.get(key))
    check_resolves(config_name, first_of_sweeps(arguments))


def parse(arguments: list[str]) -> list[Override]:
    parser = OverridesParser.create()
    parsed = []
    for argument in arguments:
        try:
            parsed += parser.parse_overrides([argument])
        except (HydraException, RecursionError):
            hint = "write key=value; text that holds commas, brackets or spaces as \"key='the text'\""
            raise ConfigError(f"{argument}: cannot be read; {hint}") from None
    return parsed


def is_group(override: Override) -> bool:
    key = override.key_or_group.split("@")[0]
    return "." not in key and (key.startswith("hydra/") or (CONF / key).is_dir())


def check_installed(choices: list[str]) -> None:
    """Raises NotInstalled where a choice needs an extra that is not installed."""
    for choice in choices:
        extra = EXTRAS.get(choice.replace("=", "/"))
        if extra is not None and find_spec(extra) is None:
            raise NotInstalled(choice, extra)


def missing(error: MissingConfigException) -> str:
    group, _, name = (error.missing_cfg_file or "").rpartition("/")
    if extra := EXTRAS.get(f"{group}/{name}"):
        return str(NotInstalled(f"{group}={name}", extra))
    return f"{group}={name}: there is no such {group}. There are {', '.join(error.options or [])}."


def options(group: str) -> list[str]:
    folder = CONF / group
    return sorted(str(p.relative_to(folder).with_suffix("")) for p in folder.rglob("*.yaml"))


def check_options(override: Override) -> None:
    group = override.key_or_group.split("@")[0]
    known = options(group)
    for value in values_of(override):
        if isinstance(value, list) and group not in TAKE_SEVERAL:
            raise ConfigError(
                f"{group}={value}: one is needed; to try several, -m {group}={','.join(map(str, value))}"
            )
        for name in value if isinstance(value, list) else [value]:
            if name is not None and name not in known:
                matches = difflib.get_close_matches(str(name), known, n=3 if len(known) > 10 else 1)
                hint = f"; did you mean {' or '.join(matches)}?" if matches else "."
                every = f" There are {', '.join(known)}." if len(known) <= 10 else ""
                raise ConfigError(f"{group}={name}: there is no such {group}{hint}{every}")


def compose_first(config_name: str, arguments: list[str], groups: tuple[str, ...]) -> DictConfig:
    """The configuration with what is given for these groups and the keys below them, of each sweep the first value."""
    chosen = [first_of_sweep(o) for o in parse(arguments) if o.key_or_group.split(".")[0] in groups]
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(config_name, overrides=chosen)


def values_of(override: Override) -> list[Any]:
    """The values that an override gives: one, or each of a sweep over choices (other sweeps are Hydra's to check)."""
    if override.is_choice_sweep():
        return list(override.sweep_iterator(transformer=lambda x: x))
    return [] if override.is_sweep_override() or override.is_delete() else [override.value()]


def first_of_sweep(override: Override) -> str:
    if not override.is_choice_sweep():
        return override.input_line or ""
    return f"{override.get_key_element()}={next(iter(override.sweep_string_iterator()))}"


def first_of_sweeps(arguments: list[str]) -> list[str]:
    """The overrides with the first choice of each sweep over choices; those of sweeps over drawn numbers left out."""
    parsed = parse(arguments)
    return [first_of_sweep(o) for o in parsed if o.is_choice_sweep() or not o.is_sweep_override()]


def flatten(config: DictConfig, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf's dotted key and value; an interpolation's value is what it points to, where that is known."""
    for key in map(str, config):
        name = f"{prefix}{key}"
        if OmegaConf.is_missing(config, key):
            yield name, None
            continue
        node = config._get_node(key)
        if isinstance(node, DictConfig) and not node._is_none() and not node._is_interpolation():
            yield from flatten(node, f"{name}.")
        else:
            yield name, value_at(config, key)


def value_at(config: DictConfig, key: str) -> Any:
    try:
        return config[key]
    except OmegaConfBaseException:
        return None


OF_THE_CHECKPOINT = ("seq_len", "pred_len", "features", "seed")


def check_resolves(config_name: str, arguments: list[str]) -> None:
    """Refuse interpolations that lead nowhere or back to themselves, and a name that no folder may have.

    Raises:
        ConfigError: naming the key.
    """
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose(config_name, overrides=arguments)
    if "output_dir" in config and "output_dir" not in {o.key_or_group for o in parse(arguments)}:
        config.output_dir = ""  # known within a run alone
    OmegaConf.set_struct(config, False)
    for key in OF_THE_CHECKPOINT:  # which a command on a trained model takes from there
        config.setdefault(key, 0)
    try:
        OmegaConf.resolve(config)
    except (OmegaConfBaseException, RecursionError) as error:
        given = {o.key_or_group for o in parse(arguments)} & set(dict(flatten(config)))
        key = next((key for key in sorted(given) if not is_resolvable(config, key)), "a setting")
        raise ConfigError(f"{key}: {str(error).splitlines()[0]}") from None
    name = config.get("run_name")
    if name is not None and not (RUN_NAME.fullmatch(str(name)) and str(name).isprintable()):
        raise ConfigError(f"run_name={name}: give a name that a folder may have")


def is_resolvable(config: DictConfig, key: str) -> bool:
    try:
        OmegaConf.select(config, key)
    except OmegaConfBaseException:
        return False
    return True


def below(key: str, known: dict[str, Any]) -> str:
    """Some of the settings that a key holds."""
    return ", ".join([name for name in known if name.startswith(f"{key}.")][:3])


def unknown_key(key: str, known: dict[str, Any]) -> str:
    by_last = {name.rsplit(".", 1)[-1]: name for name in known if not name.startswith("hydra.")}
    last = key.rsplit(".", 1)[-1]
    matches = [by_last[last]] if last in by_last else []
    matches += [m for m in difflib.get_close_matches(key, known, n=2, cutoff=0.75) if m not in matches]
    matches += [
        by_last[m] for m in difflib.get_close_matches(last, by_last, n=2) if by_last[m] not in matches
    ]
    hint = f"; did you mean {' or '.join(matches[:3])}?" if matches else ""
    return f"{key}: there is no such key{hint} (--cfg job lists them all)"
