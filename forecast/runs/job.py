"""One job of a sweep: its folder, and its run in a process of its own. Imports no torch.

The name of a job's folder holds a mark of the job's configuration. A resumed sweep finds each job's folder by this
mark, whatever the job's number. The job is then skipped (finished), resumed (half done) or started again (failed, or
killed before its first checkpoint).
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
from forecast.system.hydra_internals import process_state, restore_process_state

# ---- the folder


def job_folder(stem: str, suffix: str, *, _root_: DictConfig) -> str:
    """The name of a job's folder in its sweep: the folder that it has (with resume=auto), or a new one."""
    try:
        digest = digest_of_new(_root_)
    except OmegaConfBaseException:  # the job itself reports what is wrong
        return f"{stem}_{suffix}"
    found = find_job(_root_, digest) if _root_.get("resume") == "auto" else None
    return found.name if found is not None else f"{stem}_{mark(digest)}-{suffix}"


OmegaConf.register_new_resolver("job_folder", job_folder, replace=True)


def mark(digest: str) -> str:
    return digest[:8]


def find_job(config: DictConfig, digest: str) -> Path | None:
    """The newest folder of this configuration in its sweep."""
    folders = Path(config.hydra.sweep.dir).glob(f"*_{mark(digest)}-*")
    for folder in sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True):
        written = folder / "config.yaml"
        if not written.exists() or digest_of(read_config(written)) == digest:
            return folder
    return None


# ---- the process


@dataclass(frozen=True)
class Job:
    """One job of a sweep, to be called in another process."""

    number: int
    overrides: list[str]
    config: DictConfig  # the sweep's
    context: HydraContext
    task: TaskFunction
    state: Any = field(default_factory=process_state)
    folder: str = field(default_factory=os.getcwd)

    def __call__(self) -> JobReturn:
        os.chdir(self.folder)  # a cluster's processes begin elsewhere
        restore_process_state(self.state)
        is_requeued = "SLURM_RESTART_COUNT" in os.environ
        config = self.configured(["resume=auto"] if is_requeued else [])
        HydraConfig.instance().set_config(config)
        return run_job(
            hydra_context=self.context,
            config=config,
            task_function=self.task,
            job_dir_key="hydra.sweep.dir",
            job_subdir_key="hydra.sweep.subdir",
        )

    def configured(self, more: Sequence[str] = ()) -> DictConfig:
        config = self.context.config_loader.load_sweep_config(self.config, [*self.overrides, *more])
        with open_dict(config):
            config.hydra.job.id = config.hydra.job.num = self.number
        return config


@dataclass(frozen=True)
class Lost:
    """The outcome of a job whose process ended without a result, or did not start."""

    reason: str


Outcome = JobReturn | Lost | int
"""An int is the exit status of a job that was told to stop."""


def run_until_stopped(job: Job) -> JobReturn | int:
    """Run the job. Its exit, which some launchers do not pass on, is returned as its status."""
    try:
        return job()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1


def job_return(job: Job, outcome: JobReturn | Lost) -> JobReturn:
    """The result for the sweeper: a lost job has none, as a failed one."""
    if isinstance(outcome, JobReturn):
        return outcome
    result = JobReturn(overrides=job.overrides, status=JobStatus.COMPLETED)
    result.return_value = record_loss(job.configured(), job.number, outcome.reason)
    return result


def record_loss(config: DictConfig, number: int, reason: str) -> float | None:
    """Write the reason into the folder of a job whose process ended without a result; make a folder if it has none.

    Returns:
        The job's score, if its run was finished before its process ended.
    """
    digest = digest_of_new(config)
    folder = find_job(config, digest)
    if folder is None:
        folder = Path(config.hydra.sweep.dir) / f"{number}_{config.run_name}_{mark(digest)}-lost"
        folder.mkdir()
    elif (score := score_if_finished(folder, config)) is not None:
        return score
    if not (folder / "overrides.yaml").exists():
        write_overrides(folder / "overrides.yaml", config.hydra.overrides.task)
    (folder / "error.txt").write_text(reason + "\n", "utf-8")
    return None


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
