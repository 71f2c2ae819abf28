"""Sentences of a comparison: which variant to use at what cost, what is level with it, and how that was tested."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from forecast.evaluation.significance import LossDifference, count_cosines
from forecast.reports.compare.factors import Factor
from forecast.reports.compare.task import EQUAL, NO_DIFFERENCE, NOT_SIGNIFICANT, ONE_SEED, TOO_FEW, Task
from forecast.reports.tables import format_interval, format_number, format_percent
from forecast.runs.summary import describe_linear_only, mean_and_std
from forecast.system.formatting import plural, shorten

EQUIVALENCE_MARGIN = 0.05
"""Largest upper end of the 95% interval of the relative difference of an equivalent variant from the best one."""

MAX_NAMED = 3  # equivalent choices that an answer names

LOW_POWER = 8  # degrees of freedom below which the test detects only large differences


@dataclass(frozen=True)
class Choice:
    """A variant, or a value of a setting, that a user may choose.

    name: its name.
    verdict: the result of the test against the best one.
    difference: from the best one.
    times: of inference, in several runs; NaN: unknown, or not comparable.
    time: their average, as the table shows it.
    cost: `time` as text.
    """

    name: str
    verdict: str
    difference: LossDifference
    times: list[float]
    time: float
    cost: str

    @property
    def is_equivalent(self) -> bool:
        """Whether the error is that of the best one, or at most `EQUIVALENCE_MARGIN` higher with 95% confidence."""
        if self.verdict != NOT_SIGNIFICANT:
            return self.verdict == EQUAL
        return self.difference.relative_interval()[1] <= EQUIVALENCE_MARGIN


def describe_choices(best: Choice, others: Sequence[Choice], noun: str, lowest: str, use: str) -> str:
    """Return the answer: which choice to use, the names of those level with it, and the numbers of the others.

    The fastest of the best choice and the equivalent ones is recommended. Another choice is faster than the best one
    if all its times are lower than all times of that. If only inconclusive choices are close to the best one, or some
    could not be tested, none is recommended.

    Args:
        best: the choice with the lowest error.
        others: the others.
        noun: what a choice is called.
        lowest: verb phrase on the error of the best one.
        use: the beginning of the recommendation.
    """
    equivalent = [each for each in others if each.is_equivalent]
    counts = Counter(each.verdict for each in others if each not in equivalent)
    used, answer = best, f"{best.name} {lowest}{best.cost}"
    if counts[ONE_SEED] or counts[TOO_FEW] or (counts[NOT_SIGNIFICANT] and not equivalent):
        sentences = [f"{answer}; no {noun} is known to be the best."]
    else:
        faster = [each for each in equivalent if np.max(each.times) < np.min(best.times)]
        used = min(faster, key=lambda each: each.time, default=best)
        sentences = [f"{use} {best.name}: it {lowest}{best.cost}."]
        if used is not best:
            difference, change = used.difference, "none"
            if used.verdict != EQUAL:
                change = f"{format_percent(difference.mean / difference.base)} {format_interval(difference)}"
            fastest = f"the fastest of {len(equivalent) + 1} equivalent {noun}s{used.cost}"
            sentences = [f"{use} {used.name}, {fastest}; {answer}, difference {change}."]
    if names := [each.name for each in equivalent if each is not used]:
        sentences.append(f"Equivalent: {shorten(names, MAX_NAMED)}.")
    meanings = {
        NOT_SIGNIFICANT: f"not told apart from {best.name} (may be over {100 * EQUIVALENCE_MARGIN:.0f} % worse)",
        ONE_SEED: f"not compared with {best.name}, as one of the two has one seed: run seed=1,2,3 or more",
        TOO_FEW: f"not compared with {best.name}: too few test windows or seeds",
        "worse": "significantly worse",
    }
    counted = []
    for verdict, n in ((verdict, counts[verdict]) for verdict in meanings if counts[verdict]):
        subject = n if counted else plural(n, noun)
        counted.append(f"{subject} {'is' if n == 1 else 'are'} {meanings[verdict]}")
    return " ".join([*sentences, *([f"{'; '.join(counted)}."] if counted else [])])


def describe_task(task: Task) -> list[str]:
    """Return the result in sentences: which variant to use, the baselines, what attention is worth, and the times.

    Where every run kept only its linear model, that is the only finding. The sentences do not depend on the reference.
    """
    task = task.with_best_as_reference
    linear_only = describe_linear_only(task.all_metrics)
    if all(run.get("best_epoch") == 0 for run in task.all_metrics):
        return [linear_only]
    choices = [
        Choice(
            entry.name,
            task.get_verdict(entry),
            task.differences.get(entry.name, NO_DIFFERENCE),
            entry.times,
            fmean(entry.times),
            "" if math.isnan(fmean(entry.times)) else f" ({format_number(fmean(entry.times))} ms a window)",
        )
        for entry in task.variants
    ]
    sentences, baseline = [], describe_baseline(task)
    if len(choices) > 1:
        error = format_number(*mean_and_std(task.best.values(task.best.score)))
        lowest = f"has the lowest {task.score_label}, {error}"
        use = "Of the variants, use" if task.is_baseline_better else "Use"
        sentences = [describe_choices(choices[0], choices[1:], "variant", lowest, use)]
    sentences.insert(0 if task.is_baseline_better else len(sentences), baseline)
    return [*sentences, *filter(None, (describe_attention(task), linear_only, describe_times(task)))]


def describe_baseline(task: Task) -> str:
    """Return how the variants compare with the best baseline."""
    best = task.best_baseline
    baseline = f"the best baseline, {best.name} ({task.score_label} {format_number(best.error)})"
    if task.is_baseline_better:
        return f"Use {baseline}: it is significantly better than every variant."
    winners = sum(fmean(task.skill(entry)) > 0 for entry in task.variants)
    count = plural(len(task.variants), "variant")
    verb = "has" if winners == 1 else "have"
    verdict = task.with_baseline_as_reference.get_verdict(task.best)
    doubt = "" if verdict == "better" else f" ({task.best.name}: {verdict})"
    return f"{winners} of {count} {verb} a lower error than {baseline}{doubt}."


def describe_attention(task: Task) -> str:
    """Return the error that attention removes: that of the best variant against the control `none`.

    It is empty without exactly one variant of the control, or if differences cannot be tested.
    """
    controls = [entry for entry in task.variants if entry.runs[0].metrics["attention"] == "none"]
    others = [entry for entry in task.variants if entry not in controls]
    if len(controls) != 1 or not others:
        return ""
    (control,), best = controls, others[0]
    against = replace(task, reference_name=control.name)
    verdict = against.get_verdict(best)
    if verdict == "worse":
        return f"Attention is worth nothing here: {best.name}, the best of the others, is worse than {control.name}."
    if verdict not in ("better", NOT_SIGNIFICANT):
        return ""
    interval = format_interval(against.differences[best.name], of_decrease=True)
    worth = f"{format_percent(-against.relative_difference(best))} {interval}"
    is_not = "" if verdict == "better" else "; the difference is not significant"
    return (
        f"Attention is worth {worth} of the error here: {best.name} against {control.name}, which mixes no "
        f"tokens{is_not}."
    )


def describe_times(task: Task) -> str:
    """Return which times were measured again, and how many runs have times that cannot be compared; empty if none."""
    metrics, disturbed = task.first_run.metrics, task.count_disturbed_runs("seconds")
    beside = f"{plural(disturbed, 'run')} cannot be compared: other compared runs ran at the same time."
    if "session" in metrics:
        where = f"{metrics['device']}, {plural(metrics['threads'], 'thread')}"
        run_times = f" Run times of {beside}" if disturbed else ""
        return f"ms/window was measured again after training ({where}).{run_times}"
    return f"Times of {beside} retime=true measures ms/window again." if disturbed else ""


def describe_factor(factor: Factor) -> list[str]:
    """Return which value to use and at what cost, which are level with it, and whether the baselines are better."""
    choices = [
        Choice(
            level,
            factor.get_verdict(level),
            factor.differences.get(level, NO_DIFFERENCE),
            factor.relative_times(level),
            factor.relative_time(level),
            ""
            if level == factor.best
            else f", with {factor.relative_time(level):.2f} times the inference time of {factor.best}",
        )
        for level in factor.levels
    ]
    answer = describe_choices(choices[0], choices[1:], "value", "has the lowest error", "use")
    sentences = [f"By {factor.name}, {factor.extent}: {answer}"]
    if factor.skill(factor.best) < 0:
        sentences.append(
            "Over these comparisons, the best baselines have a lower error than every value: use a baseline."
        )
    if factor.left_out:
        sentences.append(f"Left out, because some comparisons lack them: {', '.join(factor.left_out)}.")
    return sentences


def describe_test(task: Task) -> str:
    """Return how the significance was tested, or an empty string if there is only one variant."""
    if len(task.variants) < 2:
        return ""
    degrees = count_cosines(len(task.best.tested_losses), task.overlap)
    if degrees == 0:
        return "No test: it needs test windows that span at least two horizons."
    kind = {"mse": "squared error", "mae": "absolute error", "crps": "CRPS"}[task.best.score]
    loss = "of each forecast start, summed over the series" if task.first_run.ids else "of each test window"
    seeds = (
        "Its variance holds the windows and the seeds (runs with the same seed are paired; pooled over the variants); "
        "degrees of freedom are those of Welch and Satterthwaite."
        if task.knows_seeds
        else "Each variant has one seed, so variants are not tested against each other; baselines are tested against "
        "these runs only."
    )
    horizons = plural(len(task.best.tested_losses) // task.overlap, "horizon")
    few = f" The windows span only {horizons}, so only large differences are significant."
    return (
        f"Two-sided Diebold-Mariano test on the {kind} {loss}, averaged over the seeds of a variant. {seeds} The "
        f"variance over windows, which overlap, is estimated from {plural(degrees, 'cosine term')} (Lazarus et al. "
        "2018; Coroneo and Iacone 2020). p-values and intervals are corrected for all pairs of variants, and of "
        "variants and baselines, step by step (Holm)." + few * (degrees < LOW_POWER)
    )
