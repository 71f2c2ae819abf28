"""Tasks, whose runs forecast the same test windows, and their variants, whose runs differ only in the seed.

A task has the scores, costs and tests of its variants and baselines.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeVar

import numpy as np

from forecast.evaluation import significance
from forecast.evaluation.scores import BASELINES, LINEAR_ALONE, SAME_ERROR, name_tested
from forecast.reports.compare.run_folders import FinishedRun, mark_overlapping_runs
from forecast.reports.tables import MISSING, Column
from forecast.system.errors import ConfigError
from forecast.system.formatting import shorten
from forecast.system.keys import FILE_SOURCES

Item = TypeVar("Item")

MIN_DEGREES = 3  # degrees of freedom; with fewer, a test without a significant result says nothing
NOT_SIGNIFICANT, TOO_FEW = "no significant difference", "too few windows or seeds"
ONE_SEED, EQUAL, LOWEST = "one seed: unknown", "equal", "lowest"
ATTENTION = "model.attention.name"
RESERVED = {"seeds", "mse", "mae", "skill", "seconds", "windows_per_second", "peak_memory_mb"}
"""Columns of tables that no setting may be named like."""
NO_DIFFERENCE = significance.LossDifference(0.0, math.nan, 0.0)


def group_by(items: Iterable[Item], is_same: Callable[[Item, Item], bool]) -> list[list[Item]]:
    """Return groups of items, each of which is the same as the first one of its group."""
    groups: list[list[Item]] = []
    for item in items:
        if group := next((group for group in groups if is_same(group[0], item)), None):
            group.append(item)
        else:
            groups.append([item])
    return groups


def mean_and_std(values: Iterable[float | None]) -> tuple[float, float]:
    """Return mean and sample standard deviation, NaN where undefined. None, which is NaN in JSON, counts as NaN."""
    numbers = np.array([np.nan if value is None else value for value in values], dtype=float)
    return float(numbers.mean()), float(numbers.std(ddof=1)) if len(numbers) > 1 else np.nan


@dataclass(frozen=True, eq=False)
class Entry:
    """A row of the comparison: a variant or a baseline."""

    name: str  # unique in the task
    runs: Sequence[FinishedRun]  # which differ only in the seed; of a baseline, one that measured it
    column: str = "model"  # prefix of its columns in the tables of the runs
    score: str = "mse"  # the error that ranks and tests it, `mse`, `mae` or `crps`

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
        return mean_and_std(self.values(score))[0]

    @property
    def times(self) -> list[float]:
        """Milliseconds of inference per window in each run; NaN if unknown, or if another compared run ran then."""
        times = zip(self.runs, self.values("ms_per_window"), strict=True)
        return [math.nan if "ms_per_window" in run.disturbed else time for run, time in times]

    @property
    def by_seed(self) -> dict[int, float]:
        return dict(zip((run.metrics["seed"] for run in self.runs), self.values(self.score), strict=True))

    @property
    def error(self) -> float:
        return self.mean(self.score)

    @cached_property
    def losses(self) -> np.ndarray:
        """`score` of each test window, averaged over the seeds (n_windows,)."""
        return self.average_over_seeds("windows")

    def average_over_seeds(self, table: Literal["windows", "steps", "variables"]) -> np.ndarray:
        column = f"{self.column}_{self.score}"
        return np.mean([getattr(run, table)[column].to_numpy(float) for run in self.runs], axis=0)

    def forecasts_the_same(self, other: "Entry") -> bool:
        """Return whether the error and the losses of all windows are equal up to round-off."""
        if not math.isclose(self.error, other.error, rel_tol=significance.ROUND_OFF):
            return False
        return bool(np.allclose(self.losses, other.losses, rtol=significance.ROUND_OFF, atol=0))

    @cached_property
    def tested_losses(self) -> np.ndarray:
        """Losses that the test uses: sums of `losses` by forecast start, in chronological order (n_dates,)."""
        return significance.sum_losses(self.losses, self.runs[0].windows["forecast_start"].to_numpy())


@dataclass(frozen=True, eq=False)
class Task:
    """Runs that forecast the same test windows of the same scaled values."""

    title: str  # data, horizon and features
    variants: list[Entry]  # in ascending order of their error, as the baselines
    baselines: list[Entry]
    settings: dict[str, dict[str, str]]  # by variant, those in which the variants differ, by short name
    shared: dict[str, str]  # settings that all runs have in common
    reference_name: str | None = None  # what the others are compared with; None: the best variant

    @property
    def best(self) -> Entry:
        return self.variants[0]

    @property
    def best_baseline(self) -> Entry:
        """The baseline with the lowest error."""
        return self.baselines[0]

    @cached_property
    def reference(self) -> Entry:
        return next((entry for entry in self.entries if entry.name == self.reference_name), self.best)

    @property
    def score_label(self) -> str:
        """Name of the error that ranks and tests the entries: MSE, MAE or CRPS."""
        return self.best.score.upper()

    @cached_property
    def with_best_as_reference(self) -> "Task":
        return self if self.reference is self.best else replace(self, reference_name=None)

    @cached_property
    def with_baseline_as_reference(self) -> "Task":
        return replace(self, reference_name=self.best_baseline.name)

    @property
    def entries(self) -> list[Entry]:
        """Variants and baselines in ascending order of their error."""
        return sorted([*self.variants, *self.baselines], key=lambda entry: entry.error)

    @cached_property
    def distinct(self) -> dict[str, Entry]:
        """By variant, the one that stands for all variants with the same forecasts in the tests."""
        in_order = sorted(self.variants, key=lambda entry: entry is not self.reference)
        groups = group_by(in_order, Entry.forecasts_the_same)
        return {entry.name: group[0] for group in groups for entry in group}

    @property
    def first_run(self) -> FinishedRun:
        return self.best.runs[0]

    @property
    def pred_len(self) -> int:
        return int(self.first_run.metrics["pred_len"])

    @property
    def runs(self) -> list[FinishedRun]:
        return [run for entry in self.variants for run in entry.runs]

    def count_disturbed_runs(self, cost: str) -> int:
        """Return the number of runs whose cost was measured while another compared run ran."""
        return sum(cost in run.disturbed for run in self.runs)

    def is_compared(self, cost: str) -> bool:
        """Whether a cost tells the variants apart: undisturbed in each run, and not made equal by `match`."""
        is_matched = cost == "n_parameters" and self.shared.get("match") == "parameters"
        return not is_matched and not self.count_disturbed_runs(cost)

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
        return {entry.name: entry.by_seed for entry in self.distinct.values()}

    def relative_difference(self, entry: Entry) -> float:
        """Return the error minus the reference's, relative to the latter; NaN where the reference has no error."""
        least = self.reference.error
        return entry.error / least - 1 if least > 0 else math.nan

    @cached_property
    def differences(self) -> dict[str, significance.LossDifference]:
        """By name, the test of each other variant and of each baseline against the reference.

        The variances hold windows and seeds. Where those over seeds are not known, variants are not tested against a
        variant, and tests between variants and baselines hold for these runs only.
        """
        tests, reference, runs, overlap = {}, self.reference, self.seed_losses, self.first_run.overlap
        seeds, variants = significance.SeedVariance.estimate(runs.values()), list(dict.fromkeys(self.distinct.values()))
        own = runs.get(reference.name, {})
        # without a named reference, the best variant is chosen on the test windows
        choices = len(variants) if self.reference_name is None else 1
        for entries, factor in ((variants, max(1, choices / 2)), (self.baselines, choices)):
            found = {}
            for entry in entries:
                if entry is not reference:
                    of_windows = significance.diebold_mariano(entry.tested_losses, reference.tested_losses, overlap)
                    found[entry.name] = significance.add_seed_variance(of_windows, seeds, runs.get(entry.name, {}), own)
            tests |= significance.step_down(found, factor)
        same = {name: tests.get(entry.name, NO_DIFFERENCE) for name, entry in self.distinct.items()}
        return {name: test for name, test in (tests | same).items() if name != reference.name}

    def get_verdict(self, entry: Entry) -> str:
        if entry is self.reference:
            return LOWEST if entry is self.best else "reference"
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
        return self.with_best_as_reference.get_verdict(self.best_baseline) == "better"

    def get_values(self, entry: Entry, column: Column) -> list[float]:
        """Return a score or cost of each run of an entry, NaN where it is unknown."""
        return self.skill(entry) if column.key == "skill" else entry.values(column.key)

    def find_best_mean(self, column: Column) -> float:
        """Return the best mean of a column among the variants; NaN if there is none, or if it cannot be compared."""
        if column.better == "neither" or not self.is_compared(column.key):
            return math.nan
        best = np.fmin if column.better == "lower" else np.fmax  # of the numbers that are not NaN
        return float(best.reduce([np.mean(self.get_values(entry, column)) for entry in self.variants]))


def judge(difference: significance.LossDifference) -> str:
    """Return the verdict on a tested difference from the reference."""
    if not difference.degrees_of_freedom:
        return ONE_SEED if math.isnan(difference.independent) else TOO_FEW
    if difference.adjusted_p_value >= significance.SIGNIFICANCE_LEVEL:
        return TOO_FEW if difference.degrees_of_freedom < MIN_DEGREES else NOT_SIGNIFICANT
    return "worse" if difference.mean > 0 else "better"


# ---- grouping of runs into tasks and variants


def group_into_tasks(runs: Iterable[FinishedRun], score: str = "mse", reference: str | None = None) -> list[Task]:
    """Return the tasks, sorted by data, then horizon. Titles of tasks on the same data are made unique.

    Args:
        score: the error that ranks and tests variants and baselines, `mse`, `mae` or `crps`.
        reference: name of the variant or baseline that the others are compared with; None: the best variant.

    Raises ConfigError: a task has no variant or baseline of the name `reference`.
    """
    groups = group_by(mark_overlapping_runs(runs), is_same_task)
    titles = [make_title(group[0]) for group in groups]
    for name in {name for name in titles if titles.count(name) > 1}:
        same = [i for i, other in enumerate(titles) if other == name]
        differences = find_differences([format_settings(groups[i][0]) for i in same], prefix="data.")
        for number, (i, values) in enumerate(zip(same, differences, strict=True), start=1):
            titles[i] += ", " + (", ".join(f"{k}={v}" for k, v in values.items()) or f"data {number}")
    made = [make_task(title, group, score) for title, group in zip(titles, groups, strict=True)]
    if reference is not None:
        made = [replace(task, reference_name=find_reference(task, reference)) for task in made]
    return sorted(made, key=lambda task: (task.title.split(",")[0], task.pred_len, task.title))


def is_same_task(one: FinishedRun, other: FinishedRun) -> bool:
    """Return whether two runs forecast the same test windows of the same scaled values.

    Dates and columns are compared exactly. Values and scale are the same if the naive forecast has the same error in
    every window.
    """
    a, b = one.windows, other.windows
    return (
        all(one.metrics[key] == other.metrics[key] for key in ("data", "features", "pred_len"))
        and len(a) == len(b)
        and one.ids == other.ids
        and bool((a["forecast_start"].to_numpy() == b["forecast_start"].to_numpy()).all())
        and list(one.variables["variable"]) == list(other.variables["variable"])
        and np.allclose(a["naive_mse"], b["naive_mse"], rtol=1e-3, atol=1e-9)
    )


def make_title(run: FinishedRun) -> str:
    metrics = run.metrics
    data = run.source if metrics["data"] in FILE_SOURCES else metrics["data"]
    return f"{data}, {metrics['pred_len']} steps ahead, features={metrics['features']}"


def find_reference(task: Task, name: str) -> str:
    """Return the name of the entry that is called so, with or without the note that only its linear model was kept."""
    names = [entry.name for entry in (*task.variants, *task.baselines)]
    for found in names:
        if name in (found, found.removesuffix(LINEAR_ALONE)):
            return found
    raise ConfigError(f"reference={name}: {task.title} has no variant or baseline of this name, but {shorten(names)}")


def make_task(title: str, runs: list[FinishedRun], score: str) -> Task:
    texts = {run: format_settings(run) for run in runs}
    if len({run.source for run in runs}) > 1:  # files with the same test rows and other training rows
        texts = {run: {**text, "data.path": run.source} for run, text in texts.items()}
    groups: dict[str, list[FinishedRun]] = {}
    for run in runs:
        groups.setdefault(repr(sorted(texts[run].items())), []).append(run)
    by_seed = [sorted(group, key=lambda run: run.metrics["seed"]) for group in groups.values()]
    configurations = [texts[group[0]] for group in by_seed]
    differences, baselines = find_differences(configurations), make_baselines(runs, score)
    names = name_variants(differences, configurations, taken=[baseline.name for baseline in baselines])
    names = [
        name_tested(name, untrained=all(run.metrics.get("best_epoch") == 0 for run in group))
        for name, group in zip(names, by_seed, strict=True)
    ]
    variants = [Entry(name, group, score=score) for name, group in zip(names, by_seed, strict=True)]
    first = texts[runs[0]].items()
    return Task(
        title,
        sorted(variants, key=lambda entry: entry.error),
        baselines,
        dict(zip(names, differences, strict=True)),
        {key: value for key, value in first if all(text.get(key) == value for text in texts.values())},
    )


def make_baselines(runs: list[FinishedRun], score: str) -> list[Entry]:
    """Return each baseline once, or once for each setting that it was fitted to, such as `seq_len`."""
    found: dict[str, Entry] = {}
    for column, facts in BASELINES.items():
        name, setting = facts.label, facts.depends_on
        entries = (Entry(name, [run], column, score=score) for run in runs)
        # sums over batches differ by round-off
        fits = group_by(
            entries, lambda one, other: math.isclose(one.error, other.error, rel_tol=significance.ROUND_OFF)
        )
        for first, *_ in fits:
            run = first.runs[0]
            value = {**run.settings, **run.metrics}.get(setting) if setting else None
            suffix = f" ({setting}={value})" if setting and len(fits) > 1 else ""
            found.setdefault(f"{name}{suffix}", replace(first, name=f"{name}{suffix}"))
    return sorted(found.values(), key=lambda entry: entry.error)


def format_settings(run: FinishedRun) -> dict[str, str]:
    """Return every setting of a run as text, without the seed. A class is given by its name."""
    found = {}
    for key, value in run.settings.items():
        if key != "seed":
            text = value if isinstance(value, str) else json.dumps(value)
            found[key] = text.rsplit(".", 1)[-1] if key.endswith("._target_") else text
    return found


def find_differences(settings: list[dict[str, str]], prefix: str = "") -> list[dict[str, str]]:
    """Return the settings in which configurations differ, by short name, one dictionary per configuration.

    Two kinds of settings are omitted: copies of another setting, such as `model.seq_len` of `seq_len`, and settings
    that follow from one that is already listed, such as AdamW's weight decay where every run with AdamW has the same.
    Only keys that start with `prefix` are compared.
    """
    keys = dict.fromkeys(key for one in settings for key in one if key.startswith(prefix))
    ordered = sorted(keys, key=lambda key: (key != ATTENTION, key.count("."), not key.endswith("._target_")))
    chosen: dict[str, tuple[str, ...]] = {}
    for key in ordered:
        values = tuple(one.get(key, MISSING) for one in settings)
        if len(set(values)) == 1 or values in chosen.values():
            continue
        # choices of the class or name of the group that contains the key
        choices = [
            column
            for other, column in chosen.items()
            if other.endswith(("._target_", ".name")) and key.startswith(other.rpartition(".")[0] + ".")
        ]
        same_name = [column for other, column in chosen.items() if other == key.rsplit(".", 1)[-1]]
        causes = list(zip(*choices, *same_name, strict=True))
        if choices and len({*zip(causes, values, strict=True)}) == len({*causes}):
            continue
        chosen[key] = values
    labels: dict[str, str] = {}
    for key in chosen:
        label = "attention" if key == ATTENTION else key.removesuffix("._target_")
        labels[key] = key if label in labels.values() else label
    last = {key: label.rsplit(".", 1)[-1] for key, label in labels.items()}
    counts = Counter(last.values())
    short = {key: labels[key] if counts[name] > 1 or name in RESERVED else name for key, name in last.items()}
    return [{short[key]: values[i] for key, values in chosen.items()} for i in range(len(settings))]


def name_variants(
    differences: list[dict[str, str]], settings: list[dict[str, str]], taken: Sequence[str] = ()
) -> list[str]:
    """Return a name such as `probsparse, d_model=32` for each configuration, unlike all others and `taken`.

    A name is the attention type, if the types differ, and the values that most variants do not share. Shortened values
    are tried first, then full values, then missing ones too. If no names are unique, they are numbered.
    """
    counts = (Counter(values[key] for values in differences).most_common(1)[0] for key in differences[0])
    majority = [value if 2 * count > len(differences) else None for value, count in counts]
    names: list[str] = []
    for omitted, write in ((MISSING, shorten_number), (MISSING, str), (None, str)):
        names = []
        for values, configuration in zip(differences, settings, strict=True):
            parts = [values.get("attention", "")]
            for (key, value), common in zip(values.items(), majority, strict=True):
                if key != "attention" and value not in (common, omitted):
                    parts.append(f"{key}={write(value)}")
            names.append(", ".join(filter(None, parts)) or configuration.get(ATTENTION, MISSING))
        if len({*names, *taken}) == len(names) + len(taken):
            return names
    return [f"{number}. {name}" for number, name in enumerate(names, start=1)]


def shorten_number(value: str) -> str:
    """Shorten a number of many digits, such as one drawn by Optuna, to four digits."""
    try:
        return value if len(value) < 8 else f"{float(value):.4g}"
    except ValueError:
        return value
