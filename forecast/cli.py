"""The one wrapper around `hydra.main`: a user's mistake ends in one line on stderr and exit status 2.

Imports no torch, so that --help and --cfg answer at once.
"""

import logging
import os
import secrets
import shutil
import sys
import threading
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, InstantiationException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from forecast import overrides, preemption, processes, resume, secret, sweep, sweep_resume, trust
from forecast.configuration import keep, keep_typed, run_folder
from forecast.errors import ConfigError, TrainingError, printable
from forecast.paths import CONF

log = logging.getLogger("forecast")

USER_MISTAKES = (ValueError, OSError, HydraException, OmegaConfBaseException)
LEFT_BY_REFUSAL = {"config.yaml", "overrides.yaml", "error.txt"}  # and the log

OmegaConf.register_new_resolver(
    "random_suffix", lambda *_: secrets.token_hex(3), use_cache=True, replace=True
)


def main(config_name: str, task: Callable[[DictConfig], Any]) -> None:
    """Run `task` on the configuration `config_name` and the command line's overrides, in a folder of its own.

    Exits with status 2 and one line on stderr where the user gave something that cannot work (the whole traceback
    with HYDRA_FULL_ERROR=1), 130 on Ctrl-C. In a multirun, one member's failure does not end the others.
    """
    if processes.count() > 1 or not processes.is_first():
        processes.follow_parent()
    sweep.prefer_own_launchers()
    # Hydra takes -m only before the overrides.
    sys.argv[1:] = sorted(sys.argv[1:], key=lambda argument: argument not in ("-m", "--multirun"))
    typed = get_args_parser().parse_args()
    sys.argv[1:] = [overrides.quote(argument, sweep=typed.multirun) for argument in sys.argv[1:]]
    given = [overrides.quote(argument, sweep=typed.multirun) for argument in typed.overrides]
    failures: list[BaseException] = []
    try:
        with mistakes_in_one_line("; repeat the command with resume=auto to go on"):
            with processes.first_speaks():
                check_typed(config_name, typed, given)
            if not (typed.multirun or asks_only(typed)):
                sys.argv += processes.from_first(lambda: chosen_folder(config_name, given))
            if typed.multirun:
                refuse_many_devices(
                    overrides.compose_first(config_name, given, groups=("trainer", "experiment"))
                )
                if "resume=auto" in given and not asks_only(typed):
                    sys.argv += sweep_resume.in_place(config_name, given)
            run_hydra(config_name, in_run_folder(task, failures))
            if failures and not typed.multirun:
                raise failures[0]
    finally:
        failed = sweep.print_summary(alone="resume=auto" in given)  # else others may share its folder
        if failures and not processes.is_first():
            processes.wait_for_first()
    if failed:
        print(f"error: {failed} of the runs failed, each for the reason above", file=sys.stderr)
        sys.exit(2)


def chosen_folder(config_name: str, given: list[str]) -> list[str]:
    """The override for the folder of the run to go on with, or for a new one; none where Hydra may name that itself."""
    chosen = resume.in_place(config_name, given) if "resume=auto" in given else []
    if processes.count() > 1 and not chosen:
        return [f"hydra.run.dir='{run_folder(config_name, given)}'"]
    return chosen


def command(config_name: str, task: Callable[[DictConfig], Any], *, positional: str | None = None) -> None:
    """Run `task` as `main` does, but where the user stands: no run folder, no log file, no sweeps.

    Arguments that are not `key=value` become the list `positional`, where the command has one.
    """
    with mistakes_in_one_line():
        plain = [argument for argument in get_args_parser().parse_args().overrides if "=" not in argument]
        if positional is not None and plain:
            sys.argv[1:] = [argument for argument in sys.argv[1:] if argument not in plain]
            sys.argv.append(f"{positional}=[{','.join(overrides.quote_value(text) for text in plain)}]")
        typed = get_args_parser().parse_args()
        if typed.multirun:
            raise ConfigError("-m sweeps over training runs; this command runs once: leave -m out")
        sys.argv[1:] = [overrides.quote(argument, sweep=False) for argument in sys.argv[1:]]
        check_typed(
            config_name, typed, [overrides.quote(argument, sweep=False) for argument in typed.overrides]
        )
        failures: list[BaseException] = []

        def job(config: DictConfig) -> None:
            try:
                check_made(config)
                task(config)
            except Exception as error:  # Hydra would print its own lines about it
                failures.append(error)

        run_hydra(config_name, job)
        if failures:
            raise failures[0]


def check_typed(config_name: str, typed: Namespace, given: list[str]) -> None:
    """Refuse what cannot be meant or may not be, before Hydra makes any of it; `given` are the quoted overrides."""
    secret.check_typed(sys.argv[1:])
    trust.check_flags(typed)
    overrides.check(config_name, given)
    if given:
        secret.check(trust.check_composed(config_name, overrides.first_of_sweeps(given)))


def check_made(config: DictConfig) -> None:
    """Look at a configuration once more where every interpolation can be resolved, before anything is made of it."""
    trust.check_targets(config, trust.named())
    secret.check(config)


def run_hydra(config_name: str, task: Callable[[DictConfig], Any]) -> None:
    hydra.main(version_base="1.3", config_path=str(CONF), config_name=config_name)(task)()


def warn_once(message: Warning | str, *_: Any) -> None:
    """One line, from one process of a run."""
    if processes.is_first():
        print(f"warning: {printable(str(message))}", file=sys.stderr, flush=True)


def warn_of_thread(failed: threading.ExceptHookArgs) -> None:
    """One line where a thread fails, such as TensorBoard's on a full disk: the run goes on."""
    if failed.exc_value is not None:
        warn_once(f"a background thread stopped: {one_line(failed.exc_value)}")


def asks_only(typed: Namespace) -> bool:
    return bool(typed.help or typed.hydra_help or typed.cfg or typed.info)


@contextmanager
def mistakes_in_one_line(on_interrupt: str = "") -> Iterator[None]:
    """A user's mistake ends in one line and exit status 2, Ctrl-C in 130; warnings are one line each."""
    show_traceback = os.environ.get("HYDRA_FULL_ERROR") == "1" and processes.is_first()
    warnings.showwarning = warn_once
    logging.raiseExceptions = False  # a log on a full disk must not hide what is said about that
    threading.excepthook = warn_of_thread
    os.environ["HYDRA_FULL_ERROR"] = "1"  # makes Hydra hand exceptions on instead of printing them itself
    try:
        yield
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if show_traceback or (not is_users_mistake(error) and processes.is_first()):
            raise
        print(f"error: {one_line(error)}", file=sys.stderr, flush=True)
        sys.exit(2)
    except KeyboardInterrupt:
        print(f"interrupted{on_interrupt}", file=sys.stderr)
        sys.exit(130)


def in_run_folder(
    task: Callable[[DictConfig], Any], failures: list[BaseException]
) -> Callable[[DictConfig], Any]:
    """Write the resolved configuration into the run folder, run the task, and leave `error.txt` where it failed.

    A failure is put into `failures` and not raised, for Hydra would print its own lines about it and end a sweep;
    the result None is a failed trial to Optuna.
    """

    def run(config: DictConfig) -> Any:
        warnings.showwarning = warn_once  # in a launcher's process too
        folder = Path(config.output_dir)
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
            check_made(config)
            with preemption.listening(), resume.held(folder) if processes.is_first() else nullcontext():
                if config.get("resume") == "auto":
                    resume.check_folder(folder, config)
                    score = sweep_resume.score_if_finished(folder, config)
                    if score is not None:
                        print(f"finished before: {folder}", flush=True)
                        return score
                if processes.is_first():
                    (folder / "error.txt").unlink(missing_ok=True)
                    keep(folder, config, job.overrides.task)
                return task(config)
        except Exception as error:
            log.info("failed", exc_info=True)  # to the log file alone
            if processes.is_first() and folder.is_dir() and not (folder / "overrides.yaml").exists():
                keep_typed(folder, job.overrides.task)  # a sweep's summary knows its members by it
            # another run's folder is not for this one's errors
            news = isinstance(error, resume.InUse) or processes.is_news(folder / "error.txt", one_line(error))
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
    return processes.count() > 1 or config.get("trainer", {}).get("devices", 1) not in (1, "1", "auto")


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
        return printable(f"{error.filename}: {error.strerror}" if error.filename else error.strerror)
    return printable(str(error)) or type(error).__name__
