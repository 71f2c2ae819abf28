"""A forecasting task: the variants and baselines that forecast the same test windows, and the tests between them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from forecast.evaluation.significance import (
    ROUND_OFF,
    LossDifference,
    compare_to_best,
    sum_losses_by_date,
)
from forecast.reports.compare.run_folders import FinishedRun
from forecast.runs.summary import describe_linear_only, mean_and_std


@dataclass(frozen=True, eq=False)
class Entry:
    """A row of the comparison: a variant or a baseline.

    name: its name, unique in the task.
    runs: the runs of a variant, which differ only in the seed; for a baseline, one run that measured it.
    column: prefix of its columns in the tables of the runs.
    equal: the variants that make the same forecasts, if they are shown as this one; else empty.
    """

    name: str
    runs: Sequence[FinishedRun]
    column: str = "model"
    equal: Sequence["Entry"] = ()

    @property
    def is_baseline(self) -> bool:
        return self.column != "model"

    def values(self, score: str) -> list[float]:
        """Return a test score or cost of each run, NaN where it is unknown."""
        found = []
        for run in self.runs:
            scores = run.metrics["baselines"][self.column] if self.is_baseline else run.metrics["test"]
            value = scores.get(score) if self.is_baseline else scores.get(score, run.metrics.get(score))
            found.append(math.nan if value is None else float(value))
        return found

    def mean_and_std(self, score: str) -> tuple[float, float]:
        """Return the mean and the standard deviation of a score over the seeds."""
        return mean_and_std(self.values(score))

    def mean(self, score: str) -> float:
        """Return the mean of a score over the seeds."""
        return self.mean_and_std(score)[0]

    @cached_property
    def losses(self) -> np.ndarray:
        """MSE of each test window, averaged over the seeds (n_windows,)."""
        return np.mean([run.windows[f"{self.column}_mse"].to_numpy(float) for run in self.runs], axis=0)

    def forecasts_the_same(self, other: "Entry") -> bool:
        """Return whether the MSE and the losses of all windows are equal up to round-off."""
        if not math.isclose(self.mean("mse"), other.mean("mse"), rel_tol=ROUND_OFF):
            return False
        return bool(np.allclose(self.losses, other.losses, rtol=ROUND_OFF, atol=0))

    @cached_property
    def tested_losses(self) -> np.ndarray:
        """Losses that the significance test uses, in chronological order.

        For one table they are `losses` (n_windows,); for many series, their sums by forecast start (n_dates,).
        """
        run = self.runs[0]
        if not run.ids:
            return self.losses
        return sum_losses_by_date(self.losses, run.windows["forecast_start"].to_numpy())

    @cached_property
    def by_step(self) -> np.ndarray:
        """MSE at each step of the horizon, averaged over the seeds (pred_len,)."""
        return np.mean([run.steps[f"{self.column}_mse"].to_numpy(float) for run in self.runs], axis=0)

    @cached_property
    def by_variable(self) -> np.ndarray:
        """MSE of each variable, averaged over the seeds (n_targets,)."""
        return np.mean([run.variables[f"{self.column}_mse"].to_numpy(float) for run in self.runs], axis=0)


@dataclass(frozen=True, eq=False)
class Task:
    """Runs that forecast the same test windows of the same scaled values.

    title: data, horizon and features.
    variants, baselines: in ascending order of their MSE. Variants that make the same forecasts are one variant.
    settings: by variant, the settings in which the variants differ, by short name.
    shared: the settings that all runs have in common.
    """

    title: str
    variants: list[Entry]
    baselines: list[Entry]
    settings: dict[str, dict[str, str]]
    shared: dict[str, str]

    @property
    def best(self) -> Entry:
        """The variant with the lowest MSE."""
        return self.variants[0]

    @property
    def best_baseline(self) -> Entry:
        """The baseline with the lowest MSE."""
        return self.baselines[0]

    @property
    def entries(self) -> list[Entry]:
        """Variants and baselines in ascending order of their MSE."""
        return sorted([*self.variants, *self.baselines], key=lambda entry: entry.mean("mse"))

    @property
    def unmerged_variants(self) -> list[Entry]:
        """The variants, with those that make the same forecasts one by one."""
        return [member for entry in self.variants for member in entry.equal or [entry]]

    @property
    def first_run(self) -> FinishedRun:
        return self.best.runs[0]

    @property
    def pred_len(self) -> int:
        return int(self.first_run.metrics["pred_len"])

    @property
    def overlap(self) -> int:
        """Number of neighbouring losses that share steps."""
        return self.first_run.overlap

    @property
    def linear_only_note(self) -> str:
        """A sentence on runs that kept only their linear model, so that attention does not affect their scores."""
        return describe_linear_only(self.all_metrics)

    @property
    def is_linear_only(self) -> bool:
        """Whether every run kept only its linear model, so that variants cannot be compared."""
        return all(run.get("best_epoch") == 0 for run in self.all_metrics)

    @property
    def all_metrics(self) -> list[dict[str, Any]]:
        return [run.metrics for entry in self.unmerged_variants for run in entry.runs]

    def skill(self, entry: Entry) -> list[float]:
        """Return 1 − MSE / the best baseline's MSE of each run: 0 for round-off, NaN if the baseline has no error."""
        baseline_mse = self.best_baseline.mean("mse")
        skills = [1 - mse / baseline_mse if baseline_mse > 0 else math.nan for mse in entry.values("mse")]
        return [0.0 if abs(skill) < ROUND_OFF else skill for skill in skills]

    def equals_best_baseline(self, entry: Entry) -> bool:
        """Return whether the MSE equals the best baseline's up to round-off: the model is that baseline."""
        return math.isclose(entry.mean("mse"), self.best_baseline.mean("mse"), rel_tol=ROUND_OFF)

    def beats_best_baseline(self, entry: Entry) -> bool:
        """Return whether the MSE is lower than the best baseline's by more than round-off."""
        return entry.mean("mse") < self.best_baseline.mean("mse") and not self.equals_best_baseline(entry)

    @property
    def knows_seeds(self) -> bool:
        """Whether a variant has several seeds, which show how much its loss changes if it is trained again."""
        return any(len(entry.runs) > 1 for entry in self.variants)

    def equals_best(self, entry: Entry) -> bool:
        """Return whether the losses of all windows equal those of the best variant up to round-off."""
        return entry.forecasts_the_same(self.best)

    def relative_difference(self, entry: Entry) -> float:
        """Return the MSE minus the best variant's, relative to the latter; NaN where the best variant has no error."""
        best = self.best.mean("mse")
        return entry.mean("mse") / best - 1 if best > 0 else math.nan

    def relative_interval(self, entry: Entry) -> tuple[float, float]:
        """Return the 95% interval of the MSE minus the best variant's, relative to the latter; NaN where unknown."""
        best = self.best.mean("mse")
        low, high = self.differences[entry.name].interval()
        return (low / best, high / best) if best > 0 else (math.nan, math.nan)

    @cached_property
    def differences(self) -> dict[str, LossDifference]:
        """By name, the test of each other variant against the best variant, and of each baseline against it.

        p-values are corrected for the number of variants and for the number of baselines separately. The variances
        hold windows and seeds. Where no variant has two seeds, variants are not tested, and baselines are tested
        against this run of the best variant.
        """
        seeds = {entry.name: entry.values("mse") for entry in self.variants}
        best = {self.best.name: self.best.tested_losses}
        variants = {entry.name: entry.tested_losses for entry in self.variants}
        baselines = {entry.name: entry.tested_losses for entry in self.baselines}
        tested = compare_to_best(self.best.name, variants, self.overlap, seeds)
        if not self.knows_seeds:
            tested = {name: LossDifference(one.mean, math.nan, 0.0) for name, one in tested.items()}
        return {
            **tested,
            **compare_to_best(self.best.name, best | baselines, self.overlap, seeds),
        }
