"""Scores in the terminal."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float64
from rich.console import Console
from rich.table import Table

from forecast.data import DataModule
from forecast.evaluation.measurement import Results
from forecast.evaluation.scores import LABELS, MODEL, SAME_ERROR, SCORES, explain_misses
from forecast.evaluation.significance import SIGNIFICANCE_LEVEL, diebold_mariano, sum_losses_by_date
from forecast.reports.compare.number_format import format_interval
from forecast.reports.series import tabulate_windows
from forecast.system.formatting import format_column

HEADINGS = {name: score.heading("{}\n{}") for name, score in SCORES.items() if name != "crps"}
"""Headings of the scores in the table; the CRPS is in the line of the intervals."""

MAX_SHORTFALL = 0.1
"""Variables whose coverage is lower than the level by more than this are named."""


def which_windows(data: DataModule, split: str) -> str:
    """The number of scored windows of a split, as text."""
    count, stride = f"{data.n_windows[split]:,} windows", data.eval_stride
    return f"{count}, stride 1" if stride == 1 or split == "train" else f"{count}, one in {stride}"


def describe_skill(skill: float, baseline: str) -> str:
    """Explain a skill relative to `baseline`, the best one. The skill is NaN if that baseline makes no error."""
    if math.isnan(skill):
        return f"no skill can be given: {baseline}, the best baseline, makes no error here; use {baseline}"
    percent = f"{100 * abs(skill):.1f}%"
    if abs(skill) < SAME_ERROR:
        return f"skill 0.000: equal to {baseline}, the best baseline"
    if skill > 0:
        return f"skill {skill:.3f}: {percent} less squared error than {baseline}, the best baseline"
    return f"skill {skill:.3f}: WORSE than {baseline} by {percent} in squared error; use {baseline}"


def note_on_absolute_error(skill: float, scores: Mapping[str, Mapping[str, float]]) -> str:
    """Name the baseline with the lowest MAE if the model is better in squared error alone, else an empty string."""
    best = min(scores, key=lambda name: scores[name]["mae"])
    excess = scores[MODEL]["mae"] / scores[best]["mae"] - 1 if scores[best]["mae"] else 0.0
    if skill <= 0 or f"{100 * excess:.1f}" == "0.0":
        return ""
    return f"by absolute error (MAE), {LABELS[best]} is better than the model by {100 * excess:.1f}%"


def describe_significance(results: Results, data: DataModule) -> str:
    """The interval of the difference in squared error from the best baseline; empty if they are equal.

    The Diebold-Mariano test, corrected for the number of baselines, holds for this run: other seeds may differ by more.
    """
    baseline, windows = results.best_baseline, data.windows[data.tested_split]
    table = tabulate_windows(data, results)
    model, other = (
        sum_losses_by_date(table[f"{name}_mse"].to_numpy(), table["forecast_start"].to_numpy())
        for name in (MODEL, baseline)
    )
    difference = diebold_mariano(model, other, windows.overlap, comparisons=len(results.baselines))
    if not difference.base or abs(results.skill) < SAME_ERROR:
        return ""
    is_tested = bool(difference.degrees_of_freedom)
    doubt = ": not significant" if is_tested and difference.adjusted_p_value >= SIGNIFICANCE_LEVEL else ""
    return (
        "95% interval of the difference, for this run, in percent of that squared error: "
        f"{format_interval(difference)}{doubt}"
    )


def print_scores(title: str, attention: str, results: Results, data: DataModule) -> None:
    """Print the table of scores, the skill with its test, and the scores of the intervals."""
    table = Table(title=title)
    table.add_column("attention,\nor baseline")
    for heading in HEADINGS.values():
        table.add_column(heading, justify="right")
    columns = [format_column(scores[s] for scores in results.scores.values()) for s in HEADINGS]
    for name, *row in zip(results.scores, *columns, strict=True):
        table.add_row(LABELS.get(name, attention), *row, style="bold" if name == MODEL else None)
    Console(markup=False).print(table)
    console = Console(markup=False, soft_wrap=True)
    console.print(describe_skill(results.skill, LABELS[results.best_baseline]))
    for note in (
        describe_significance(results, data),
        note_on_absolute_error(results.skill, results.scores),
    ):
        if note:
            console.print(note)
    for method, scores in results.intervals.items():
        levels = "; ".join(
            f"{level}% {describe_interval(score)}"
            for level, score in scores.items()
            if isinstance(score, dict)
        )
        crps = "" if math.isnan(scores["crps"]) else f"; CRPS {scores['crps']:.3f} scaled"
        console.print(f"intervals, {method}: {levels or 'none'}{crps}")
    for line in explain_misses(results.intervals).values():
        console.print(line)


def describe_interval(score: Mapping[str, float]) -> str:
    """The coverage and the mean width of an interval, from `IntervalSums.compute`."""
    if math.isnan(score["coverage"]):
        return "was not scored: no true value is known"
    width = f"{score['width']:.3f} scaled, {score['width_raw']:.4g} in original units"
    return f"covers {100 * score['coverage']:.1f}%, width {width}"


def describe_least_covered(
    columns: Sequence[str], coverage: Mapping[str, Float64[np.ndarray, " n_targets"]]
) -> str:
    """Name the variable that an interval covers least; an empty string if all are within `MAX_SHORTFALL`.

    Args:
        columns: the variables.
        coverage: from `intervals.tabulate_coverage_by_variable`.

    Returns:
        A line about the interval that misses its level by most.
    """
    found, greatest = "", MAX_SHORTFALL
    if len(columns) == 1:
        return found
    for name, fractions in coverage.items():
        method, level = name.split("_coverage_")
        shortfall = np.nan_to_num(float(level) / 100 - fractions)  # 0 without true values
        least = int(shortfall.argmax())
        if shortfall[least] > greatest:
            found, greatest = (
                f"{method} {level}% interval covers {fractions[least]:.1%} of {columns[least]}; "
                "errors_by_variable.csv has all variables",
                shortfall[least],
            )
    return found
