"""The sweeper that conf/hydra/sweeper/optuna.yaml names: a hyperparameter search with Optuna.

Hydra's own plugin for Optuna 4 needs a version of Hydra that is not released yet.

The module stands outside of forecast/ because Hydra takes sweepers only from the namespace package `hydra_plugins`.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class OptunaSweeper(Sweeper):
    """Draw trials, run each as a job, and tell Optuna the values that the jobs return.

    Args:
        sampler: a sampler of Optuna that lacks its seed.
        storage: the URL of a database, a storage of Optuna, or None to keep the study in memory.
        study_name, n_trials, n_jobs, params: see conf/hydra/sweeper/optuna.yaml.
    """

    def __init__(
        self,
        sampler: partial[Any],
        storage: Any,
        study_name: str,
        n_trials: int,
        n_jobs: int,
        params: Mapping[str, Any],
    ) -> None:
        self.sampler, self.storage, self.study_name = sampler, storage, study_name
        self.n_trials, self.n_jobs = n_trials, n_jobs
        self.params = params

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.folder, self.loader = Path(config.hydra.sweep.dir), hydra_context.config_loader
        self.launcher: Launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> None:
        """Run the trials, `n_jobs` at a time. A failed trial is recorded as failed.

        Raises:
            ConfigError: the study is that of another search, or a parameter cannot be drawn.
            SystemExit: this process, or one of the jobs, was told to stop; its trial can be resumed.
        """
        from forecast.runs.search import (
            begin_trial,
            end_trial,
            identify_search,
            open_study,
            read_search_space,
            save_best,
        )

        space = [f"{key}={value}" for key, value in self.params.items()]
        draws, shared = read_search_space([*space, *arguments], self.loader)
        search = identify_search(self.params, arguments)
        study = open_study(self.study_name, self.storage, search)
        begun = 0
        while begun < self.n_trials:
            size = min(self.n_jobs, self.n_trials - begun)
            trials, drawn = zip(*(begin_trial(study, self.sampler, draws) for _ in range(size)), strict=True)
            results = self.launcher.launch([[*values, *shared] for values in drawn], initial_job_idx=begun)
            begun += size
            for trial, result in zip(trials, results, strict=True):
                end_trial(study, trial, result)
            save_best(study, self.folder)
