"""The effect of one setting, such as the attention type, averaged over all other settings and over tasks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

import numpy as np

from forecast.evaluation.significance import (
    ROUND_OFF,
    DatedLosses,
    LossDifference,
    SeedVariance,
    add_seed_variance,
    average_by_date,
    average_differences,
    bootstrap_skill,
    count_pairs,
    critical_difference,
    diebold_mariano,
    is_deterministic,
    rank_errors,
    share_period,
)
from forecast.reports.compare.findings import EQUIVALENCE_MARGIN, describe_inconclusive, recommend_fastest
from forecast.reports.compare.grouping import group_by
from forecast.reports.compare.number_format import format_interval, format_percent
from forecast.reports.compare.task import BEST, EQUAL, NOT_SIGNIFICANT, ONE_SEED, Entry, Task, judge
from forecast.system.errors import ConfigError
from forecast.system.formatting import plural

MIN_TASKS_OF_RANKS = 3
"""Tasks from which on the average ranks are tested."""


@dataclass(frozen=True, eq=False)
class Cell:
    """Runs of a task that differ in one setting only: a variant for each of its values."""

    task: Task
    entries: dict[str, Entry]


@dataclass(frozen=True, eq=False)
class Factor:
    """A setting, and the variants that differ in it alone.

    name: the setting, such as `attention`.
    levels: its values, in ascending order of the geometric mean of their errors.
    cells: the comparisons of these values, one for each task and each combination of the other settings.
    left_out: values that only some of the comparisons have.
    """

    name: str
    levels: list[str]
    cells: list[Cell]
    left_out: list[str]

    @property
    def best(self) -> str:
        return self.levels[0]

    @property
    def tasks(self) -> list[Task]:
        return list(dict.fromkeys(cell.task for cell in self.cells))

    @cached_property
    def errors(self) -> np.ndarray:
        """Mean error over the seeds (n_cells, n_levels)."""
        return np.array([[cell.entries[level].error for level in self.levels] for cell in self.cells])

    @cached_property
    def ranks(self) -> np.ndarray:
        """Rank of each level in each cell (n_cells, n_levels)."""
        return rank_errors(self.errors, ROUND_OFF)

    @cached_property
    def ranks_by_task(self) -> np.ndarray:
        """Mean rank of each level in the cells of each task (n_tasks, n_levels)."""
        of_task = np.array([self.tasks.index(cell.task) for cell in self.cells])
        return np.stack([self.ranks[of_task == number].mean(0) for number in range(len(self.tasks))])

    def win_rate(self, level: str) -> float:
        """Return the share of the comparisons with another level that this one wins; equal errors count as half."""
        count = len(self.levels)
        return float((count - self.ranks[:, self.levels.index(level)].mean()) / (count - 1))

    def average_rank(self, level: str) -> float:
        """Return the mean rank over the tasks, 1 for the lowest error."""
        return float(self.ranks_by_task[:, self.levels.index(level)].mean())

    @property
    def critical_difference(self) -> float:
        """The significant difference of two average ranks; NaN where there are too few tasks."""
        if len(self.tasks) < MIN_TASKS_OF_RANKS:
            return math.nan
        return critical_difference(len(self.levels), len(self.tasks))

    def skill(self, level: str) -> tuple[float, float, float]:
        """Return the skill against the best baseline over the cells, and its 95% interval over seeds."""
        errors = [np.array(list(by_seed(cell.entries[level]).values())) for cell in self.cells]
        baselines = np.array([cell.task.best_baseline.error for cell in self.cells])
        return bootstrap_skill(errors, baselines, same_seeds=bool(self.seed_means))

    def relative_cost(self, level: str) -> float:
        """Return the geometric mean of `relative_costs`; NaN if one is."""
        return float(np.exp(np.mean(np.log(self.relative_costs(level)))))

    def relative_costs(self, level: str) -> list[float]:
        """Return the inference time per window in each cell, relative to the best level's; NaN: unknown."""
        times = [[cell.entries[name].milliseconds for name in (level, self.best)] for cell in self.cells]
        return [one / best for one, best in times]

    @cached_property
    def seed_means(self) -> dict[str, list[float]]:
        """By level, the error of each seed relative to the mean of its variant, averaged over the cells.

        It is empty if the cells of a level have different seeds. Training with one seed has nearly the same luck in
        cells that differ in a length or a width, so the mean over the cells does not average it out.
        """
        errors = {level: [by_seed(cell.entries[level]) for cell in self.cells] for level in self.levels}
        if any(one.keys() != cells[0].keys() for cells in errors.values() for one in cells):
            return {}
        relative = {level: [relative_to_mean(one) for one in cells] for level, cells in errors.items()}
        return {level: np.mean(cells, axis=0).tolist() for level, cells in relative.items()}

    @cached_property
    def seeds(self) -> SeedVariance:
        """The variance over seeds of an error that is relative to the mean of its variant."""
        entries = [entry for cell in self.cells for entry in cell.entries.values()]
        return SeedVariance.pool(
            self.seed_means.values() or [relative_to_mean(by_seed(entry)) for entry in entries]
        )

    def seed_share(self, level: str) -> float:
        """The share of the variance over seeds that the error of a level has; 0 if the seed changes nothing.

        If cells have different seeds, they count as equal seeds, which makes the share too large at worst.
        """
        cells = [by_seed(cell.entries[level]) for cell in self.cells]
        runs = [self.seed_means[level]] if self.seed_means else [list(one.values()) for one in cells]
        return fmean(0.0 if is_deterministic(errors) else 1 / len(errors) for errors in runs)

    def is_tested(self, level: str) -> bool:
        """Whether the variance over seeds of a level and of the best one is known."""
        both = (cell.entries[name] for cell in self.cells for name in (level, self.best))
        return self.seeds.is_known(*(entry.values(entry.score) for entry in both))

    @cached_property
    def differences(self) -> dict[str, LossDifference]:
        """By level, the test of its error against that of the best level, relative to the latter.

        The relative loss differences of the cells of a task, which share the windows, are averaged window by window.
        Those of tasks on the same dates are averaged date by date, and then those of the other tasks are averaged.
        Every cell has the same weight. The variance holds windows and seeds, as in `Task.differences`.
        """
        return {level: self.compare(level) for level in self.levels[1:]}

    def compare(self, level: str) -> LossDifference:
        """Return the test of one level against the best one; see `differences`."""
        tested, weights = [], []
        for tasks in group_by(self.tasks, lambda one, other: share_period(one.dates, other.dates)):
            sizes = [sum(cell.task is task for cell in self.cells) for task in tasks]
            series = [self.relative_losses(level, task) for task in tasks]
            found = average_by_date(series, [size / sum(sizes) for size in sizes])
            tested.append(diebold_mariano(found.losses, np.zeros(len(found.losses)), found.overlap))
            weights.append(sum(sizes) / len(self.cells))
        difference = average_differences(tested, weights, count_pairs(len(self.levels)))
        if not self.is_tested(level):
            return LossDifference(difference.mean, math.nan, 0.0)
        return add_seed_variance(difference, self.seeds, self.seed_share(level) + self.seed_share(self.best))

    def relative_losses(self, level: str, task: Task) -> DatedLosses:
        """Return the loss differences from the best level, relative to its error, averaged over the cells of a task."""
        pairs = [(c.entries[level], c.entries[self.best]) for c in self.cells if c.task is task]
        losses = np.mean([(a.tested_losses - b.tested_losses) / b.error for a, b in pairs], axis=0)
        return DatedLosses(losses, task.dates, task.overlap)

    def verdict(self, level: str) -> str:
        """Return the result of the test of a level against the best one."""
        if level == self.best:
            return BEST
        if all(cell.entries[level].forecasts_the_same(cell.entries[self.best]) for cell in self.cells):
            return EQUAL
        return judge(self.differences[level]) if self.is_tested(level) else ONE_SEED


def by_seed(entry: Entry) -> dict[int, float]:
    """The error of each run of a variant by its seed, in ascending order."""
    return dict(zip((run.metrics["seed"] for run in entry.runs), entry.values(entry.score), strict=True))


def relative_to_mean(errors: dict[int, float]) -> list[float]:
    """The errors of several seeds relative to their mean."""
    values = np.array(list(errors.values()))
    return (values / values.mean()).tolist()


def find_factor(tasks: Sequence[Task], name: str, *, required: bool = False) -> Factor | None:
    """Return the factor of this name; None if fewer than two comparisons differ in it alone and share two values.

    Values that are missing in some of the comparisons are left out. Comparisons of a task that make the same forecasts,
    because their other settings have no effect, count once.

    Args:
        tasks: the tasks.
        name: the setting, as in the names of the variants.
        required: raise where there is no such factor.

    Raises:
        ConfigError: there is no such factor.
    """
    all_cells = [cell for task in tasks for cell in split_task(task, name)]
    cells = [first for first, *_ in group_by(all_cells, make_the_same_forecasts)]
    if required and not cells:
        settings = dict.fromkeys(key for task in tasks for key in task.setting_names)
        raise ConfigError(
            f"by={name}: no variants differ in this setting alone; they differ in {', '.join(settings)}"
        )
    levels = list(dict.fromkeys(level for cell in cells for level in cell.entries))
    shared = [level for level in levels if all(level in cell.entries for cell in cells)]
    cells = [Cell(cell.task, {level: cell.entries[level] for level in shared}) for cell in cells]
    cells = [cell for cell in cells if all(entry.error > 0 for entry in cell.entries.values())]
    if required and (len(cells) < 2 or len(shared) < 2):
        raise ConfigError(
            f"by={name}: an average needs two comparisons with two values in common; of the values "
            f"{', '.join(levels)}, {plural(len(cells), 'comparison')} "
            f"{'has' if len(cells) == 1 else 'have'} {', '.join(shared) or 'none'} in common"
        )
    if len(cells) < 2 or len(shared) < 2:
        return None
    order = sorted(shared, key=lambda level: sum(math.log(cell.entries[level].error) for cell in cells))
    return Factor(name, order, cells, [level for level in levels if level not in shared])


def make_the_same_forecasts(one: Cell, other: Cell) -> bool:
    """Return whether two cells of a task have the same forecasts for each value."""
    if one.task is not other.task or one.entries.keys() != other.entries.keys():
        return False
    return all(entry.forecasts_the_same(other.entries[level]) for level, entry in one.entries.items())


def split_task(task: Task, name: str) -> list[Cell]:
    """Return the groups of a task's variants that differ in one setting alone, with at least two variants each."""
    groups: dict[tuple[tuple[str, str], ...], dict[str, Entry]] = {}
    for entry in task.unmerged_variants:
        settings = dict(task.settings[entry.name])
        if name in settings:
            level = settings.pop(name)
            groups.setdefault(tuple(settings.items()), {})[level] = entry
    return [Cell(task, entries) for entries in groups.values() if len(entries) > 1]


def describe_extent(factor: Factor) -> str:
    """Return over how many comparisons and tasks the factor is averaged."""
    comparisons = plural(len(factor.cells), "comparison")
    return f"averaged over {comparisons} that differ in it alone, in {plural(len(factor.tasks), 'task')}"


def describe_factor(factor: Factor) -> list[str]:
    """Return which value to use and at what cost; which are inconclusive; and whether the baselines are better."""
    verdicts = {level: factor.verdict(level) for level in factor.levels[1:]}
    tied = [level for level, verdict in verdicts.items() if verdict in (NOT_SIGNIFICANT, EQUAL)]
    equivalent = [
        level
        for level in tied
        if verdicts[level] == EQUAL or factor.differences[level].relative_interval()[1] <= EQUIVALENCE_MARGIN
    ]
    others = [level for level in tied if level not in equivalent]
    advice = recommend_level(factor, verdicts, equivalent)
    if others and not equivalent:
        advice = f"{factor.best} has the lowest error; no value is known to be the best."
    sentences = [f"By {factor.name}, {describe_extent(factor)}: {advice}"]
    if others:
        sentences.append(describe_inconclusive(others))
    if factor.skill(factor.best)[0] < 0:
        sentences.append(
            "Over these comparisons, the best baselines have a lower error than every value: use a baseline."
        )
    if factor.left_out:
        sentences.append(f"Left out, because some comparisons lack them: {', '.join(factor.left_out)}.")
    return sentences


def recommend_level(factor: Factor, verdicts: dict[str, str], equivalent: list[str]) -> str:
    """Return the fastest of the best level and its equivalent ones, and why it is recommended."""
    best = factor.best
    unknown = dict.fromkeys(
        verdict for verdict in verdicts.values() if verdict not in ("worse", NOT_SIGNIFICANT, EQUAL)
    )
    if unknown:
        return f"{best} has the lowest error ({', '.join(unknown)})."
    if set(verdicts.values()) == {EQUAL}:
        return "all values make the same forecasts."
    costs = {level: factor.relative_costs(level) for level in (best, *equivalent)}

    def describe_cost(level: str) -> str:
        return (
            ""
            if level == best
            else f", with {factor.relative_cost(level):.2f} times the inference time of {best}"
        )

    def difference(level: str) -> str:
        change = factor.differences[level]
        return f"{format_percent(change.mean)} {format_interval(change)}"

    advice = recommend_fastest(
        costs,
        noun="value",
        lowest="has the lowest error",
        describe_cost=describe_cost,
        difference=difference,
    )
    return f"use {advice}"
