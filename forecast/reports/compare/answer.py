"""The first finding of a comparison: which variant to use, at what cost, in one sentence."""

from forecast.reports.compare.number_format import format_interval, format_number, format_percent
from forecast.reports.compare.scores import EQUAL, NOT_SIGNIFICANT, get_verdict
from forecast.reports.compare.task import Entry, Task
from forecast.system.formatting import plural

LEVEL_MARGIN = 0.05
"""Largest relative MSE above the best variant's, at the upper end of the 95% interval, of a variant that is level."""


def answer(task: Task) -> str:
    """Return which variant to use, with its cost; or why the runs cannot say it.

    Among the variants that are level with the best one, the fastest is named. A variant is level if its MSE differs by
    at most `LEVEL_MARGIN` with 95% confidence. A variant without a significant difference that may still be worse by
    more is undecided. The answer is empty where variants cannot be tested.
    """
    if task.is_linear_only:
        return task.linear_only_note
    if len(task.members) < 2:
        return ""
    if len(task.variants) == 1:
        name = task.members[0].name
        return f"Use {name}: all variants make the same forecasts, and it is the fastest{cost(task.best)}."
    verdicts = {entry.name: get_verdict(task, entry) for entry in task.variants[1:]}
    if not set(verdicts.values()) <= {"worse", NOT_SIGNIFICANT}:
        return ""
    tied = [entry for entry in task.variants[1:] if verdicts[entry.name] == NOT_SIGNIFICANT]
    level = [task.best, *(entry for entry in tied if task.relative_interval(entry)[1] <= LEVEL_MARGIN)]
    undecided = [entry.name for entry in tied if entry not in level]
    beaten = beaten_by_baseline(task)
    use = "Of the variants, use" if beaten else "Use"
    parts = [beaten, f"{use} {recommend(task, level)}", describe_undecided(undecided)]
    return " ".join(part for part in parts if part)


def recommend(task: Task, level: list[Entry]) -> str:
    """Return the name of the fastest of the variants that are level with the best one, and why it is recommended."""
    fastest = min(
        level, key=lambda entry: (not entry.mean("ms_per_window") >= 0, entry.mean("ms_per_window"))
    )
    name = (fastest.equal or [fastest])[0].name
    if len(level) == 1:
        return f"{name}: it has the lowest MSE{cost(fastest)}."
    how = "lowest MSE"
    if fastest is not task.best:
        change, interval = task.relative_difference(fastest), task.relative_interval(fastest)
        how = f"level with {task.best.name} ({format_percent(change)} {format_interval(*interval)})"
    return f"{name}: {how}, the fastest of the {plural(len(level), 'variant')} that are level{cost(fastest)}."


def cost(entry: Entry) -> str:
    """Return the inference time of a variant in brackets; empty where it is unknown."""
    milliseconds = entry.mean("ms_per_window")
    return f" ({format_number(milliseconds)} ms a window)" if milliseconds >= 0 else ""


def beaten_by_baseline(task: Task) -> str:
    """Return a sentence if the best baseline is significantly better than the best variant, or equal to it."""
    verdict = get_verdict(task, task.best_baseline)
    if verdict not in ("better", EQUAL):
        return ""
    relation = "better than" if verdict == "better" else "equal to"
    return f"The best baseline, {task.best_baseline.name}, is {relation} the best variant."


def describe_undecided(names: list[str]) -> str:
    if not names:
        return ""
    listed = ", ".join(names)
    return f"Undecided: {listed} may be worse by more than {LEVEL_MARGIN:.0%}; run more seeds.".replace(
        "%", " %"
    )
