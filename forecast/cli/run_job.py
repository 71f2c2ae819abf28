"""One run of a task in its folder: its lock, its configuration files, and `error.txt` if it fails.

Imports no torch. A launcher's process imports this module, and with it what a configuration needs to be resolved.
"""

import importlib
import logging
import shutil
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from forecast.cli import allowed_targets, compose, secrets_check
from forecast.cli.errors import is_users_mistake, one_line, print_warning
from forecast.runs import resume
from forecast.runs.folder import InUse, locked, write_config, write_overrides
from forecast.system import distributed, signals
from forecast.system.errors import ConfigError, TrainingError
from forecast.system.targets import known_targets

log = logging.getLogger("forecast")

Task = str | Callable[[DictConfig], Any]
"""What a command runs: a function of the configuration, or its place as "package.module:function"."""

LEFT_BY_REFUSAL = {"config.yaml", "overrides.yaml", "error.txt"}
"""Files, beside the log, that a refused run writes."""

assert compose  # registers the resolvers that a configuration's interpolations call


def imported(task: Task) -> Callable[[DictConfig], Any]:
    """The task itself. One given as "package.module:function" is imported only now, so that --help is fast."""
    if callable(task):
        return task
    module, _, name = task.partition(":")
    return getattr(importlib.import_module(module), name)


def check_resolved(config: DictConfig) -> None:
    """Check targets and secrets again, with every interpolation resolved and nothing instantiated yet."""
    allowed_targets.check_targets(config, known_targets())
    secrets_check.check(config)


@dataclass
class RunInFolder:
    """A task in a run folder, for Hydra to call.

    A failure goes into `failures` and is not raised, because Hydra would print lines of its own and end a sweep. The
    result None is a failed trial to Optuna.
    """

    task: Task
    failures: list[BaseException] = field(default_factory=list)

    def __call__(self, config: DictConfig) -> Any:
        warnings.showwarning = print_warning  # in a launcher's process too
        try:
            return self.run(config, Path(config.output_dir))
        except Exception as error:
            self.record(error, config, Path(config.output_dir))
        except SystemExit as error:
            if isinstance(error.__context__, KeyboardInterrupt):  # Lightning turns Ctrl-C into sys.exit(1)
                raise KeyboardInterrupt from None
            raise

    def run(self, config: DictConfig, folder: Path) -> Any:
        """Resolve and check the configuration, lock the folder and run the task; return a finished run's score."""
        job = HydraConfig.get()
        if job.mode == RunMode.MULTIRUN:
            config.run_group = config.run_group or Path(job.sweep.dir).name
            refuse_many_devices(config)
        elif search := job.runtime.choices.get("search"):
            raise ConfigError(
                f"search={search} needs a multirun: python -m forecast.train -m search={search} ..."
            )
        OmegaConf.resolve(config)
        check_resolved(config)
        with signals.listening(), locked(folder) if distributed.is_first() else nullcontext():
            if config.get("resume") == "auto":
                resume.check_folder(folder, config)
                score = resume.score_if_finished(folder, config)
                if score is not None:
                    print(f"finished before: {folder}", flush=True)
                    return score
            if distributed.is_first():
                (folder / "error.txt").unlink(missing_ok=True)
                write_config(folder, config, job.overrides.task)
            return imported(self.task)(config)

    def record(self, error: Exception, config: DictConfig, folder: Path) -> None:
        """Write a failure into the folder and into `failures`; remove the folder of a run that did not begin."""
        job = HydraConfig.get()
        log.info("failed", exc_info=True)  # to the log file only
        overrides = folder / "overrides.yaml"
        if distributed.is_first() and folder.is_dir() and not overrides.exists():
            write_overrides(overrides, job.overrides.task)  # a sweep's summary finds its jobs by this file
        # A folder that another run has locked is not for this run's errors.
        is_new = isinstance(error, InUse) or distributed.write_first_error(
            folder / "error.txt", one_line(error)
        )
        self.failures.append(error if is_new else SystemExit(2))
        # No sweep and no other process reads the folder.
        is_alone = job.mode == RunMode.RUN and not has_many_devices(config)
        if is_alone and is_users_mistake(error) and not isinstance(error, TrainingError):
            remove_if_nothing_began(folder)


def remove_if_nothing_began(folder: Path) -> None:
    """Remove the folder of a refused run; a folder in which something else was written stays, with its log."""
    if {path.name for path in folder.iterdir() if path.suffix != ".log"} <= LEFT_BY_REFUSAL:
        shutil.rmtree(folder)
        if not any(folder.parent.iterdir()):
            folder.parent.rmdir()


def has_many_devices(config: DictConfig) -> bool:
    return distributed.count() > 1 or config.get("trainer", {}).get("devices", 1) not in (1, "1", "auto")


def refuse_many_devices(config: DictConfig) -> None:
    """Raises ConfigError where a job of a sweep would start several processes."""
    if has_many_devices(config):
        raise ConfigError(
            f"trainer.devices={config.trainer.devices} cannot be used in a multirun (-m): each process would "
            "start the sweep again; start one command a configuration instead, or sweep with one device each"
        )
