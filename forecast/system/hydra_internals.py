"""Wrappers of Hydra's private functions: arguments, jobs and process-wide state.

No other module imports from `hydra._internal`. Other modules use `hydra.core` (overrides, `HydraConfig`), of which
Hydra documents only a part. The program composes a configuration itself and passes it to Hydra. Imports no torch.
"""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

from hydra import initialize_config_dir, version
from hydra._internal.callbacks import Callbacks
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import _run_hydra, get_args_parser
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.core.singleton import Singleton
from hydra.core.utils import JobStatus, configure_log, run_job, setup_globals
from hydra.types import HydraContext, RunMode, TaskFunction
from omegaconf import DictConfig

from forecast.system.errors import CONF

VERSION_BASE = "1.3"
INFO_FLAGS = ("help", "hydra_help", "cfg", "info", "shell_completion", "resolve")
"""Flags that print information instead of running."""


# ---- the command line


def parse_arguments(arguments: Sequence[str]) -> Namespace:
    """Parse the flags and the overrides of a command line; `unknown` are the flags that there are not."""
    # argparse takes -m only before the overrides.
    ordered = sorted(arguments, key=lambda a: a not in ("-m", "--multirun"))
    flags, flags.unknown = get_args_parser().parse_known_args(ordered)
    return flags


def asks_for_info(arguments: Namespace) -> bool:
    """Whether Hydra only prints: for a flag of `INFO_FLAGS`, or its error for --run together with --multirun."""
    return any(getattr(arguments, flag) for flag in INFO_FLAGS) or (arguments.run and arguments.multirun)


def print_info(config_name: str, arguments: Namespace) -> None:
    """Print what --help, --cfg, --info or another flag of `INFO_FLAGS` asks for."""
    version.setbase(VERSION_BASE)
    with _one_repository(hidden={"base", "benchmark"} - {config_name}):
        _run_hydra(
            args=arguments,
            args_parser=get_args_parser(),
            task_function=lambda config: None,  # never called
            config_path=str(CONF),
            config_name=config_name,
        )


@contextmanager
def _one_repository(hidden: set[str]) -> Iterator[None]:
    """Let Hydra list groups without the `hidden` ones, from one repository; it makes a deep copy for each group."""
    create, list_groups = (ConfigLoaderImpl._parse_overrides_and_create_caching_repo, ConfigLoaderImpl.list_groups)
    made: dict[Any, Any] = {}

    def reuse(loader: ConfigLoaderImpl, config_name: str | None, overrides: list[str]) -> Any:
        key = id(loader), config_name, *overrides
        if key not in made:
            made[key] = create(loader, config_name, overrides)
        return made[key]

    def list_shown(loader: ConfigLoaderImpl, parent_name: str) -> list[str]:
        return [name for name in list_groups(loader, parent_name) if name not in hidden]

    ConfigLoaderImpl._parse_overrides_and_create_caching_repo = reuse  # type: ignore[method-assign]
    ConfigLoaderImpl.list_groups = list_shown  # type: ignore[method-assign]
    try:
        yield
    finally:
        ConfigLoaderImpl._parse_overrides_and_create_caching_repo = create
        ConfigLoaderImpl.list_groups = list_groups


# ---- sweeps


def fixed_keys(arguments: Sequence[str]) -> set[str]:
    """The keys to which these overrides of a sweep give one value."""
    parsed = OverridesParser.create().parse_overrides(list(arguments))
    swept = {override.get_key_element() for override in parsed if override.is_sweep_override()}
    return {override.get_key_element() for override in parsed} - swept


# ---- jobs


def run_once(config: DictConfig, task: TaskFunction) -> None:
    """Run `task` as one job in the folder `hydra.run.dir` of a composed configuration."""
    config.hydra.mode = RunMode.RUN
    with initialize_config_dir(str(CONF), version_base=VERSION_BASE):
        callbacks = Callbacks(config)
        configure_log(config.hydra.hydra_logging, config.hydra.verbose)
        name = config.hydra.job.config_name
        callbacks.on_run_start(config=config, config_name=name)
        result = run_job(
            task_function=task,
            config=config,
            job_dir_key="hydra.run.dir",
            job_subdir_key=None,
            hydra_context=HydraContext(config_loader=GlobalHydra.instance().config_loader(), callbacks=callbacks),
        )
        callbacks.on_run_end(config=config, config_name=name, job_return=result)
        if result.status is JobStatus.FAILED:  # `return_value` would print more lines
            raise result._return_value  # type: ignore[misc]


def run_sweep(config_name: str, overrides: Sequence[str], task: TaskFunction) -> None:
    with initialize_config_dir(str(CONF), version_base=VERSION_BASE):
        hydra = GlobalHydra.instance().hydra
        assert hydra is not None
        hydra.multirun(config_name=config_name, task_function=task, overrides=[*overrides, "hydra.mode=MULTIRUN"])


# ---- process-wide state


def process_state() -> Any:
    """Hydra's state, for another process that runs a job of the same sweep."""
    return Singleton.get_state()


def restore_process_state(state: Any) -> None:
    setup_globals()
    Singleton.set_state(state)


def prefer_own_plugins() -> None:
    """Let the launchers and sweepers in conf/ replace those of Hydra and its plugins with the same name."""
    Plugins.instance()  # registers the schemas, which would check the files of conf/ too
    stored: dict[str, Any] = ConfigStore.instance().repo["hydra"]
    for path in (CONF / "hydra").rglob("*.yaml"):
        *groups, name = path.relative_to(CONF / "hydra").parts
        group: dict[str, Any] = reduce(lambda found, part: found.get(part, {}), groups, stored)
        group.pop(name, None)


def plugin_targets() -> frozenset[str]:
    """The targets in the configurations of Hydra and of its installed launchers and sweepers."""

    def targets(store: dict[str, Any]) -> Iterator[str]:
        for entry in store.values():
            if isinstance(entry, dict):
                yield from targets(entry)
            elif isinstance(entry.node, DictConfig) and isinstance(target := entry.node.get("_target_"), str):
                yield target

    return frozenset(targets(ConfigStore.instance().repo))
