"""Entry points of the commands: parse the arguments, compose and check the configuration, run the body.

Imports no torch, so that --help and --cfg are fast. A process of a launcher imports this module, and with it the
resolvers of configurations.
"""

import errno
import importlib
import logging
import multiprocessing
import os
import shutil
import sys
import threading
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, InstantiationException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from forecast.cli import safety
from forecast.cli.compose import compose_command, find_named_files, imply_data, inherit_settings
from forecast.cli.overrides import quote, quote_value, unknown_flag
from forecast.runs import folder as run_folder
from forecast.runs import sweep
from forecast.system import distributed, signals
from forecast.system.errors import ConfigError, TrainingError, printable
from forecast.system.formatting import write_value
from forecast.system.hydra_internals import asks_for_info, parse_arguments, print_info, run_once, run_sweep
from forecast.system.keys import key_of_override

log = logging.getLogger("forecast")

CommandBody = str | Callable[..., Any]
"""Function that a command runs, usually on its configuration, or its name as "package.module:function"."""

INVALID_RUN_FILES = {"config.yaml", "overrides.yaml", "error.txt"}
"""Files that a run with an invalid configuration writes, apart from the log."""


# ---- errors and warnings


USER_MISTAKES = (ValueError, OSError, HydraException, OmegaConfBaseException)


@contextmanager
def errors_in_one_line(on_interrupt: str = "") -> Iterator[None]:
    """Exit with status 2 and one line after a user's mistake, and with status 130 after Ctrl-C.

    Warnings are printed in one line each. Other errors, and all errors with HYDRA_FULL_ERROR=1, show a traceback.
    """
    show_traceback = os.environ.get("HYDRA_FULL_ERROR") == "1" and distributed.is_first()
    warnings.showwarning = print_warning
    logging.raiseExceptions = False  # a log on a full disk must not hide the error message about it
    threading.excepthook = warn_of_thread
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises exceptions and prints nothing
    try:
        yield
    except BrokenPipeError:  # the reader of stdout closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if show_traceback or (not is_users_mistake(error) and distributed.is_first()):
            raise
        write_line(f"error: {one_line(error)}")
        sys.exit(2)
    except KeyboardInterrupt:
        print(f"interrupted{on_interrupt}", file=sys.stderr)
        sys.exit(130)


def is_users_mistake(error: BaseException) -> bool:
    """Whether the user's input caused the error, for example an option that no constructor takes; else it is a bug."""
    if isinstance(error, TypeError):
        return "unexpected keyword argument" in str(error) or "required keyword-only argument" in str(error)
    return isinstance(error, USER_MISTAKES)


def one_line(error: BaseException) -> str:
    """The message in one line. For an error in a constructor, leave out the message of Hydra."""
    if isinstance(error, InstantiationException) and error.__cause__ is not None:
        return one_line(error.__cause__)
    if isinstance(error, OSError) and error.strerror:
        # of a copy, the disk of the second file is full
        file = error.filename2 if error.errno == errno.ENOSPC and error.filename2 else error.filename
        return printable(f"{file}: {error.strerror}" if file else error.strerror)
    return printable(str(error)) or type(error).__name__


def print_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning in one line, from the first process of a run only. Takes what `warnings.showwarning` takes."""
    if distributed.is_first():
        write_line(f"warning: {printable(str(message))}")


def write_line(text: str) -> None:
    """Write a line to stderr in one call, so that lines of several threads do not mix."""
    print(f"{text}\n", end="", file=sys.stderr, flush=True)


def warn_of_thread(failed: threading.ExceptHookArgs) -> None:
    """Warn that a thread failed, such as that of TensorBoard on a full disk; the run continues."""
    if failed.exc_value is not None:
        print_warning(f"a background thread stopped: {one_line(failed.exc_value)}")


# ---- runs


@contextmanager
def output_in_log(path: Path) -> Iterator[None]:
    """Append what the block prints to a log file. Bars stay on the terminal, if the block has it for itself."""
    # the processes of joblib, which share the terminal, have names of their own
    has_terminal = sys.stderr.isatty() and multiprocessing.current_process().name == "MainProcess"
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        path.open("a", encoding="utf-8", buffering=1) as log,
        redirect_stdout(log),
        nullcontext() if has_terminal else redirect_stderr(log),
    ):
        yield


def import_body(body: CommandBody) -> Callable[..., Any]:
    """Return the body as a function. A name "package.module:function" is imported only now, so that --help is fast."""
    if callable(body):
        return body
    module, _, name = body.partition(":")
    return getattr(importlib.import_module(module), name)


@dataclass
class BodyInRunFolder:
    """The body of a command in a run folder, called by Hydra.

    An exception is appended to `failures` instead of raised, because Hydra would print more lines and end a sweep. The
    call then returns None, which Optuna counts as a failed trial.
    """

    body: CommandBody
    failures: list[BaseException] = field(default_factory=list)
    new_folders: list[Path] = field(default_factory=list)  # which did not exist before the run

    def __call__(self, config: DictConfig) -> Any:
        print_once = cache(print_warning)  # Python forgets which warnings it has shown
        warnings.showwarning = lambda message, *_, **__: print_once(str(message))  # in a launcher's process too
        try:
            return self.run(config, Path(config.output_dir))
        except Exception as error:
            self.record(error, config, Path(config.output_dir))
        except SystemExit as error:
            if isinstance(error.__context__, KeyboardInterrupt):  # Lightning turns Ctrl-C into sys.exit(1)
                raise KeyboardInterrupt from None
            raise

    def run(self, config: DictConfig, folder: Path) -> Any:
        """Check what a sweep and a single run may not do, then run the body; a run of a sweep prints into its log."""
        hydra = HydraConfig.get()
        if hydra.mode == RunMode.MULTIRUN:
            config.run_group = config.run_group or Path(hydra.sweep.dir).name
            check_one_device(config)
        elif search := hydra.runtime.choices.get("search"):
            raise ConfigError(f"search={search} needs a multirun: forecast train -m search={search} ...")
        is_alone = hydra.mode == RunMode.RUN
        with nullcontext() if is_alone else output_in_log(folder / f"{hydra.job.name}.log"):
            return self.run_in(folder, config)

    def run_in(self, folder: Path, config: DictConfig) -> Any:
        """Lock the folder and run the body, unless resume=auto finds that it is finished; return the score."""
        OmegaConf.resolve(config)
        safety.check(config)  # again, with every interpolation resolved
        with signals.listening(), run_folder.locked(folder) if distributed.is_first() else nullcontext():
            if config.get("resume") == "auto":
                run_folder.check_folder(folder, config)
                score = run_folder.score_if_finished(folder, config)
                if score is not None:
                    print(f"finished before: {folder}", flush=True)
                    return score
            if distributed.is_first():
                (folder / "error.txt").unlink(missing_ok=True)
                run_folder.write_config(folder, config, HydraConfig.get().overrides.task)
            return import_body(self.body)(config)

    def record(self, error: Exception, config: DictConfig, folder: Path) -> None:
        """Write an error to the folder and to `failures`; remove the folder of a run that did not begin."""
        hydra = HydraConfig.get()
        log.info("failed", exc_info=True)  # to the log file only
        overrides = folder / "overrides.yaml"
        if distributed.is_first() and folder.is_dir() and not overrides.exists():
            run_folder.write_overrides(overrides, hydra.overrides.task)  # a sweep's summary finds its jobs by this file
        # If another run has locked the folder, this run's error does not belong there. Of the processes of one run,
        # only the first one that fails prints its error; the others fail because of it.
        must_print = isinstance(error, run_folder.InUse) or distributed.write_first_error(
            folder / "error.txt", one_line(error)
        )
        self.failures.append(error if must_print else SystemExit(2))
        # No sweep and no other process reads the folder.
        is_alone = hydra.mode == RunMode.RUN and not may_use_many_devices(config)
        if is_alone and is_users_mistake(error) and not isinstance(error, TrainingError):
            remove_if_nothing_began(folder, self.new_folders)


def remove_if_nothing_began(folder: Path, new_folders: Sequence[Path]) -> None:
    """Remove the new folder of a run that did not begin. A folder with any other file stays, with its log."""
    files = {path.name for path in folder.iterdir() if path.suffix != ".log"}
    if folder in new_folders and files <= INVALID_RUN_FILES:
        shutil.rmtree(folder)
        if folder.parent in new_folders and not any(folder.parent.iterdir()):
            folder.parent.rmdir()


def may_use_many_devices(config: DictConfig) -> bool:
    return distributed.n_processes() > 1 or config.get("trainer", {}).get("devices", 1) not in (1, "1", "auto")


def check_one_device(config: DictConfig) -> None:
    """Raise ConfigError if a job of a sweep would start several processes."""
    if may_use_many_devices(config):
        raise ConfigError(
            f"trainer.devices={config.trainer.devices} cannot be used in a multirun (-m): each process would "
            "start the sweep again; start one command for each configuration instead, or sweep with one device per job"
        )


def main_with_run_folder(
    config_name: str, body: CommandBody | None = None, *, show_sweep: str | None = None, can_resume: bool = True
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
                flags.overrides = [quote(text, sweep=flags.multirun) for text in flags.overrides]
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


def main_without_run_folder(config_name: str, *, positional: str | None = None) -> None:
    """Run the command once in the current folder, without a run folder and a log file.

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
        flags.overrides = [quote(text, sweep=False) for text in flags.overrides]
        config = compose_checked(config_name, flags)
        if asks_for_info(flags):
            print_info(config_name, flags)
            return

        def run(config: DictConfig) -> None:
            safety.check(config)
            find_named_files(config)
            import_body(name_body(config_name))(config)

        run_once(config, run)


def name_body(command: str, function: str | None = None) -> str:
    """The function that a command runs: that of its own name, or another, in its own module."""
    return f"forecast.{command}:{function or command}"


def compose_checked(config_name: str, flags: Namespace) -> DictConfig:
    """Compose the command's configuration, and check it before Hydra instantiates any of it.

    Raises ConfigError: a key or option is unknown, a value is invalid, a target is not allowed, or a value is a secret.
    """
    if flags.shell_completion:  # its arguments are no overrides
        return compose_command(config_name, [])
    safety.check_typed(sys.argv[1:])
    safety.check_flags(flags)
    if flags.unknown:
        raise ConfigError(unknown_flag(flags.unknown[0], compose_command(config_name, [])))
    inherited = inherit_settings(config_name, flags.overrides)
    flags.overrides = [*inherited, *flags.overrides]
    implied, taken = imply_data(config_name, flags.overrides)
    flags.overrides = [*implied, *flags.overrides]
    config = compose_command(config_name, flags.overrides, sweeps=flags.multirun)
    if inherited and distributed.is_first():
        print(f"taken:     {' '.join(inherited)}  (those of the run of checkpoint=)", file=sys.stderr)
    if taken and distributed.is_first():
        print(taken, file=sys.stderr)
    if flags.overrides:
        safety.check_composed(config)
    return config


def add_suggested_settings(config: DictConfig, flags: Namespace) -> None:
    """Replace `suggest=true` by the suggested settings, in the arguments of the processes that Lightning starts too."""
    suggest = import_body(name_body("check", "suggest_settings"))
    typed = [argument for argument in flags.overrides if key_of_override(argument) != "suggest"]
    suggested = distributed.choose_in_first("suggested settings", lambda: suggest(config, typed)) or []
    flags.overrides = [*suggested, *typed]
    sys.argv[1:] = [*suggested, *(argument for argument in sys.argv[1:] if key_of_override(argument) != "suggest")]


def start_run(config: DictConfig, body: BodyInRunFolder) -> None:
    """Run the body in a new run folder, or with resume=auto in the folder of the run to resume."""

    def choose_folder() -> str:
        folder: Path | None = run_folder.find_run_to_resume(config) if config.get("resume") == "auto" else None
        return str(folder or config.hydra.run.dir)

    folder = distributed.choose_in_first("run folder", choose_folder)
    if folder is not None:
        config.hydra.run.dir = folder
        path = Path(folder).absolute()
        body.new_folders = [new for new in (path, path.parent) if not new.exists()]
    run_once(config, body)
    if body.failures:
        raise body.failures[0]


def start_sweep(config_name: str, config: DictConfig, overrides: Sequence[str], body: BodyInRunFolder) -> None:
    """Run the body for each combination of values; with resume=auto, in the folder of the sweep to resume."""
    check_one_device(config)
    chosen = []
    if config.get("resume") == "auto":
        settings = sweep.find_sweep(config, overrides)
        chosen = [f"{key}={write_value(value)}" for key, value in settings.items()]
    run_sweep(config_name, [*overrides, *chosen], body)
