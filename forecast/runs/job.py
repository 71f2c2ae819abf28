"""One job of a sweep: its folder, and its run in a separate process. Imports no torch.

The name of a job's folder contains a short digest of the job's configuration. A resumed sweep finds the folder by this
digest, whatever the job's number. The job is then skipped (finished), resumed (interrupted) or started again (failed,
or killed before its first checkpoint).
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobStatus, run_job
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from forecast.runs.folder import read_config, write_overrides
from forecast.runs.resume import digest_of, digest_of_new, score_if_finished
from forecast.system.files import atomic_file
from forecast.system.hydra_internals import process_state, restore_process_state

# ---- the folder


def job_folder(stem: str, suffix: str, *, _root_: DictConfig) -> str:
    """Return the name of a job's folder in its sweep: with resume=auto its existing folder, else a new one."""
    try:
        digest = digest_of_new(_root_)
    except OmegaConfBaseException:  # the job itself reports what is wrong
        return f"{stem}_{suffix}"
    found = find_job(_root_, digest) if _root_.get("resume") == "auto" else None
    return found.name if found is not None else f"{stem}_{short_digest(digest)}-{suffix}"


OmegaConf.register_new_resolver("job_folder", job_folder, replace=True)


def short_digest(digest: str) -> str:
    """Return the part of a digest that a folder's name contains."""
    return digest[:8]


def find_job(config: DictConfig, digest: str) -> Path | None:
    """Find the newest folder in the sweep with a configuration of this digest."""
    folders = Path(config.hydra.sweep.dir).glob(f"*_{short_digest(digest)}-*")
    for folder in sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True):
        written = folder / "config.yaml"
        if not written.exists() or digest_of(read_config(written)) == digest:
            return folder
    return None


# ---- the process


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
        """Compose the job's configuration, with `more` overrides."""
        config = self.context.config_loader.load_sweep_config(self.config, [*self.overrides, *more])
        with open_dict(config):
            config.hydra.job.id = config.hydra.job.num = self.number
        return config


@dataclass(frozen=True)
class Lost:
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

    Returns:
        The job's score if its run had finished before the process ended; nothing is written then.
    """
    digest = digest_of_new(config)
    folder = find_job(config, digest)
    if folder is None:
        folder = Path(config.hydra.sweep.dir) / f"{number}_{config.run_name}_{short_digest(digest)}-lost"
        folder.mkdir()
    elif (score := score_if_finished(folder, config)) is not None:
        return score
    if not (folder / "overrides.yaml").exists():
        write_overrides(folder / "overrides.yaml", config.hydra.overrides.task)
    with atomic_file(folder / "error.txt") as temporary:
        temporary.write_text(reason + "\n", "utf-8")
    return None


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the error's type if it has no message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
