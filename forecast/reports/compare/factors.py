"""The effect of one setting, such as the attention type, averaged over all other settings and over tasks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
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
    diebold_mariano,
    rank_errors,
    share_period,
    step_down,
)
from forecast.reports.compare.task import BEST, EQUAL, Entry, Task, group_by, judge
from forecast.system.errors import ConfigError
from forecast.system.formatting import plural


@dataclass(frozen=True, eq=False)
class Group:
    """Runs of a task that differ in one setting only: a variant for each of its values."""

    task: Task
    entries: dict[str, Entry]


@dataclass(frozen=True, eq=False)
class Factor:
    """A setting, and the variants that differ in it alone.

    name: the setting, such as `attention`.
    levels: its values, in ascending order of the geometric mean of their errors.
    groups: the comparisons of these values, one for each task and each combination of the other settings.
    left_out: values that only some of the comparisons have.
    """

    name: str
    levels: list[str]
    groups: list[Group]
    left_out: list[str]

    @property
    def best(self) -> str:
        return self.levels[0]

    @property
    def tasks(self) -> list[Task]:
        return list(dict.fromkeys(group.task for group in self.groups))

    @property
    def extent(self) -> str:
        """Over how many comparisons and tasks the factor is averaged."""
        comparisons = plural(len(self.groups), "comparison")
        return f"averaged over {comparisons} that differ in it alone, in {plural(len(self.tasks), 'task')}"

    def entries(self, level: str) -> list[Entry]:
        """Return the variant with this value in each comparison."""
        return [group.entries[level] for group in self.groups]

    @cached_property
    def average_ranks(self) -> dict[str, float]:
        """By level, the mean rank over the tasks, 1 for the lowest error."""
        errors = [[entry.error for entry in self.entries(level)] for level in self.levels]
        ranks = rank_errors(np.transpose(errors), ROUND_OFF)
        of_task = np.array([self.tasks.index(group.task) for group in self.groups])
        by_task = [ranks[of_task == number].mean(0) for number in range(len(self.tasks))]
        return dict(zip(self.levels, np.mean(by_task, axis=0).tolist(), strict=True))

    def skill(self, level: str) -> float:
        """Return 1 − geometric mean over the comparisons of error / error of the best baseline."""
        ratios = [group.entries[level].error / group.task.best_baseline.error for group in self.groups]
        return 1 - float(np.exp(np.mean(np.log(ratios))))

    def relative_times(self, level: str) -> list[float]:
        """Return the inference time per window in each comparison, relative to the best level's; NaN: unknown."""
        times = zip(self.entries(level), self.entries(self.best), strict=True)
        return [float(np.mean(one.times) / np.mean(best.times)) for one, best in times]

    def relative_time(self, level: str) -> float:
        """Return the geometric mean of `relative_times`; NaN if one is."""
        return float(np.exp(np.mean(np.log(self.relative_times(level)))))

    @cached_property
    def seed_errors(self) -> dict[str, list[dict[int, float]]]:
        """By level, the error of each seed relative to the mean of its variant, averaged over the comparisons.

        Training with one seed has nearly the same luck in comparisons that differ in a length or a width, so the mean
        over them does not average it out. If the variants of a level have different seeds, those of each comparison.
        """
        by_level = {level: list(map(relative_to_mean, self.entries(level))) for level in self.levels}
        if any(one.keys() != errors[0].keys() for errors in by_level.values() for one in errors):
            return by_level
        return {
            level: [{seed: fmean(one[seed] for one in errors) for seed in errors[0]}]
            for level, errors in by_level.items()
        }

    @cached_property
    def differences(self) -> dict[str, LossDifference]:
        """By level, the test of its error against that of the best level, relative to the latter.

        The relative loss differences of the comparisons of a task, which share the windows, are averaged window by
        window. Those of tasks on the same dates are averaged date by date, and then those of the other tasks are
        averaged. Every comparison has the same weight. The variance holds windows and seeds, as in `Task.differences`.
        """
        seeds = SeedVariance.estimate(chain(*self.seed_errors.values()))
        return step_down(
            {level: self.compare(level, seeds) for level in self.levels[1:]}, len(self.levels) / 2
        )

    def compare(self, level: str, seeds: SeedVariance) -> LossDifference:
        """Return the test of one level against the best one, not yet corrected; see `differences`."""
        tested, weights = [], []
        for tasks in group_by(self.tasks, lambda one, other: share_period(one.dates, other.dates)):
            sizes = [sum(group.task is task for group in self.groups) for task in tasks]
            series = [self.relative_losses(level, task) for task in tasks]
            found = average_by_date(series, [size / sum(sizes) for size in sizes])
            tested.append(diebold_mariano(found.losses, np.zeros(len(found.losses)), found.overlap))
            weights.append(sum(sizes) / len(self.groups))
        difference = average_differences(tested, weights)
        pairs = zip(self.seed_errors[level], self.seed_errors[self.best], strict=True)
        return add_seed_variance(difference, seeds, pairs, is_relative=True)

    def relative_losses(self, level: str, task: Task) -> DatedLosses:
        """Return the loss differences from the best level, relative to its error, averaged in a task."""
        pairs = [(each.entries[level], each.entries[self.best]) for each in self.groups if each.task is task]
        losses = np.mean([(a.tested_losses - b.tested_losses) / b.error for a, b in pairs], axis=0)
        return DatedLosses(losses, task.dates, task.overlap)

    def get_verdict(self, level: str) -> str:
        """Return the result of the test of a level against the best one."""
        if level == self.best:
            return BEST
        pairs = zip(self.entries(level), self.entries(self.best), strict=True)
        if all(one.forecasts_the_same(best) for one, best in pairs):
            return EQUAL
        return judge(self.differences[level])


def relative_to_mean(entry: Entry) -> dict[int, float]:
    """The errors of the seeds of a variant relative to their mean."""
    return {seed: error / entry.error for seed, error in entry.by_seed.items()}


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
    all_groups = [group for task in tasks for group in split_task(task, name)]
    groups = [first for first, *_ in group_by(all_groups, make_the_same_forecasts)]
    if required and not groups:
        settings = dict.fromkeys(key for task in tasks for key in task.settings[task.best.name])
        raise ConfigError(
            f"by={name}: no variants differ in this setting alone; they differ in {', '.join(settings)}"
        )
    levels = list(dict.fromkeys(level for group in groups for level in group.entries))
    shared = [level for level in levels if all(level in group.entries for group in groups)]
    groups = [Group(group.task, {level: group.entries[level] for level in shared}) for group in groups]
    groups = [group for group in groups if all(entry.error > 0 for entry in group.entries.values())]
    if len(groups) < 2 or len(shared) < 2:
        if required:
            raise ConfigError(
                f"by={name}: an average needs two comparisons with two values in common; of the values "
                f"{', '.join(levels)}, {plural(len(groups), 'comparison')} "
                f"{'has' if len(groups) == 1 else 'have'} {', '.join(shared) or 'none'} in common"
            )
        return None
    order = sorted(shared, key=lambda level: sum(math.log(group.entries[level].error) for group in groups))
    return Factor(name, order, groups, [level for level in levels if level not in shared])


def make_the_same_forecasts(one: Group, other: Group) -> bool:
    """Return whether two comparisons of a task have the same forecasts for each value."""
    if one.task is not other.task or one.entries.keys() != other.entries.keys():
        return False
    return all(entry.forecasts_the_same(other.entries[level]) for level, entry in one.entries.items())


def split_task(task: Task, name: str) -> list[Group]:
    """Return the groups of a task's variants that differ in one setting alone, with at least two variants each."""
    groups: dict[tuple[tuple[str, str], ...], dict[str, Entry]] = {}
    for entry in task.variants:
        settings = dict(task.settings[entry.name])
        if name in settings:
            level = settings.pop(name)
            groups.setdefault(tuple(settings.items()), {})[level] = entry
    return [Group(task, entries) for entries in groups.values() if len(entries) > 1]
