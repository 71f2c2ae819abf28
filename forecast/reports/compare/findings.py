"""Sentences of a comparison: which variant to use at what cost, the result, and how its significance was tested."""

import math
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean

from forecast.evaluation.significance import count_cosines
from forecast.reports.compare.number_format import (
    format_interval,
    format_number,
    format_p_value,
    format_percent,
    join_names,
)
from forecast.reports.compare.task import (
    EQUAL,
    NOT_SIGNIFICANT,
    ONE_SEED,
    TOO_FEW,
    Entry,
    Task,
    format_test,
    get_verdict,
)
from forecast.system.formatting import plural, shorten

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


LOW_POWER = 8  # degrees of freedom below which the test detects only large differences


def describe_results(task: Task) -> list[str]:
    """Return the result in sentences: the answer, the best variant, the test of the others, and the best baseline.

    The answer names the best variant, and a baseline that it does not beat. Where every run kept only its linear model,
    that is the only finding. The sentences do not depend on the reference of the task.
    """
    task = task.with_best_as_reference
    if task.is_linear_only:
        return [task.linear_only_note]
    first = answer(task)
    sentences = [first] if first else []
    sentences += [
        f"{' and '.join(member.name for member in entry.equal)} make the same forecasts and are shown as one."
        for entry in task.variants
        if entry.equal
    ]
    sentences += describe_attention(task) + describe_softmax(task)
    if len(task.variants) > 1:
        sentences += [] if first else [describe_best(task)]
        sentences += describe_other_variants(task)
    if not (first and describe_unbeaten_baseline(task)):
        sentences.append(describe_baseline(task))
    if task.beats_best_baseline(task.best) and get_verdict(task, task.best_baseline) != "worse":
        sentences.append(f"The difference of {task.best.name} from that baseline is not significant.")
    return sentences + [note for note in (task.linear_only_note, describe_times(task)) if note]


def describe_attention(task: Task) -> list[str]:
    """Return a sentence on the error that attention removes: that of the best variant against the control `none`.

    There is none without exactly one variant of the control, or if differences cannot be tested.
    """
    controls = [entry for entry in task.variants if entry.runs[0].metrics["attention"] == "none"]
    others = [entry for entry in task.variants if entry not in controls]
    if len(controls) != 1 or controls[0].equal or not others:
        return []
    (control,), best = controls, others[0]
    against = replace(task, reference_name=control.name)
    verdict = get_verdict(against, best)
    if verdict == "worse":
        return [
            f"Attention is worth nothing here: {best.name}, the best other variant, is worse than {control.name}."
        ]
    if verdict not in ("better", NOT_SIGNIFICANT):
        return []
    interval = format_interval(against.differences[best.name], of_decrease=True)
    worth = f"{format_percent(-against.relative_difference(best))} {interval}"
    is_not = "" if verdict == "better" else "; the difference is not significant"
    return [
        f"Attention is worth {worth} of the error here: {best.name} against {control.name}, which mixes no "
        f"tokens{is_not}."
    ]


def describe_softmax(task: Task) -> list[str]:
    """Return a sentence on each variant of another type that computes exact softmax attention at its lengths."""
    sentences = []
    for entry in task.unmerged_variants:
        slots = entry.runs[0].metrics.get("attention_slots") or {}
        reasons = {name: slot["equals_softmax"] for name, slot in slots.items() if slot.get("equals_softmax")}
        if reasons and all(slot.get("type") == "Full" or name in reasons for name, slot in slots.items()):
            why = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
            sentences.append(
                f"{entry.name} computes softmax attention at these lengths, as full does ({why}): a difference from "
                "full comes from training alone."
            )
    return sentences


def describe_times(task: Task) -> str:
    """Return which times were measured again, and how many runs have times that cannot be compared; empty if none."""
    metrics, disturbed = task.first_run.metrics, task.count_disturbed_runs("seconds")
    beside = (
        f"{plural(disturbed, 'run')} cannot be compared: other runs of this comparison ran at the same time."
    )
    if "session" in metrics:
        where = f"{metrics['device']}, {plural(metrics['threads'], 'thread')}"
        run_times = f" Run times of {beside}" if disturbed else ""
        return f"ms/window and training windows/s were measured again after training ({where}).{run_times}"
    return f"Times of {beside} retime=true measures them again." if disturbed else ""


def describe_best(task: Task) -> str:
    """Return which variant has the lowest error."""
    error = format_number(*task.best.mean_and_std(task.best.score))
    return f"{task.best.name} has the lowest {task.score_label}: {error}."


def describe_other_variants(task: Task) -> list[str]:
    """Return which variants differ from the best one significantly."""
    verdicts = {entry.name: get_verdict(task, entry) for entry in task.variants[1:]}
    sentences = []
    tied = [name for name, verdict in verdicts.items() if verdict == NOT_SIGNIFICANT]
    untested = [name for name, verdict in verdicts.items() if verdict == TOO_FEW]
    n_worse = sum(verdict == "worse" for verdict in verdicts.values())
    if tied:
        lowest = min(task.differences[name].adjusted_p_value for name in tied)
        sentences.append(
            f"No significant difference from the best variant: {shorten(tied, 4)} "
            f"(lowest adjusted p: {format_p_value(lowest)})."
        )
    if unknown := [name for name, verdict in verdicts.items() if verdict == ONE_SEED]:
        are_worse = (
            f"One seed of one of the two: not compared with the best variant: {shorten(unknown, 4)}"
            if task.knows_seeds
            else "One seed of each variant: whether the others are worse is unknown"
        )
        sentences.append(
            f"{are_worse}, because training again with another seed changes the scores, often by more than variants "
            "differ. Run seed=1,2,3 or more."
        )
    if untested:
        sentences.append(
            f"Too few test windows or seeds to compare with the best variant: {shorten(untested, 4)}."
        )
    if n_worse:
        verb = "is" if n_worse == 1 else "are"
        sentences.append(f"{plural(n_worse, 'variant')} {verb} significantly worse than the best variant.")
    return sentences


def describe_baseline(task: Task) -> str:
    """Return how many variants have a lower error than the best baseline."""
    error = f"{task.score_label} {format_number(task.best_baseline.error)}"
    baseline = f"the best baseline, {task.best_baseline.name} ({error})"
    n_variants = len(task.variants)
    winners = sum(task.beats_best_baseline(entry) for entry in task.variants)
    equal = sum(task.equals_best_baseline(entry) for entry in task.variants)
    subject = "Every variant" if n_variants > 1 else task.best.name
    if winners == n_variants:
        return f"{subject} has a lower error than {baseline}."
    if equal == n_variants:
        return f"{subject} equals {baseline}."
    if winners + equal == 0:
        return f"{subject} is worse than {baseline}: use the baseline."
    also = f", and {equal} {'equals' if equal == 1 else 'equal'} it" if equal else ""
    verb = "has" if winners == 1 else "have"
    return f"{winners} of {plural(n_variants, 'variant')} {verb} a lower error than {baseline}{also}."


def describe_seed_variance(task: Task) -> str:
    """Return how the test counts that training again changes the scores."""
    if not task.knows_seeds:
        return (
            "Each variant has one seed, so variants are not tested against each other; baselines are tested against "
            "these runs only."
        )
    return (
        "Its variance holds both the windows and the seeds: the variance of the error over seeds, pooled over the "
        "variants, divided by the number of seeds of each of the two. Degrees of freedom are those of Welch and "
        "Satterthwaite."
    )


def describe_test(task: Task) -> str:
    """Return how the significance was tested, or an empty string if there is only one variant."""
    if len(task.variants) < 2:
        return ""
    degrees = count_cosines(len(task.best.tested_losses), task.overlap)
    if degrees == 0:
        return "No test: it needs test windows that span at least two horizons."
    horizons = plural(len(task.best.tested_losses) // task.overlap, "horizon")
    loss = "of each forecast start, summed over the series" if task.first_run.ids else "of each test window"
    kind = {"mse": "squared error", "mae": "absolute error", "crps": "CRPS"}[task.best.score]
    extent = f" all but one of their {task.pred_len} steps" if task.overlap == task.pred_len else " steps"
    chosen = task.reference_name is None
    sentences = [
        f"The test windows span only {horizons}, so only large differences are significant."
        if degrees < LOW_POWER
        else "",
        f"Two-sided Diebold-Mariano test on the {kind} {loss}, averaged over the seeds of a variant.",
        describe_seed_variance(task),
        f"Neighbouring windows share{extent}, so their errors are correlated." if task.overlap > 1 else "",
        f"The variance over windows is estimated from {plural(degrees, 'cosine term')} "
        f"(Lazarus et al. 2018; Coroneo and Iacone 2020); the statistic is compared with Student's t.",
        f"p-values and intervals are corrected for the number of tests (Bonferroni): {task.comparisons[0]} of "
        f"variants, {task.comparisons[1]} of variants and baselines."
        + (
            " They count all pairs, because the best variant is chosen on the same windows." if chosen else ""
        ),
    ]
    return " ".join(sentence for sentence in sentences if sentence)
