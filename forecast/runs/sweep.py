"""A sweep: its folder and command, the jobs that run in it, and its lines on the terminal.

Imports no torch: `forecast.cli.main` imports this module before every command.

The name of a job's folder contains a short digest of the job's configuration. A resumed sweep finds the folder by this
digest, whatever the job's number. The job is then skipped (finished), resumed (interrupted) or started again (failed,
or killed before its first checkpoint).
"""

import json
import os
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobStatus, run_job
from hydra.experimental.callback import Callback
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from forecast.runs import folder as run_folder
from forecast.system.errors import ConfigError
from forecast.system.files import atomic_file
from forecast.system.formatting import format_duration, plural
from forecast.system.hydra_internals import process_state, restore_process_state
from forecast.system.keys import identifying_overrides

COMMAND = "command.yaml"  # the file in a sweep's folder that holds the command's overrides


@dataclass
class Sweep:
    """The sweep of this process: its folder, the number of jobs that it is to have, and of those that failed."""

    folder: Path
    lock: ExitStack = field(default_factory=ExitStack)
    n_jobs: int = 0
    n_failed: int = 0


_current: Sweep | None = None


class SweepCallback(Callback):
    """Record the sweep's folder when the sweep starts: Hydra names it only then, and not at all after a failure.

    The folder is locked while the sweep runs, unless another command's sweep has locked the same folder.
    """

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        global _current
        _current = Sweep(Path(config.hydra.sweep.dir))
        folder = _current.folder
        folder.mkdir(parents=True, exist_ok=True)  # Optuna writes its study there before the first job
        with suppress(run_folder.InUse):
            _current.lock.enter_context(run_folder.locked(folder))
        if not (folder / COMMAND).exists():  # several commands may share a folder; the first one stays
            typed = [*config.hydra.overrides.task, *config.hydra.overrides.hydra]
            run_folder.write_overrides(folder / COMMAND, typed)


def finish(show: Callable[[Path], None] | None, *, can_resume: bool) -> int:
    """Print the end of the sweep that this process ran, if it ran one.

    Returns the number of jobs of this command that failed.
    """
    global _current
    sweep, _current = _current, None
    if sweep is None:
        return 0
    with sweep.lock:
        jobs = read_jobs(sweep.folder)
        print_unfinished(sweep.folder, jobs, sweep.n_jobs, can_resume=can_resume)
        if show is not None and any(job.is_done for job in jobs):
            show(sweep.folder)
    return sweep.n_failed


# ---- what the jobs did


class Run(NamedTuple):
    """A job of a sweep: its folder, and its final metrics or its error."""

    folder: Path
    metrics: dict[str, Any] | None
    error: str | None
    is_running: bool = False  # by another process

    @property
    def is_done(self) -> bool:
        """Whether the run was tested and had no error afterwards, for example in a refit."""
        return self.metrics is not None and self.error is None

    @property
    def is_interrupted(self) -> bool:
        """Whether the run has neither results nor an error, and no process works on it."""
        return run_folder.result_file(self.folder) is None and self.error is None and not self.is_running


def read_jobs(folder: Path) -> list[Run]:
    folders = {path.parent for path in folder.glob("*/overrides.yaml")}
    return [read_run(job) for job in sorted(folders, key=job_number)]


def read_run(folder: Path) -> Run:
    metrics, error = folder / "metrics.json", folder / "error.txt"
    try:
        scores = json.loads(metrics.read_text("utf-8")) if metrics.exists() else None
    except ValueError as damage:
        return Run(folder, None, f"metrics.json: cannot be read: {damage}")
    if error.exists():
        return Run(folder, scores, error.read_text().strip())
    return Run(folder, scores, None, is_running=scores is None and run_folder.is_running(folder))


def job_number(folder: Path) -> tuple[int, str]:
    """Return the sort key of a job's folder: its number, then its name."""
    number = folder.name.split("_")[0]
    return (int(number) if number.isdigit() else -1, folder.name)


def print_unfinished(folder: Path, runs: Sequence[Run], expected: int, *, can_resume: bool) -> None:
    """Name the jobs of those `expected` that failed, were stopped, still run or did not begin, and the best trial."""
    for run in runs:
        if run.is_running:
            print(f"still running, by another process: {run.folder.name}")
        elif run.error is not None:
            print(f"failed: {run.folder.name}: {run.error}")
        elif run.is_interrupted:
            print(f"interrupted: {run.folder.name}")
    if len(runs) < expected:
        print(f"not begun: {plural(expected - len(runs), 'run')}")
    if can_resume and (len(runs) < expected or any(run.is_interrupted for run in runs)):
        print("repeat the command with resume=auto to continue")
    found = folder / "optimization_results.yaml"  # Optuna's
    if found.exists():
        best = OmegaConf.load(found)
        settings = " ".join(f"{key}={value}" for key, value in best.best_params.items())
        print(f"best validation {best.score} {best.best_value:.4f}: {settings}")


# ---- resuming


def find_sweep(config: DictConfig, arguments: Sequence[str]) -> dict[str, Any]:
    """Return the settings with which Hydra resumes a sweep of the same command; empty if there is no such sweep.

    Raises ConfigError: that sweep is still running.
    """
    is_named = any(argument.startswith("hydra.sweep.dir=") for argument in arguments)
    folder = Path(config.hydra.sweep.dir) if is_named else find_same_command(Path(config.output_root), arguments)
    if folder is None or not folder.exists():
        where = folder or config.output_root
        print(f"resume=auto: no sweep of this command under {where}; starting a new one")
        return {}
    if run_folder.is_running(folder):
        raise ConfigError(f"{folder}: this sweep is still running; wait for it or stop it")
    finished = len(list(folder.glob("*/metrics.json")))
    print(f"resume=auto: resuming the sweep in {folder}, {finished} of its runs finished before")
    config.hydra.sweep.dir = str(folder)
    is_search = config.hydra.runtime.choices["hydra/sweeper"] == "optuna"
    settings = {} if is_named else {"hydra.sweep.dir": str(folder)}
    if is_search:
        from forecast.runs.search import remaining_trials  # imports optuna

        settings |= remaining_trials(config.hydra.sweeper, arguments)
    return settings


def find_same_command(root: Path, arguments: Sequence[str]) -> Path | None:
    wanted = identifying_overrides(arguments)
    for path in sorted(root.glob(f"*/{COMMAND}"), key=lambda p: p.stat().st_mtime, reverse=True):
        try:
            if identifying_overrides(run_folder.read_overrides(path)) == wanted:
                return path.parent
        except run_folder.UNREADABLE:  # a file of another program
            continue
    return None


# ---- the folder of a job


def job_folder(stem: str, suffix: str, *, _root_: DictConfig) -> str:
    """Return the name of a job's folder in its sweep: with resume=auto its existing folder, else a new one."""
    try:
        digest = run_folder.digest_of_new(_root_)
    except OmegaConfBaseException:  # the job itself reports what is wrong
        return f"{stem}_{suffix}"
    found = find_job(_root_, digest) if _root_.get("resume") == "auto" else None
    return found.name if found is not None else f"{stem}_{digest[:8]}-{suffix}"


OmegaConf.register_new_resolver("job_folder", job_folder, replace=True)


def find_job(config: DictConfig, digest: str) -> Path | None:
    folders = Path(config.hydra.sweep.dir).glob(f"*_{digest[:8]}-*")
    for folder in sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True):
        written = folder / "config.yaml"
        if not written.exists() or run_folder.digest_of(run_folder.read_config(written)) == digest:
            return folder
    return None


# ---- the process of a job


@dataclass(frozen=True)
class Job:
    """One job of a sweep; calling it in another process runs it. `config` is the configuration of the sweep."""

    number: int
    overrides: list[str]
    config: DictConfig
    context: HydraContext
    task: TaskFunction
    state: Any = field(default_factory=process_state)
    folder: str = field(default_factory=os.getcwd)

    def __call__(self) -> JobReturn:
        os.chdir(self.folder)  # processes of a cluster start in another folder
        restore_process_state(self.state)
        is_requeued = "SLURM_RESTART_COUNT" in os.environ
        config = self.compose(["resume=auto"] if is_requeued else [])
        HydraConfig.instance().set_config(config)
        return run_job(
            hydra_context=self.context,
            config=config,
            task_function=self.task,
            job_dir_key="hydra.sweep.dir",
            job_subdir_key="hydra.sweep.subdir",
        )

    def compose(self, more: Sequence[str] = ()) -> DictConfig:
        config = self.context.config_loader.load_sweep_config(self.config, [*self.overrides, *more])
        with open_dict(config):
            config.hydra.job.id = config.hydra.job.num = self.number
        return config


class Lost(NamedTuple):
    """The outcome of a job whose process ended without a result, or did not start."""

    reason: str


Outcome = JobReturn | Lost | int
"""The result of a job, the reason why there is none, or the exit status of a job that was stopped."""


def run_until_stopped(job: Job) -> JobReturn | int:
    """Run the job. If it exits, return its exit status, which some launchers do not report."""
    try:
        return job()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1


def job_return(job: Job, outcome: JobReturn | Lost) -> JobReturn:
    """Return the result for the sweeper. A lost job has no score, like a failed one, unless it had finished."""
    if isinstance(outcome, JobReturn):
        return outcome
    result = JobReturn(overrides=job.overrides, status=JobStatus.COMPLETED)
    result.return_value = record_lost_job(job.compose(), job.number, outcome.reason)
    return result


def record_lost_job(config: DictConfig, number: int, reason: str) -> float | None:
    """Write error.txt for a job whose process ended without a result, in its folder or in a new one.

    Returns the job's score if its run had finished before the process ended; nothing is written then.
    """
    digest = run_folder.digest_of_new(config)
    folder = find_job(config, digest)
    if folder is None:
        folder = Path(config.hydra.sweep.dir) / f"{number}_{config.run_name}_{digest[:8]}-lost"
        folder.mkdir()
    elif (score := run_folder.score_if_finished(folder, config)) is not None:
        return score
    if not (folder / "overrides.yaml").exists():
        run_folder.write_overrides(folder / "overrides.yaml", config.hydra.overrides.task)
    with atomic_file(folder / "error.txt") as temporary:
        temporary.write_text(reason + "\n", "utf-8")
    return None


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the error's type if it has no message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


# ---- the lines on the terminal


@dataclass
class SweepProgress:
    """Count the runs of a sweep that have ended, and print one line for each.

    `fixed`: the keys to which the command gives one value. A run is named by its values of the other keys.
    """

    fixed: Collection[str]
    total: int
    log: str  # name of the file in a run's folder that has its output
    n_ended: int = 0
    n_new: int = 0  # without those that had finished before
    width: int = 0
    started: float = field(default_factory=time.time)

    def begin(self, folder: Path, jobs: Sequence[Sequence[str]]) -> None:
        """Take note of the overrides of the runs that start now. A search starts its runs in several steps."""
        self.total = max(self.total, self.n_ended + len(jobs))
        if _current is not None:
            _current.n_jobs = self.total
        self.width = max([self.width, *(len(self.name(overrides)) for overrides in jobs)])
        if self.n_ended == 0:
            print(f"{plural(self.total, 'run')} in {folder}; the output of each is in its {self.log}", flush=True)

    def name(self, overrides: Sequence[str]) -> str:
        """The values that distinguish a run from the others of the sweep."""
        own = [each for each in overrides if each.partition("=")[0] not in self.fixed]
        return " ".join(own) or "run"

    def report(self, name: str, folder: Path | None, failure: str = "") -> None:
        """Print the line of a run that ended: its scores, or why it failed (`failure`, if its folder has no reason)."""
        self.n_ended += 1
        error, found = folder and folder / "error.txt", folder and run_folder.result_file(folder)
        if error and error.exists():
            failure = error.read_text("utf-8").strip()
        if failure or not found:
            if _current is not None:
                _current.n_failed += 1
            result = f"failed: {failure or 'it ended without results'}"
        elif found.stat().st_mtime < self.started:
            result = f"{_scores(found)}   finished before"
        else:
            self.n_new += 1
            result = f"{_scores(found)}{self._left()}"
        digits = len(str(self.total))
        print(f"[{self.n_ended:>{digits}}/{self.total}] {name:<{self.width}}   {result}", flush=True)

    def _left(self) -> str:
        """The time that the other runs take at the speed so far."""
        left = self.total - self.n_ended
        per_run = (time.time() - self.started) / self.n_new
        return f"   about {format_duration(left * per_run)} left" if left else ""


def _scores(path: Path) -> str:
    """Scores and training time of a run, MSE of a backtest; a benchmark has a table that is too long for a line."""
    results = json.loads(path.read_text("utf-8"))
    scores = results.get("test") or results.get("model")
    if scores is None:
        return f"saved {path.name}"
    shown = ["MSE    –" if scores["mse"] is None else f"MSE {scores['mse']:.4f}"]
    if results.get("skill") is not None:
        shown.append(f"skill {results['skill']:+.3f}")
    if "seconds" in results:
        shown.append(f"{format_duration(results['seconds']):>6}")
    return "   ".join(shown)
