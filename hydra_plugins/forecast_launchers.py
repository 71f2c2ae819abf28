"""The launchers that conf/hydra/launcher names: joblib, submitit (also Slurm) and Ray, each member in its own process.

Hydra's plugins for these engines lose the whole sweep where one member's process is killed. With these the others go
on, and the member's folder tells what became of it. An engine's package is imported when it is used.

They stand here and not below forecast/, for Hydra takes launchers only from the namespace package `hydra_plugins`.
"""

import multiprocessing
import os
import re
import shutil
from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, configure_log, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from forecast import preemption, processes
from forecast.errors import ConfigError
from forecast.member import Lost, Member, Outcome, first_line, returned, until_told_to_stop


class Apart(Launcher):
    """What the launchers have in common; `options` are the keys below `hydra.launcher`."""

    def __init__(self, **options: Any) -> None:
        self.options: dict[str, Any] = {
            key: OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
            for key, value in options.items()
        }

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.context, self.task, self.config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run all members and wait for them.

        Raises:
            SystemExit: this process, or one of the members, was told to stop.
        """
        setup_globals()
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        Path(self.config.hydra.sweep.dir).mkdir(parents=True, exist_ok=True)
        members = [
            Member(initial_job_idx + i, list(each), self.config, self.context, self.task)
            for i, each in enumerate(job_overrides)
        ]
        with preemption.listening():
            outcomes = self.run(members)
        for outcome in outcomes:
            if isinstance(outcome, int):
                raise SystemExit(outcome)
        return [returned(member, outcome) for member, outcome in zip(members, outcomes, strict=True)]

    @abstractmethod
    def run(self, members: list[Member]) -> Sequence[Outcome]:
        """What came of each member, in their order."""


class Joblib(Apart):
    """`n_jobs` members at a time on this machine, each in a fresh process of joblib's loky."""

    def run(self, members: list[Member]) -> Sequence[Outcome]:
        import joblib

        n_jobs = joblib.effective_n_jobs(self.options["n_jobs"])
        threads = max(1, joblib.cpu_count() // min(n_jobs, len(members)))
        start = partial(in_own_process, {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(threads))})
        pool = ThreadPoolExecutor(n_jobs)  # each thread waits for one process
        try:
            return list(pool.map(start, members))
        except BaseException:  # Ctrl-C, or told to stop: so are the members, which save their state first
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise
        finally:
            pool.shutdown()


def in_own_process(environment: dict[str, str], member: Member) -> Outcome:
    from joblib.externals.loky import ProcessPoolExecutor

    with ProcessPoolExecutor(max_workers=1, env=environment) as process:
        try:
            return process.submit(beside_its_parent, member).result()
        except Exception as error:
            exit_code = re.search(r"exit codes of the workers are \{(.*)\}", str(error))
            return Lost(
                f"its process ended without a word: {exit_code[1] if exit_code else first_line(error)}"
            )


def beside_its_parent(member: Member) -> JobReturn | int:
    processes.follow_parent()  # a sweep that is killed leaves no member behind, in whose folder none else may write
    return until_told_to_stop(member)


class Submitit(Apart):
    """Each member as a submitit job: `cluster: local` for processes of this machine, `slurm` for a job array.

    The other options are those of `submitit.AutoExecutor.update_parameters`.
    """

    def run(self, members: list[Member]) -> Sequence[Outcome]:
        # what training listens to is what comes before a time limit
        os.environ.setdefault("SUBMITIT_PREEMPT_SIGNAL", "USR1")
        import submitit

        options = {key: value for key, value in self.options.items() if value is not None}
        is_local = options.pop("cluster") == "local"
        if not is_local and shutil.which("srun") is None:
            raise ConfigError("hydra/launcher=submitit_slurm needs Slurm, and there is no srun here")
        executor = submitit.AutoExecutor(
            folder=options.pop("folder"), cluster="local" if is_local else "slurm"
        )
        try:
            executor.update_parameters(**options)
        except (NameError, TypeError, ValueError) as error:  # as for an unknown option
            raise ConfigError(f"hydra.launcher: {first_line(error)}") from None
        # A Slurm job that was told to stop is in the queue again: it must end without a result.
        run: Callable[[Member], JobReturn | int] = until_told_to_stop if is_local else Member.__call__
        jobs = executor.map_array(run, members)
        try:
            return [outcome_of(job) for job in jobs]
        except BaseException:
            for job in jobs if is_local else []:  # Slurm's go on without this process
                job.cancel(check=False)
            raise


def outcome_of(job: Any) -> Outcome:
    from submitit.core.utils import FailedJobError, UncompletedJobError

    try:
        return job.result()
    except (FailedJobError, UncompletedJobError):
        state = "" if job.state == "FINISHED" else f", {job.state}"
        return Lost(f"its process ended without a word{state}: see {job.paths.stderr}")


class Ray(Apart):
    """Each member as a Ray task; `init` is given to `ray.init`, `remote` to `ray.remote`."""

    def run(self, members: list[Member]) -> Sequence[Outcome]:
        import ray  # pyright: ignore[reportMissingImports]
        from ray.exceptions import RayError  # pyright: ignore[reportMissingImports]

        def outcome_of(reference: Any) -> Outcome:
            try:
                return ray.get(reference)
            except RayError as error:
                return Lost(f"its process ended without a word: {first_line(error)}")

        if not ray.is_initialized():
            ray.init(**self.options["init"])
        run = ray.remote(**self.options["remote"])(until_told_to_stop)
        references = [run.remote(member) for member in members]
        return [outcome_of(reference) for reference in references]
