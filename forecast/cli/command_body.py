"""Execution of a command's body in a run folder: lock, configuration files, and `error.txt` if it fails.

Imports no torch. The process of a launcher imports this module, and with it the resolvers of configurations.
"""

import importlib
import logging
import multiprocessing
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

import forecast.cli.compose  # noqa: F401 (registers the resolvers that interpolations call)
from forecast.cli import safety
from forecast.cli.errors import is_users_mistake, one_line, print_each_once
from forecast.runs.folder import InUse, check_folder, locked, score_if_finished, write_config, write_overrides
from forecast.system import distributed, progress, signals
from forecast.system.errors import ConfigError, TrainingError
from forecast.system.location import known_targets

log = logging.getLogger("forecast")

CommandBody = str | Callable[..., Any]
"""Function that a command runs, usually on its configuration, or its name as "package.module:function"."""

INVALID_RUN_FILES = {"config.yaml", "overrides.yaml", "error.txt"}
"""Files that a run with an invalid configuration writes, apart from the log."""


@contextmanager
def output_in_log(path: Path) -> Iterator[None]:
    """Append what the block prints to a log file. Bars stay on the terminal, if the block has it for itself."""
    # the processes of joblib, which share the terminal, have names of their own
    has_terminal = sys.stderr.isatty() and multiprocessing.current_process().name == "MainProcess"
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        path.open("a", encoding="utf-8", buffering=1) as log,
        redirect_stdout(log),
        progress.transient_bars() if has_terminal else redirect_stderr(log),
    ):
        yield


def import_body(body: CommandBody) -> Callable[..., Any]:
    """Return the body as a function. A name "package.module:function" is imported only now, so that --help is fast."""
    if callable(body):
        return body
    module, _, name = body.partition(":")
    return getattr(importlib.import_module(module), name)


def check_targets_and_secrets(config: DictConfig) -> None:
    """Check targets and secrets again, after every interpolation is resolved and before anything is instantiated."""
    safety.check_targets(config, known_targets())
    safety.check(config)


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
        warnings.showwarning = print_each_once()  # in a launcher's process too
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
            raise ConfigError(
                f"search={search} needs a multirun: python -m forecast.train -m search={search} ..."
            )
        with (
            output_in_log(folder / f"{hydra.job.name}.log")
            if hydra.mode == RunMode.MULTIRUN
            else nullcontext()
        ):
            return self.run_in(folder, config)

    def run_in(self, folder: Path, config: DictConfig) -> Any:
        """Lock the folder and run the body, unless resume=auto finds that it is finished; return the score."""
        OmegaConf.resolve(config)
        check_targets_and_secrets(config)
        with signals.listening(), locked(folder) if distributed.is_first() else nullcontext():
            if config.get("resume") == "auto":
                check_folder(folder, config)
                score = score_if_finished(folder, config)
                if score is not None:
                    print(f"finished before: {folder}", flush=True)
                    return score
            if distributed.is_first():
                (folder / "error.txt").unlink(missing_ok=True)
                write_config(folder, config, HydraConfig.get().overrides.task)
            return import_body(self.body)(config)

    def record(self, error: Exception, config: DictConfig, folder: Path) -> None:
        """Write an error to the folder and to `failures`; remove the folder of a run that did not begin."""
        hydra = HydraConfig.get()
        log.info("failed", exc_info=True)  # to the log file only
        overrides = folder / "overrides.yaml"
        if distributed.is_first() and folder.is_dir() and not overrides.exists():
            write_overrides(overrides, hydra.overrides.task)  # a sweep's summary finds its jobs by this file
        # If another run has locked the folder, this run's error does not belong there. Of the processes of one run,
        # only the first one that fails prints its error; the others fail because of it.
        must_print = isinstance(error, InUse) or distributed.write_first_error(
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
    """Whether a run has, or may start, several processes."""
    return distributed.n_processes() > 1 or config.get("trainer", {}).get("devices", 1) not in (
        1,
        "1",
        "auto",
    )


def check_one_device(config: DictConfig) -> None:
    """Raise ConfigError if a job of a sweep would start several processes."""
    if may_use_many_devices(config):
        raise ConfigError(
            f"trainer.devices={config.trainer.devices} cannot be used in a multirun (-m): each process would "
            "start the sweep again; start one command for each configuration instead, or sweep with one device per job"
        )
