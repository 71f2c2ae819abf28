"""One member of a sweep in a process of its own, and what came of it. Imports no torch."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus, run_job, setup_globals
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict

from forecast import sweep_resume


@dataclass(frozen=True)
class Member:
    """One member of a sweep, to be called in another process."""

    number: int
    overrides: list[str]
    config: DictConfig  # the sweep's
    context: HydraContext
    task: TaskFunction
    state: dict[Any, Any] = field(default_factory=Singleton.get_state)
    folder: str = field(default_factory=os.getcwd)

    def __call__(self) -> JobReturn:
        os.chdir(self.folder)  # a cluster's processes begin elsewhere
        setup_globals()
        Singleton.set_state(self.state)
        again = ["resume=auto"] if "SLURM_RESTART_COUNT" in os.environ else []  # Slurm queued the job again
        config = self.configured(again)
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
    """What came of a member whose process ended without a word, or could not begin."""

    reason: str


Outcome = JobReturn | Lost | int  # an int: the exit status of a member that was told to stop


def until_told_to_stop(member: Member) -> JobReturn | int:
    """Run the member; an exit, which not every engine lets through, becomes its status."""
    try:
        return member()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1


def returned(member: Member, outcome: Any) -> JobReturn:
    """What the sweeper is told of a member: of a lost one, as of a failed one, None."""
    if isinstance(outcome, JobReturn):
        return outcome
    value = sweep_resume.note_loss(member.configured(), member.number, outcome.reason)
    result = JobReturn(overrides=member.overrides, status=JobStatus.COMPLETED)
    result.return_value = value
    return result


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
