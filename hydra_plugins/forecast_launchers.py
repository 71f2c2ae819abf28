"""The launchers that conf/hydra/launcher names: basic, joblib, submitit (also Slurm) and Ray.

Each prints one line for each job that ends. Except with `basic`, each job has its own process. Hydra's plugins for
these engines lose the whole sweep where one job's process is killed. With these launchers the other jobs continue, and
the killed job's folder holds the reason. An engine's package is imported when it is used.

The module stands outside of forecast/ because Hydra takes launchers only from the namespace package `hydra_plugins`.
"""

import multiprocessing
import os
import re
import shutil
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, configure_log, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from forecast.runs.sweep import Job, Lost, Outcome, SweepProgress, first_line, job_return, run_until_stopped
from forecast.system import distributed, signals
from forecast.system.errors import ConfigError
from forecast.system.hydra_internals import fixed_keys

LOOK_EVERY = 0.5
"""Seconds between two looks at the jobs and at signals."""


def as_they_end(
    handles: Sequence[Any], is_done: Callable[[Any], bool], outcome: Callable[[Any], Outcome]
) -> Iterator[tuple[int, Outcome]]:
    """Wait for all jobs, and yield the number and the outcome of each when it is done.

    Each look is a safe point at which a signal stops the sweep.

    Raises:
        SystemExit: this process was told to stop.
    """
    waiting = dict(enumerate(handles))
    while waiting:
        signals.exit_if_received(", and so were the jobs of its sweep")
        for number in [number for number, handle in waiting.items() if is_done(handle)]:
            yield number, outcome(waiting.pop(number))
        if waiting:
            time.sleep(LOOK_EVERY)


class JobLauncher(Launcher):
    """The base of the launchers; `options` are the keys below `hydra.launcher`."""

    def __init__(self, **options: Any) -> None:
        self.options: dict[str, Any] = {
            key: OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
            for key, value in options.items()
        }

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.context, self.task, self.config = hydra_context, task_function, config
        typed = [*config.hydra.overrides.task, *config.hydra.overrides.hydra]
        total, log = config.hydra.sweeper.get("n_trials") or 0, f"{config.hydra.job.name}.log"
        self.progress = SweepProgress(fixed_keys(typed), total, log)

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run all jobs and wait for them.

        Raises:
            SystemExit: this process, or one of the jobs, was told to stop.
        """
        setup_globals()
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        folder = Path(self.config.hydra.sweep.dir)
        folder.mkdir(parents=True, exist_ok=True)
        self.progress.begin(folder, job_overrides)
        jobs = [
            Job(initial_job_idx + i, list(each), self.config, self.context, self.task)
            for i, each in enumerate(job_overrides)
        ]
        results: dict[int, JobReturn] = {}
        stopped: list[int] = []
        with signals.listening():
            for number, outcome in self.run(jobs):
                if isinstance(outcome, int):
                    stopped.append(outcome)
                else:
                    results[number] = job_return(jobs[number], outcome)
                    self.report(jobs[number], outcome, results[number])
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        if stopped:
            raise SystemExit(stopped[0])
        return [results[number] for number in range(len(jobs))]

    def report(self, job: Job, outcome: JobReturn | Lost, result: JobReturn) -> None:
        """Print the line of a job that ended."""
        name = self.progress.name(job.overrides)
        if isinstance(outcome, Lost) or result.hydra_cfg is None:
            self.progress.report(name, None, outcome.reason if isinstance(outcome, Lost) else "")
        else:
            self.progress.report(name, Path(result.hydra_cfg.hydra.runtime.output_dir))

    @abstractmethod
    def run(self, jobs: list[Job]) -> Iterator[tuple[int, Outcome]]:
        """Run the jobs, and yield the place in the list and the outcome of each that ends."""


class Basic(JobLauncher):
    """One job after the other in this process."""

    def run(self, jobs: list[Job]) -> Iterator[tuple[int, Outcome]]:
        for number, job in enumerate(jobs):
            yield number, job()


class Joblib(JobLauncher):
    """`n_jobs` jobs at a time on this machine, each in a new process of joblib's loky."""

    def run(self, jobs: list[Job]) -> Iterator[tuple[int, Outcome]]:
        import joblib

        n_jobs = joblib.effective_n_jobs(self.options["n_jobs"])
        threads = max(1, joblib.cpu_count() // min(n_jobs, len(jobs)))
        start = partial(in_own_process, {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(threads))})
        pool = ThreadPoolExecutor(n_jobs)  # each thread waits for one process
        try:
            futures = [pool.submit(start, job) for job in jobs]
            yield from as_they_end(futures, Future.done, Future.result)
        except BaseException:  # Ctrl-C, or told to stop: the jobs are told too, and save their state
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise
        finally:
            pool.shutdown()


def in_own_process(environment: dict[str, str], job: Job) -> Outcome:
    from joblib.externals.loky import ProcessPoolExecutor

    with ProcessPoolExecutor(max_workers=1, env=environment) as process:
        try:
            return process.submit(run_beside_parent, job).result()
        except Exception as error:
            exit_code = re.search(r"exit codes of the workers are \{(.*)\}", str(error))
            return Lost(f"its process ended without a result: {exit_code[1] if exit_code else first_line(error)}")


def run_beside_parent(job: Job) -> JobReturn | int:
    distributed.follow_parent()  # a killed sweep leaves no job behind that keeps its folder locked
    return run_until_stopped(job)


class Submitit(JobLauncher):
    """Each job as a job of submitit: `cluster: local` for processes of this machine, `slurm` for a job array.

    The other options are those of `submitit.AutoExecutor.update_parameters`.
    """

    def run(self, jobs: list[Job]) -> Iterator[tuple[int, Outcome]]:
        # the signal before a time limit is one that training handles
        os.environ.setdefault("SUBMITIT_PREEMPT_SIGNAL", "USR1")
        import submitit

        options = {key: value for key, value in self.options.items() if value is not None}
        is_local = options.pop("cluster") == "local"
        if not is_local and shutil.which("srun") is None:
            raise ConfigError("hydra/launcher=submitit_slurm needs Slurm, and there is no srun here")
        executor = submitit.AutoExecutor(folder=options.pop("folder"), cluster="local" if is_local else "slurm")
        try:
            executor.update_parameters(**options)
        except (NameError, TypeError, ValueError) as error:  # as for an unknown option
            raise ConfigError(f"hydra.launcher: {first_line(error)}") from None
        # A Slurm job that was told to stop is in the queue again: it must end without a result.
        run: Callable[[Job], JobReturn | int] = run_until_stopped if is_local else Job.__call__
        submitted = executor.map_array(run, jobs)
        try:
            yield from as_they_end(submitted, lambda job: job.done(), outcome_of)
        except BaseException:
            for job in submitted if is_local else []:  # Slurm's jobs continue without this process
                job.cancel(check=False)
            raise


def outcome_of(job: Any) -> Outcome:
    from submitit.core.utils import FailedJobError, UncompletedJobError

    try:
        return job.result()
    except (FailedJobError, UncompletedJobError):
        state = "" if job.state == "FINISHED" else f", {job.state}"
        return Lost(f"its process ended without a result{state}: see {job.paths.stderr}")


class Ray(JobLauncher):
    """Each job as a Ray task; `init` is given to `ray.init`, `remote` to `ray.remote`."""

    def run(self, jobs: list[Job]) -> Iterator[tuple[int, Outcome]]:
        import ray  # pyright: ignore[reportMissingImports]
        from ray.exceptions import RayError  # pyright: ignore[reportMissingImports]

        def outcome_of(reference: Any) -> Outcome:
            try:
                return ray.get(reference)
            except RayError as error:
                return Lost(f"its process ended without a result: {first_line(error)}")

        if not ray.is_initialized():
            ray.init(**self.options["init"])
        run = ray.remote(**self.options["remote"])(run_until_stopped)
        references = [run.remote(job) for job in jobs]
        yield from as_they_end(references, lambda one: bool(ray.wait([one], timeout=0)[0]), outcome_of)
