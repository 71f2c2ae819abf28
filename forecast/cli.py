"""The one wrapper around `hydra.main`: a user's mistake ends in one line on stderr and exit status 2.

Imports no torch, so that --help and --cfg answer at once.
"""

import logging
import os
import secrets
import shutil
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, InstantiationException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from forecast import overrides, processes, resume, sweep
from forecast.errors import ConfigError, TrainingError
from forecast.files import whole_file
from forecast.paths import CONF

log = logging.getLogger("forecast")

USER_MISTAKES = (ValueError, OSError, HydraException, OmegaConfBaseException)
LEFT_BY_REFUSAL = {"config.yaml", "overrides.yaml", "error.txt"}  # and the log

OmegaConf.register_new_resolver(
    "random_suffix", lambda *_: secrets.token_hex(3), use_cache=True, replace=True
)


def main(config_name: str, task: Callable[[DictConfig], Any]) -> None:
    """Run `task` on the configuration `config_name` and the command line's overrides.

    Exits with status 2 and one line on stderr where the user gave something that cannot work (the whole traceback
    with HYDRA_FULL_ERROR=1), 130 on Ctrl-C. In a multirun, one member's failure does not end the others.
    """
    show_traceback = os.environ.get("HYDRA_FULL_ERROR") == "1" and processes.is_first()
    warnings.showwarning = lambda message, *_: print(f"warning: {message}", file=sys.stderr, flush=True)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # makes Hydra hand exceptions on instead of printing them itself
    if not processes.is_first():
        processes.follow_parent()
    # Hydra takes -m only before the overrides.
    sys.argv[1:] = sorted(sys.argv[1:], key=lambda argument: argument not in ("-m", "--multirun"))
    typed = get_args_parser().parse_args()
    sys.argv[1:] = [overrides.quote(argument, sweep=typed.multirun) for argument in sys.argv[1:]]
    given = [overrides.quote(argument, sweep=typed.multirun) for argument in typed.overrides]
    asks_only = typed.help or typed.hydra_help or typed.cfg or typed.info
    failures: list[BaseException] = []
    try:
        overrides.check(config_name, given)
        if "resume=auto" in given and typed.multirun:
            raise ConfigError(
                "resume=auto goes on with one run: give it without -m, with that member's settings"
            )
        if "resume=auto" in given and not asks_only:
            sys.argv += resume.in_place(config_name, given)
        if typed.multirun:
            refuse_many_devices(overrides.compose_first(config_name, given, groups=("trainer", "experiment")))
        job = in_run_folder(task, failures)
        hydra.main(version_base="1.3", config_path=str(CONF), config_name=config_name)(job)()
        if failures and not typed.multirun:
            raise failures[0]
    except Exception as error:
        if show_traceback or (not is_users_mistake(error) and processes.is_first()):
            raise
        print(f"error: {one_line(error)}", file=sys.stderr, flush=True)
        sys.exit(2)
    except KeyboardInterrupt:
        hint = (
            ""
            if typed.multirun
            else "; repeat the command with resume=auto to go on after its last whole epoch"
        )
        print(f"interrupted{hint}", file=sys.stderr)
        sys.exit(130)
    finally:
        failed = sweep.print_summary()
        if failures and not processes.is_first():
            processes.wait_for_first()
    if failed:
        print(f"error: {failed} of the runs failed, each for the reason above", file=sys.stderr)
        sys.exit(2)


def in_run_folder(
    task: Callable[[DictConfig], Any], failures: list[BaseException]
) -> Callable[[DictConfig], Any]:
    """Write the resolved configuration into the run folder, run the task, and leave `error.txt` where it failed.

    A failure is put into `failures` and not raised, for Hydra would print its own lines about it and end a sweep;
    the result None is a failed trial to Optuna.
    """

    def run(config: DictConfig) -> Any:
        folder = Path(config.output_dir)
        if processes.is_first():
            (folder / "error.txt").unlink(missing_ok=True)
        job = HydraConfig.get()
        try:
            if job.mode == RunMode.MULTIRUN:
                config.run_group = config.run_group or Path(job.sweep.dir).name
                refuse_many_devices(config)
            elif search := job.runtime.choices.get("search"):
                raise ConfigError(
                    f"search={search} needs a multirun: python -m forecast.train -m search={search} ..."
                )
            OmegaConf.resolve(config)
            if processes.is_first():
                with whole_file(folder / "config.yaml") as temporary:
                    OmegaConf.save(config, temporary)
                with whole_file(folder / "overrides.yaml") as temporary:
                    OmegaConf.save(job.overrides.task, temporary)
            with resume.held(folder) if processes.is_first() else nullcontext():
                return task(config)
        except Exception as error:
            log.info("failed", exc_info=True)  # to the log file alone
            news = processes.is_news(folder / "error.txt", one_line(error))
            failures.append(error if news else SystemExit(2))
            # alone: no sweep and no other process looks at the folder
            alone = job.mode == RunMode.RUN and not has_many_devices(config)
            if alone and is_users_mistake(error) and not isinstance(error, TrainingError):
                remove_if_nothing_began(folder)
        except SystemExit as error:
            if isinstance(error.__context__, KeyboardInterrupt):  # Lightning turns Ctrl-C into sys.exit(1)
                raise KeyboardInterrupt from None
            raise

    return run


def is_users_mistake(error: BaseException) -> bool:
    """A mistake in what was given, an option that no constructor takes among them; anything else is ours."""
    if isinstance(error, TypeError):
        return "unexpected keyword argument" in str(error) or "required keyword-only argument" in str(error)
    return isinstance(error, USER_MISTAKES)


def remove_if_nothing_began(folder: Path) -> None:
    """A run that was refused leaves no folder; one in which something was made keeps it, and its log."""
    if {path.name for path in folder.iterdir() if path.suffix != ".log"} <= LEFT_BY_REFUSAL:
        shutil.rmtree(folder)
        if not any(folder.parent.iterdir()):
            folder.parent.rmdir()


def has_many_devices(config: DictConfig) -> bool:
    return config.get("trainer", {}).get("devices", 1) not in (1, "1", "auto")


def refuse_many_devices(config: DictConfig) -> None:
    if has_many_devices(config):
        raise ConfigError(
            f"trainer.devices={config.trainer.devices} cannot be used in a multirun (-m): each process would "
            "start the sweep again; start one command a configuration instead, or sweep with one device each"
        )


def one_line(error: BaseException) -> str:
    """What went wrong in one line: Hydra's wrapping of a constructor's error taken off."""
    if isinstance(error, InstantiationException) and error.__cause__ is not None:
        return one_line(error.__cause__)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split()) or type(error).__name__
