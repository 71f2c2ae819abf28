"""The first finding of a comparison: which variant to use, at what cost, in one sentence."""

import math
from collections.abc import Callable
from statistics import fmean

from forecast.reports.compare.entry import Entry
from forecast.reports.compare.number_format import format_number, join_names
from forecast.reports.compare.scores import EQUAL, NOT_SIGNIFICANT, format_test, get_verdict
from forecast.reports.compare.task import Task
from forecast.system.formatting import plural

EQUIVALENCE_MARGIN = 0.05
"""Largest upper end of the 95% interval of the relative difference of an equivalent variant from the best one."""


def answer(task: Task) -> str:
    """Return which variant to use, with its cost; or why the runs cannot say it.

    Among the best variant and those that are equivalent to it, the fastest is named. A variant is equivalent to the
    best one if the upper end of the 95% interval of its relative difference is at most `EQUIVALENCE_MARGIN`. A variant
    whose difference is not significant and that is not equivalent is inconclusive; if only such variants are close to
    the best one, none is recommended. The answer is empty where variants cannot be tested. It does not depend on the
    reference of the task.
    """
    task = task.with_best_as_reference
    if task.is_linear_only:
        return task.linear_only_note
    if len(task.unmerged_variants) < 2:
        return ""
    verdicts = {entry.name: get_verdict(task, entry) for entry in task.variants[1:]}
    if not set(verdicts.values()) <= {"worse", NOT_SIGNIFICANT}:
        return ""
    tied = [entry for entry in task.variants[1:] if verdicts[entry.name] == NOT_SIGNIFICANT]
    equivalent = [entry for entry in tied if task.relative_interval(entry)[1] <= EQUIVALENCE_MARGIN]
    inconclusive = [entry.name for entry in tied if entry not in equivalent]
    baseline = describe_unbeaten_baseline(task)
    if inconclusive and not equivalent:
        name = task.best.shown.name
        advice = f"{name} {describe_lowest(task)}{cost(task.best)}; no variant is known to be the best."
    else:
        use = "Of the variants, use" if baseline else "Use"
        advice = f"{use} {recommend(task, equivalent)}"
    return " ".join(part for part in (baseline, advice, describe_inconclusive(inconclusive)) if part)


def recommend(task: Task, equivalent: list[Entry]) -> str:
    """Return the name of the fastest of the best variant and its equivalent ones, and why it is recommended."""
    best = task.best
    if len(task.variants) == 1:
        fastest = f", and it is the fastest{cost(best)}" if all(map(cost, best.equal)) else ""
        return f"{best.shown.name}: all variants make the same forecasts{fastest}."
    entries = {entry.shown.name: entry for entry in (best, *equivalent)}
    return recommend_fastest(
        {name: entry.milliseconds_of_runs for name, entry in entries.items()},
        noun="variant",
        lowest=describe_lowest(task),
        describe_cost=lambda name: cost(entries[name]),
        difference=lambda name: " ".join(format_test(task, entries[name])[:2]),
    )


def recommend_fastest(
    costs: dict[str, list[float]],
    *,
    noun: str,
    lowest: str,
    describe_cost: Callable[[str], str],
    difference: Callable[[str], str],
) -> str:
    """Return the name of the fastest of some equivalent choices, and why it is recommended.

    A choice is faster than the one with the lowest error if all its costs are lower than all costs of that.

    Args:
        costs: costs of each choice in several runs, by name, the one with the lowest error first; NaN: unknown.
        noun: what a choice is called.
        lowest: verb phrase on the error of the first one.
        describe_cost: the cost of a choice, to append to its name.
        difference: relative difference of a choice from the first one, with its interval.
    """
    best, *others = costs
    if not others:
        return f"{best}: it {lowest}{describe_cost(best)}."
    if any(math.isnan(cost) for runs in costs.values() for cost in runs):
        return f"{best}: it {lowest}. Equivalent, with times that cannot be compared: {join_names(others)}."
    equivalent = plural(len(costs), f"equivalent {noun}")
    if max(costs[best]) < min(min(costs[name]) for name in others):
        return f"{best}: it {lowest}, and is the fastest of the {equivalent}{describe_cost(best)}."
    faster = [name for name in others if max(costs[name]) < min(costs[best])]
    if not faster:
        return f"{best}: it {lowest}{describe_cost(best)}. Equivalent, and not measurably faster: {join_names(others)}."
    fastest = min(faster, key=lambda name: fmean(costs[name]))
    rest = [min(costs[name]) for name in costs if name != fastest]
    is_fastest = max(costs[fastest]) < min(rest)
    why = f"{'the fastest' if is_fastest else f'faster than {best}, one'} of the {equivalent}{describe_cost(fastest)}"
    return f"{fastest}: it is {why}. {best} {lowest}; the difference is {difference(fastest)}."


def describe_lowest(task: Task) -> str:
    """Return the verb phrase with the error of the best variant."""
    return f"has the lowest {task.score_label}, {format_number(*task.best.mean_and_std(task.best.score))}"


def cost(entry: Entry) -> str:
    """Return the inference time of a variant in brackets; empty where it is unknown."""
    return f" ({format_number(entry.milliseconds)} ms a window)" if entry.milliseconds >= 0 else ""


def is_baseline_better(task: Task) -> bool:
    """Return whether the best baseline is significantly better than the best variant."""
    return get_verdict(task.with_best_as_reference, task.best_baseline) == "better"


def describe_unbeaten_baseline(task: Task) -> str:
    """Return a sentence if the best baseline has a lower error than the best variant, or is equal to it."""
    best = task.best_baseline
    baseline = f"The best baseline, {best.name} ({task.score_label} {format_number(best.error)}),"
    if is_baseline_better(task):
        return f"{baseline} is better than every variant: use the baseline."
    verdict = get_verdict(task.with_best_as_reference, best)
    if verdict == EQUAL:
        return f"{baseline} is equal to the best variant."
    if task.beats_best_baseline(task.best) or task.equals_best_baseline(task.best):
        return ""
    return f"{baseline} has a lower error than every variant ({verdict})."


def describe_inconclusive(names: list[str]) -> str:
    """Return a sentence on the variants that may be worse than the best one by more than the margin; empty if none."""
    if not names:
        return ""
    return (
        f"Inconclusive: {join_names(names)} may be worse by more than {100 * EQUIVALENCE_MARGIN:.0f} %. More seeds or "
        "more test windows narrow the interval."
    )
