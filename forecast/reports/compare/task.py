"""A forecasting task: the variants and baselines that forecast the same test windows, their scores, costs and tests."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np

from forecast.evaluation.scores import SAME_ERROR, SCORES
from forecast.evaluation.significance import (
    ROUND_OFF,
    SIGNIFICANCE_LEVEL,
    LossDifference,
    SeedVariance,
    add_seed_variance,
    diebold_mariano,
    step_down,
    sum_losses_by_date,
)
from forecast.reports.compare.run_folders import FinishedRun
from forecast.reports.tables import Column
from forecast.runs.summary import mean_and_std

Item = TypeVar("Item")

MIN_DEGREES = 3  # degrees of freedom; with fewer, a test without a significant result says nothing
NOT_SIGNIFICANT, TOO_FEW = "no significant difference", "too few windows or seeds"
ONE_SEED, EQUAL, BEST = "one seed: unknown", "equal", "best"
NO_DIFFERENCE = LossDifference(0.0, math.nan, 0.0)

SKILL = Column(
    "skill", "skill", "1 − error / error of the best baseline; negative: worse than that baseline", "higher"
)
SCORE_COLUMNS = [
    Column(name, score.label if score.unit == "scaled" else score.heading("{} ({})"), score.meaning, "lower")
    for name, score in SCORES.items()
]
SCORE_COLUMNS.insert(2, SKILL)
COSTS = (
    Column("ms_per_window", "ms/window", "inference time per test window in milliseconds, model only", "lower"),
    Column("peak_memory_mb", "peak memory (MiB)", "peak memory of the GPU in the run, training included", "lower"),
    Column("n_parameters", "parameters", "number of trainable parameters", "lower"),
    Column("seconds", "run time (s)", "time of the whole run in seconds", "lower"),
    Column("windows_per_second", "training windows/s", "training windows per second", "higher"),
    Column("epochs", "epochs", "number of epochs trained"),
)  # fmt: skip


def group_by(items: Iterable[Item], is_same: Callable[[Item, Item], bool]) -> list[list[Item]]:
    """Return groups of items, each of which is the same as the first one of its group."""
    groups: list[list[Item]] = []
    for item in items:
        group = next((group for group in groups if is_same(group[0], item)), None)
        if group is None:
            groups.append([item])
        else:
            group.append(item)
    return groups


@dataclass(frozen=True, eq=False)
class Entry:
    """A row of the comparison: a variant or a baseline.

    name: its name, unique in the task.
    runs: the runs of a variant, which differ only in the seed; for a baseline, one run that measured it.
    column: prefix of its columns in the tables of the runs.
    score: the error that ranks and tests it, `mse`, `mae` or `crps`.
    """

    name: str
    runs: Sequence[FinishedRun]
    column: str = "model"
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
            of_model = run.metrics | run.metrics["test"]
            value = (run.metrics["baselines"][self.column] if self.is_baseline else of_model).get(score)
            of_process = score == "peak_memory_mb" and run.metrics.get("peak_memory_of") != "device"
            found.append(math.nan if value is None or of_process else float(value))
        return found

    def mean(self, score: str) -> float:
        """Return the mean of a score over the seeds."""
        return mean_and_std(self.values(score))[0]

    @property
    def times(self) -> list[float]:
        """Milliseconds of inference per window in each run; NaN if unknown, or if another compared run ran then."""
        times = zip(self.runs, self.values("ms_per_window"), strict=True)
        return [math.nan if "ms_per_window" in run.disturbed else time for run, time in times]

    @property
    def by_seed(self) -> dict[int, float]:
        """`score` of each run by its seed."""
        return dict(zip((run.metrics["seed"] for run in self.runs), self.values(self.score), strict=True))

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


@dataclass(frozen=True, eq=False)
class Task:
    """Runs that forecast the same test windows of the same scaled values.

    title: data, horizon and features.
    variants, baselines: in ascending order of their error.
    settings: by variant, the settings in which the variants differ, by short name.
    shared: the settings that all runs have in common.
    reference_name: the variant or baseline that the others are compared with; None: the best variant.
    """

    title: str
    variants: list[Entry]
    baselines: list[Entry]
    settings: dict[str, dict[str, str]]
    shared: dict[str, str]
    reference_name: str | None = None

    @property
    def best(self) -> Entry:
        """The variant with the lowest error."""
        return self.variants[0]

    @property
    def best_baseline(self) -> Entry:
        """The baseline with the lowest error."""
        return self.baselines[0]

    @cached_property
    def reference(self) -> Entry:
        """The variant or baseline that the others are compared with."""
        return next((entry for entry in self.entries if entry.name == self.reference_name), self.best)

    @property
    def score_label(self) -> str:
        """Name of the error that ranks and tests the entries: MSE, MAE or CRPS."""
        return self.best.score.upper()

    @cached_property
    def with_best_as_reference(self) -> "Task":
        """This task with all entries compared with the best variant."""
        return self if self.reference is self.best else replace(self, reference_name=None)

    @cached_property
    def with_baseline_as_reference(self) -> "Task":
        """This task with all entries compared with the best baseline."""
        return replace(self, reference_name=self.best_baseline.name)

    @property
    def entries(self) -> list[Entry]:
        """Variants and baselines in ascending order of their error."""
        return sorted([*self.variants, *self.baselines], key=lambda entry: entry.error)

    @cached_property
    def distinct(self) -> dict[str, Entry]:
        """By variant, the one that stands for all variants with the same forecasts in the tests."""
        in_order = sorted(self.variants, key=lambda entry: entry is not self.reference)
        return {
            entry.name: group[0] for group in group_by(in_order, Entry.forecasts_the_same) for entry in group
        }

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

    @cached_property
    def dates(self) -> np.ndarray:
        """Forecast start of each of the `tested_losses` (n,)."""
        return np.unique(self.first_run.windows["forecast_start"].to_numpy())

    @property
    def all_metrics(self) -> list[dict[str, Any]]:
        return [run.metrics for entry in self.variants for run in entry.runs]

    def count_disturbed_runs(self, cost: str) -> int:
        """Return the number of runs whose cost was measured while another compared run ran."""
        return sum(cost in run.disturbed for entry in self.variants for run in entry.runs)

    def skill(self, entry: Entry) -> list[float]:
        """Return 1 − error / the best baseline's error of each run: 0 up to `SAME_ERROR`, NaN if the latter is 0."""
        least = self.best_baseline.error
        skills = [1 - error / least if least > 0 else math.nan for error in entry.values(entry.score)]
        return [0.0 if abs(skill) < SAME_ERROR else skill for skill in skills]

    @property
    def knows_seeds(self) -> bool:
        """Whether a variant has several seeds, which show how much its loss changes if it is trained again."""
        return any(len(entry.runs) > 1 for entry in self.variants)

    @cached_property
    def seed_losses(self) -> dict[str, dict[int, float]]:
        """By variant, the mean loss of each run by seed; of variants with the same forecasts, one."""
        return {entry.name: entry.by_seed for entry in dict.fromkeys(self.distinct.values())}

    def relative_difference(self, entry: Entry) -> float:
        """Return the error minus the reference's, relative to the latter; NaN where the reference has no error."""
        least = self.reference.error
        return entry.error / least - 1 if least > 0 else math.nan

    @cached_property
    def differences(self) -> dict[str, LossDifference]:
        """By name, the test of each other variant and of each baseline against the reference.

        The variances hold windows and seeds. Where those over seeds are not known, variants are not tested against a
        variant, and tests between variants and baselines hold for these runs only.
        """
        tests, reference, runs = {}, self.reference, self.seed_losses
        seeds, variants = SeedVariance.estimate(runs.values()), list(dict.fromkeys(self.distinct.values()))
        # without a named reference, the best variant is chosen on the test windows
        choices = len(variants) if self.reference_name is None else 1
        for entries, factor in ((variants, max(1, choices / 2)), (self.baselines, choices)):
            found = {
                entry.name: add_seed_variance(
                    diebold_mariano(entry.tested_losses, reference.tested_losses, self.overlap),
                    seeds,
                    [(runs.get(entry.name, {}), runs.get(reference.name, {}))],
                )
                for entry in entries
                if entry is not reference
            }
            tests |= step_down(found, factor)
        same = {name: tests.get(entry.name, NO_DIFFERENCE) for name, entry in self.distinct.items()}
        return {name: test for name, test in (tests | same).items() if name != reference.name}

    def get_verdict(self, entry: Entry) -> str:
        """Return the result of the test of an entry against the reference."""
        if entry is self.reference:
            return BEST if entry is self.best else "reference"
        if entry.forecasts_the_same(self.reference):
            return EQUAL
        return judge(self.differences[entry.name])

    def is_worse_than_baseline(self, entry: Entry) -> bool:
        """Return whether a variant is significantly worse than the best baseline, with the correction of its tests."""
        if entry.is_baseline:
            return False
        difference = self.with_baseline_as_reference.differences[entry.name]
        return judge(replace(difference, comparisons=len(self.seed_losses) * len(self.baselines))) == "worse"

    @property
    def is_baseline_better(self) -> bool:
        """Whether the best baseline is significantly better than the best variant."""
        return self.with_best_as_reference.get_verdict(self.best_baseline) == "better"

    def get_values(self, entry: Entry, column: Column) -> list[float]:
        """Return a score or cost of each run of an entry, NaN where it is unknown."""
        return self.skill(entry) if column.key == "skill" else entry.values(column.key)

    def find_best_mean(self, column: Column) -> float:
        """Return the best mean of a column among the variants; NaN if there is none, or if it cannot be compared."""
        means = [float(np.mean(self.get_values(entry, column))) for entry in self.variants]
        known = [mean for mean in means if not math.isnan(mean)]
        if not known or column.better == "neither" or self.count_disturbed_runs(column.key):
            return math.nan
        return min(known) if column.better == "lower" else max(known)


def judge(difference: LossDifference) -> str:
    """Return the verdict on a tested difference from the reference."""
    if not difference.degrees_of_freedom:
        return ONE_SEED if math.isnan(difference.independent) else TOO_FEW
    if difference.adjusted_p_value >= SIGNIFICANCE_LEVEL:
        return TOO_FEW if difference.degrees_of_freedom < MIN_DEGREES else NOT_SIGNIFICANT
    return "worse" if difference.mean > 0 else "better"
