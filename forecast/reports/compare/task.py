"""A forecasting task: the variants and baselines that forecast the same test windows, their scores, costs and tests."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from forecast.evaluation.scores import SAME_ERROR, SCORES
from forecast.evaluation.significance import (
    ROUND_OFF,
    SIGNIFICANCE_LEVEL,
    LossDifference,
    SeedVariance,
    compare_to_reference,
    count_pairs,
    sum_losses_by_date,
)
from forecast.reports.compare.number_format import MISSING, format_interval, format_p_value, format_percent
from forecast.reports.compare.run_folders import FinishedRun
from forecast.runs.summary import describe_linear_only, mean_and_std


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


@dataclass(frozen=True, eq=False)
class Task:
    """Runs that forecast the same test windows of the same scaled values.

    title: data, horizon and features.
    variants, baselines: in ascending order of their error. Variants that make the same forecasts are one variant.
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
        named = [entry for entry in self.entries if entry.name == self.reference_name]
        return named[0] if named else self.best

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

    @property
    def unmerged_variants(self) -> list[Entry]:
        """The variants, with those that make the same forecasts one by one."""
        return [member for entry in self.variants for member in entry.equal or [entry]]

    @property
    def first_run(self) -> FinishedRun:
        return self.best.runs[0]

    @property
    def setting_names(self) -> list[str]:
        """The settings in which the variants differ, by short name."""
        return list(self.settings[self.unmerged_variants[0].name])

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

    def count_disturbed_runs(self, cost: str) -> int:
        """Return the number of runs whose cost was measured while another compared run ran."""
        return sum(cost in run.disturbed for entry in self.unmerged_variants for run in entry.runs)

    def skill(self, entry: Entry) -> list[float]:
        """Return 1 − error / the best baseline's error of each run: 0 up to `SAME_ERROR`, NaN if the latter is 0."""
        least = self.best_baseline.error
        skills = [1 - error / least if least > 0 else math.nan for error in entry.values(entry.score)]
        return [0.0 if abs(skill) < SAME_ERROR else skill for skill in skills]

    def equals_best_baseline(self, entry: Entry) -> bool:
        """Return whether the error equals the best baseline's up to `SAME_ERROR`: the model is that baseline."""
        return math.isclose(entry.error, self.best_baseline.error, rel_tol=SAME_ERROR)

    def beats_best_baseline(self, entry: Entry) -> bool:
        """Return whether the error is lower than the best baseline's by more than `SAME_ERROR`."""
        return entry.error < self.best_baseline.error and not self.equals_best_baseline(entry)

    @property
    def knows_seeds(self) -> bool:
        """Whether a variant has several seeds, which show how much its loss changes if it is trained again."""
        return any(len(entry.runs) > 1 for entry in self.variants)

    def is_tested(self, entry: Entry) -> bool:
        """Whether an entry is tested against the reference: a variant against a variant only with known variances."""
        if entry.is_baseline or self.reference.is_baseline:
            return True
        return self.seeds.is_known(self.seed_losses[entry.name], self.seed_losses[self.reference.name])

    @cached_property
    def seed_losses(self) -> dict[str, list[float]]:
        """By variant, the mean loss of each run."""
        return {entry.name: entry.values(entry.score) for entry in self.variants}

    @cached_property
    def seeds(self) -> SeedVariance:
        """The variance of the mean loss over seeds."""
        return SeedVariance.pool(self.seed_losses.values())

    def equals_reference(self, entry: Entry) -> bool:
        """Return whether the losses of all windows equal those of the reference up to round-off."""
        return entry.forecasts_the_same(self.reference)

    def relative_difference(self, entry: Entry) -> float:
        """Return the error minus the reference's, relative to the latter; NaN where the reference has no error."""
        least = self.reference.error
        return entry.error / least - 1 if least > 0 else math.nan

    def relative_interval(self, entry: Entry) -> tuple[float, float]:
        """Return the 95% interval of the relative difference; NaN where it is unknown."""
        return self.differences[entry.name].relative_interval()

    @property
    def comparisons(self) -> tuple[int, int]:
        """The tests among variants, and of variants and baselines, that p-values are corrected for."""
        variants, baselines = len(self.variants), len(self.baselines)
        if self.reference_name is None:  # the best variant is chosen on the test windows: all pairs count
            return count_pairs(variants), variants * baselines
        named = int(self.reference.is_baseline)
        return max(1, variants - 1 + named), max(1, baselines - named)

    @cached_property
    def differences(self) -> dict[str, LossDifference]:
        """By name, the test of each other variant and of each baseline against the reference.

        The variances hold windows and seeds. Where those over seeds are not known, see `is_tested`, variants are not
        tested against a variant, and tests between variants and baselines hold for these runs only.
        """
        tests, reference = {}, self.reference
        for entries, count in zip((self.variants, self.baselines), self.comparisons, strict=True):
            losses = {entry.name: entry.tested_losses for entry in [reference, *entries]}
            tests |= compare_to_reference(
                reference.name, losses, self.overlap, self.seed_losses, comparisons=count
            )
        for entry in self.variants:
            if entry.name in tests and not self.is_tested(entry):
                tests[entry.name] = LossDifference(tests[entry.name].mean, math.nan, 0.0)
        return tests


MIN_DEGREES = 3  # degrees of freedom; with fewer, a test without a significant result says nothing
NOT_SIGNIFICANT, TOO_FEW = "no significant difference", "too few windows or seeds"
ONE_SEED, EQUAL, BEST = "one seed: unknown", "equal", "best"


@dataclass(frozen=True)
class Column:
    """A score or cost: its key in the metrics of a run, its heading, its explanation, and which values are better."""

    key: str
    heading: str
    meaning: str = ""
    better: Literal["lower", "higher", "neither"] = "neither"


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


def get_values(task: Task, entry: Entry, column: Column) -> list[float]:
    """Return a score or cost of each run of an entry, NaN where it is unknown."""
    return task.skill(entry) if column.key == "skill" else entry.values(column.key)


def is_comparable(task: Task, cost: str) -> bool:
    """Return whether a cost may be compared: it is no time of runs that ran at once."""
    return not task.count_disturbed_runs(cost)


def find_best_mean(task: Task, column: Column) -> float:
    """Return the best mean of a column among the variants; NaN if there is none, or if a cost cannot be compared."""
    if not is_comparable(task, column.key):
        return math.nan
    means = [mean_and_std(get_values(task, entry, column))[0] for entry in task.unmerged_variants]
    known = [mean for mean in means if not math.isnan(mean)]
    if not known or column.better == "neither":
        return math.nan
    return min(known) if column.better == "lower" else max(known)


def get_verdict(task: Task, entry: Entry) -> str:
    """Return the result of the test of an entry against the reference."""
    if entry is task.reference:
        return BEST if entry is task.best else "reference"
    difference = task.differences[entry.name]
    if task.equals_reference(entry):
        return EQUAL
    if not task.is_tested(entry):
        return ONE_SEED
    return judge(difference)


def judge(difference: LossDifference) -> str:
    """Return the verdict on a tested difference from the reference."""
    if not difference.degrees_of_freedom:
        return TOO_FEW
    if difference.adjusted_p_value >= SIGNIFICANCE_LEVEL:
        return TOO_FEW if difference.degrees_of_freedom < MIN_DEGREES else NOT_SIGNIFICANT
    return "worse" if difference.mean > 0 else "better"


def format_test(task: Task, entry: Entry) -> tuple[str, str, str]:
    """Return the relative difference from the reference, its interval and the adjusted p-value, as text."""
    if entry is task.reference:
        return MISSING, MISSING, MISSING
    return (
        format_percent(task.relative_difference(entry)),
        format_interval(task.differences[entry.name]),
        format_p_value(task.differences[entry.name].adjusted_p_value),
    )


def is_not_significant(task: Task, entry: Entry) -> bool:
    """Return whether the difference of an entry from the reference is not significant, or was not tested."""
    return get_verdict(task, entry) in (NOT_SIGNIFICANT, TOO_FEW, ONE_SEED, EQUAL)


def is_worse_than_baseline(task: Task, entry: Entry) -> bool:
    """Return whether a variant is significantly worse than the best baseline, as the tests of the baselines count."""
    if entry.is_baseline:
        return False
    difference = task.with_baseline_as_reference.differences[entry.name]
    return judge(replace(difference, comparisons=len(task.variants) * len(task.baselines))) == "worse"
