"""Entry points of the commands: parse the arguments, compose and check the configuration, run the body.

Imports no torch, so that --help and --cfg are fast.
"""

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from hydra.types import RunMode
from omegaconf import DictConfig

from forecast.cli import safety
from forecast.cli.command_body import (
    BodyInRunFolder,
    CommandBody,
    check_one_device,
    check_targets_and_secrets,
    import_body,
)
from forecast.cli.compose import compose_command, find_named_files
from forecast.cli.errors import errors_in_one_line
from forecast.cli.overrides import quote_all, quote_value, write_override
from forecast.runs import sweep
from forecast.runs.folder import find_run_to_resume
from forecast.system import distributed
from forecast.system.errors import ConfigError
from forecast.system.hydra_internals import asks_for_info, parse_arguments, print_info, run_once, run_sweep
from forecast.system.keys import key_of_override


def main_with_run_folder(
    config_name: str,
    body: CommandBody | None = None,
    *,
    show_sweep: str | None = None,
    can_resume: bool = True,
) -> None:
    """Run `body` in a run folder, or with -m in one run folder for each combination of values.

    After a sweep, `show_sweep` prints the scores of the runs in the sweep's folder. `can_resume` says whether
    resume=auto resumes an interrupted run or sweep of the command.

    After a user's mistake the process prints one line on stderr (a traceback with HYDRA_FULL_ERROR=1) and exits with
    status 2, after Ctrl-C with 130. A job of a multirun that fails does not end the others.
    """
    if distributed.n_processes() > 1 or not distributed.is_first():
        distributed.follow_parent()
    flags = parse_arguments(sys.argv[1:])
    in_folder = BodyInRunFolder(body or name_body(config_name))
    try:
        with errors_in_one_line("; repeat the command with resume=auto to continue" if can_resume else ""):
            with distributed.delay_errors_of_others():
                flags.overrides = quote_all(flags.overrides, sweep=flags.multirun)
                config = compose_checked(config_name, flags)
                if config.get("suggest") and (flags.cfg or not asks_for_info(flags)):
                    add_suggested_settings(config, flags)
                    config = compose_checked(config_name, flags)
            if asks_for_info(flags):
                print_info(config_name, flags)
            elif flags.multirun or config.hydra.mode == RunMode.MULTIRUN:
                start_sweep(config_name, config, flags.overrides, in_folder)
            else:
                start_run(config, in_folder)
    finally:
        # imported only if a sweep has run: the comparison takes a second to import
        show = None if show_sweep is None else lambda folder: import_body(show_sweep)(folder)
        with errors_in_one_line():
            failed = sweep.finish(show, can_resume=can_resume)
        if in_folder.failures and not distributed.is_first():
            distributed.wait_for_first()
    if failed:
        print(f"error: {failed} of the runs failed, each for the reason above", file=sys.stderr)
        sys.exit(2)


def main_without_run_folder(
    config_name: str, body: CommandBody | None = None, *, positional: str | None = None
) -> None:
    """Run `body` once in the current folder, without a run folder and a log file.

    If `positional` is given, arguments without `=` become the list of that name.
    """
    with errors_in_one_line():
        flags = parse_arguments(sys.argv[1:])
        if flags.multirun:
            raise ConfigError("-m sweeps over training runs; this command runs once: leave -m out")
        plain = [argument for argument in flags.overrides if "=" not in argument]
        if positional is not None and plain:
            flags.overrides = [argument for argument in flags.overrides if argument not in plain]
            flags.overrides.append(f"{positional}=[{','.join(quote_value(text) for text in plain)}]")
        flags.overrides = quote_all(flags.overrides, sweep=False)
        config = compose_checked(config_name, flags)
        if asks_for_info(flags):
            print_info(config_name, flags)
            return
        failures: list[BaseException] = []

        def run(config: DictConfig) -> None:
            try:
                check_targets_and_secrets(config)
                find_named_files(config)
                import_body(body or name_body(config_name))(config)
            except Exception as error:  # Hydra would print more lines
                failures.append(error)

        run_once(config, run)
        if failures:
            raise failures[0]


def name_body(command: str) -> str:
    """The function that a command runs: that of its own name, in its own module."""
    return f"forecast.{command}:{command}"


def compose_checked(config_name: str, flags: Namespace) -> DictConfig:
    """Compose the command's configuration, and check it before Hydra instantiates any of it.

    Raises:
        ConfigError: a key or option is unknown, a value is invalid, a target is not allowed, or a value is a secret.
    """
    if flags.shell_completion:  # its arguments are no overrides
        return compose_command(config_name, [])
    safety.check_typed(sys.argv[1:])
    safety.check_flags(flags)
    config = compose_command(config_name, flags.overrides, sweeps=flags.multirun)
    if flags.overrides:
        safety.check_composed(config)
        safety.check(config)
    return config


def add_suggested_settings(config: DictConfig, flags: Namespace) -> None:
    """Replace `suggest=true` by the suggested settings, in the arguments of the processes that Lightning starts too."""
    suggest = import_body("forecast.check:suggest_settings")
    typed = [argument for argument in flags.overrides if key_of_override(argument) != "suggest"]
    suggested = distributed.choose_in_first("suggested settings", lambda: suggest(config, typed)) or []
    flags.overrides = [*suggested, *typed]
    sys.argv[1:] = [
        *suggested,
        *(argument for argument in sys.argv[1:] if key_of_override(argument) != "suggest"),
    ]


def start_run(config: DictConfig, body: BodyInRunFolder) -> None:
    """Run the body in a new run folder, or with resume=auto in the folder of the run to resume."""

    def choose_folder() -> str:
        folder: Path | None = find_run_to_resume(config) if config.get("resume") == "auto" else None
        return str(folder or config.hydra.run.dir)

    folder = distributed.choose_in_first("run folder", choose_folder)
    if folder is not None:
        config.hydra.run.dir = folder
        path = Path(folder).absolute()
        body.new_folders = [new for new in (path, path.parent) if not new.exists()]
    run_once(config, body)
    if body.failures:
        raise body.failures[0]


def start_sweep(
    config_name: str, config: DictConfig, overrides: Sequence[str], body: BodyInRunFolder
) -> None:
    """Run the body for each combination of values; with resume=auto, in the folder of the sweep to resume."""
    check_one_device(config)
    chosen = []
    if config.get("resume") == "auto":
        settings = sweep.find_sweep(config, overrides)
        chosen = [write_override(key, value) for key, value in settings.items()]
    run_sweep(config_name, [*overrides, *chosen], body)
