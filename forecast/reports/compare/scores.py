"""Scores, costs and test results of the variants and baselines of a task."""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

from forecast.evaluation.scores import SCORES, explain_misses
from forecast.evaluation.significance import SIGNIFICANCE_LEVEL, LossDifference
from forecast.reports.compare.entry import Entry
from forecast.reports.compare.number_format import MISSING, format_interval, format_p_value, format_percent
from forecast.reports.compare.task import Task
from forecast.runs.summary import mean_and_std

MIN_DEGREES = 3  # degrees of freedom; with fewer, a test without a significant result says nothing
NOT_SIGNIFICANT, TOO_FEW = "no significant difference", "too few windows or seeds"
ONE_SEED, EQUAL, BEST = "one seed: unknown", "equal", "best"


@dataclass(frozen=True)
class Column:
    """A score or cost: its key in the metrics of a run, its heading, its explanation, and which values are better."""

    key: str
    heading: str
    meaning: str
    better: Literal["lower", "higher", "neither"] = "lower"


SKILL = Column(
    "skill", "skill", "1 − error / error of the best baseline; negative: worse than that baseline", "higher"
)
SCORE_COLUMNS = [
    Column(name, score.label if score.unit == "scaled" else score.heading("{} ({})"), score.meaning)
    for name, score in SCORES.items()
]
SCORE_COLUMNS.insert(2, SKILL)
COSTS = (
    Column("ms_per_window", "ms/window", "inference time per test window in milliseconds, model only"),
    Column(
        "peak_memory_mb",
        "peak memory (MiB)",
        "peak memory of the GPU in the run, training included",
    ),
    Column("n_parameters", "parameters", "number of trainable parameters"),
    Column("seconds", "run time (s)", "time of the whole run in seconds"),
    Column("windows_per_second", "training windows/s", "training windows per second", "higher"),
    Column("epochs", "epochs", "number of epochs trained", "neither"),
)


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


def is_best_of_column(task: Task, entry: Entry, mean: float, best: float) -> bool:
    """Return whether an entry is the best of several variants in a column."""
    return not entry.is_baseline and mean == best and len(task.variants) > 1


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


def name_reference(task: Task) -> str:
    """Return the heading of the differences from the reference, such as `vs best`."""
    return f"vs {'best' if task.reference is task.best else task.reference.name}"


def is_not_significant(task: Task, entry: Entry) -> bool:
    """Return whether the difference of an entry from the reference is not significant, or was not tested."""
    return get_verdict(task, entry) in (NOT_SIGNIFICANT, TOO_FEW, ONE_SEED, EQUAL)


def is_worse_than_baseline(task: Task, entry: Entry) -> bool:
    """Return whether a variant is significantly worse than the best baseline, as the tests of the baselines count."""
    if entry.is_baseline:
        return False
    difference = task.with_baseline_as_reference.differences[entry.name]
    return judge(replace(difference, comparisons=len(task.variants) * len(task.baselines))) == "worse"


def collect_interval_scores(task: Task) -> dict[str, dict[str, dict[str, tuple[float, float]]]]:
    """Return mean and standard deviation of the interval scores, by variant, method and score."""
    found: dict[str, dict[str, dict[str, tuple[float, float]]]] = {}
    for entry in task.variants:
        known = [run.metrics.get("intervals") or {} for run in entry.runs]
        for method in dict.fromkeys(name for intervals in known for name in intervals):
            flat = [flatten_levels(intervals[method]) for intervals in known if method in intervals]
            found.setdefault(entry.name, {})[method] = {
                name: mean_and_std([scores.get(name) for scores in flat]) for name in flat[0]
            }
    return found


def explain_misses_of(entry: Entry, method: str) -> str:
    """Return why intervals of a variant miss a level, of its first run that misses one; empty if none does."""
    runs = (explain_misses(run.metrics.get("intervals") or {}).get(method, "") for run in entry.runs)
    return next(filter(None, runs), "")


def flatten_levels(scores: dict[str, Any]) -> dict[str, float | None]:
    """Return `{"80": {"coverage": c}, "crps": s}` as `{"coverage_80": c, "crps": s}`."""
    flat = {}
    for name, value in scores.items():
        flat |= {f"{k}_{name}": v for k, v in value.items()} if isinstance(value, dict) else {name: value}
    return flat
