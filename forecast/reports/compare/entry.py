"""A row of the comparison: a variant, whose runs differ only in the seed, or a baseline."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from forecast.evaluation.significance import ROUND_OFF, sum_losses_by_date
from forecast.reports.compare.run_folders import FinishedRun
from forecast.runs.summary import mean_and_std


@dataclass(frozen=True, eq=False)
class Entry:
    """A row of the comparison: a variant or a baseline.

    name: its name, unique in the task.
    runs: the runs of a variant, which differ only in the seed; for a baseline, one run that measured it.
    column: prefix of its columns in the tables of the runs.
    equal: the variants that make the same forecasts, by name, if they are shown as this one, with the runs of one of
        them; else empty.
    score: the error that ranks and tests it, `mse`, `mae` or `crps`.
    """

    name: str
    runs: Sequence[FinishedRun]
    column: str = "model"
    equal: Sequence["Entry"] = ()
    score: str = "mse"

    @property
    def is_baseline(self) -> bool:
        return self.column != "model"

    def values(self, score: str) -> list[float]:
        """Return a test score or cost of each run, NaN where it is unknown.

        So is the peak memory of a process, which holds what earlier runs of a sweep freed, and the libraries.
        """
        found = []
        for run in self.runs:
            scores = run.metrics["baselines"][self.column] if self.is_baseline else run.metrics["test"]
            value = scores.get(score) if self.is_baseline else scores.get(score, run.metrics.get(score))
            of_process = score == "peak_memory_mb" and run.metrics.get("peak_memory_of") != "device"
            found.append(math.nan if value is None or of_process else float(value))
        return found

    def mean_and_std(self, score: str) -> tuple[float, float]:
        """Return the mean and the standard deviation of a score over the seeds."""
        return mean_and_std(self.values(score))

    def mean(self, score: str) -> float:
        """Return the mean of a score over the seeds."""
        return self.mean_and_std(score)[0]

    @property
    def milliseconds(self) -> float:
        """Inference time per window, the mean over the runs; NaN if that of a run cannot be compared."""
        return float(np.mean(self.milliseconds_of_runs))

    @property
    def milliseconds_of_runs(self) -> list[float]:
        """Inference time per window of each run; NaN where it is unknown, or another compared run ran at the time."""
        times = zip(self.runs, self.values("ms_per_window"), strict=True)
        return [math.nan if "ms_per_window" in run.disturbed else time for run, time in times]

    @property
    def shown(self) -> "Entry":
        """This entry; of variants that make the same forecasts, the one whose runs are shown."""
        return next((member for member in self.equal if member.runs is self.runs), self)

    @property
    def error(self) -> float:
        """The mean of `score` over the seeds."""
        return self.mean(self.score)

    @cached_property
    def losses(self) -> np.ndarray:
        """`score` of each test window, averaged over the seeds (n_windows,)."""
        return self.average_over_seeds("windows")

    def average_over_seeds(self, table: Literal["windows", "steps", "variables"]) -> np.ndarray:
        """Return `score` in each row of a table of the runs, averaged over the seeds."""
        column = f"{self.column}_{self.score}"
        return np.mean([getattr(run, table)[column].to_numpy(float) for run in self.runs], axis=0)

    def forecasts_the_same(self, other: "Entry") -> bool:
        """Return whether the error and the losses of all windows are equal up to round-off."""
        if not math.isclose(self.error, other.error, rel_tol=ROUND_OFF):
            return False
        return bool(np.allclose(self.losses, other.losses, rtol=ROUND_OFF, atol=0))

    @cached_property
    def tested_losses(self) -> np.ndarray:
        """Losses that the test uses: sums of `losses` by forecast start, in chronological order (n_dates,)."""
        return sum_losses_by_date(self.losses, self.runs[0].windows["forecast_start"].to_numpy())

    @cached_property
    def by_step(self) -> np.ndarray:
        """`score` at each step of the horizon, averaged over the seeds (pred_len,)."""
        return self.average_over_seeds("steps")

    @cached_property
    def by_variable(self) -> np.ndarray:
        """`score` of each variable, averaged over the seeds (n_targets,)."""
        return self.average_over_seeds("variables")
