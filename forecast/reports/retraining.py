"""Comparison of the policies of a backtest that trains again: errors, significance, seconds, and a figure."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from forecast.evaluation.backtest import Backtest
from forecast.evaluation.scores import MODEL, SAME_ERROR, describe_change
from forecast.evaluation.significance import SIGNIFICANCE_LEVEL, LossDifference, diebold_mariano
from forecast.reports import figures
from forecast.reports.backtest import HEADINGS, count_origins, describe_intervals, tabulate_scores
from forecast.reports.backtest_verdict import sum_errors
from forecast.reports.colours import LIGHT
from forecast.system.files import atomic_file, write_json
from forecast.system.formatting import format_column, format_duration

PolicyBacktests = Mapping[str, Backtest]
"""The backtest of each policy of `retrain`."""


def save_policies(folder: Path, policies: PolicyBacktests) -> None:
    """Write retraining.png and retraining.csv, and retraining.json last."""
    figures.save(draw_policies(policies), folder / "retraining.png")
    content = {name: summarize_policy(policies, name) for name in policies}
    table = pd.DataFrame.from_dict(content, orient="index").rename_axis("policy")
    with atomic_file(folder / "retraining.csv") as temporary:
        table.drop(columns="intervals").to_csv(temporary)
    write_json(folder / "retraining.json", {"policies": content, "findings": describe_policies(policies)})


def summarize_policy(policies: PolicyBacktests, name: str) -> dict[str, Any]:
    """Scores, seconds and the difference from the first policy, in values that JSON can hold."""
    each = policies[name]
    content = {
        **tabulate_scores(each)[MODEL],
        "trainings": len(each.trainings),
        "training_seconds": sum(each.training_seconds),
        "intervals": {method: sums.compute() for method, sums in each.intervals.items()},
    }
    if name != next(iter(policies)):
        content |= {
            "change": change_of(policies, name),
            "p_value": compare_to_first(policies, name).adjusted_p_value,
        }
    return content


def compare_to_first(policies: PolicyBacktests, name: str) -> LossDifference:
    """The Diebold-Mariano test of a policy against the first one, corrected for the number of policies."""
    first = next(iter(policies.values()))
    losses = sum_errors(policies[name], MODEL), sum_errors(first, MODEL)
    overlap = first.origins.overlap(first.truth.shape[1])
    return diebold_mariano(*losses, overlap, comparisons=len(policies) - 1)


def change_of(policies: PolicyBacktests, name: str) -> float:
    """The MSE of a policy relative to that of the first one, minus 1; NaN if that has no error."""
    mse, first = (
        tabulate_scores(each)[MODEL]["mse"] for each in (policies[name], next(iter(policies.values())))
    )
    return mse / first - 1 if first > 0 else math.nan


def describe_policies(policies: PolicyBacktests) -> list[str]:
    """Describe the difference of each policy from the first one, and what it costs, in sentences."""
    first, *others = policies
    return [describe_policy(policies, name, first) for name in others]


def describe_policy(policies: PolicyBacktests, name: str, first: str) -> str:
    change = change_of(policies, name)
    more = sum(policies[name].training_seconds) - sum(policies[first].training_seconds)
    cost = f"{format_duration(abs(more))} {'more' if more >= 0 else 'less'} training"
    if math.isnan(change):
        return f"{name}: {first} had no error; {cost}"
    if abs(change) < SAME_ERROR:
        return f"{name}: the same MSE as {first}; {cost}"
    p_value = compare_to_first(policies, name).adjusted_p_value
    test = f"p = {p_value:.2g}, {'' if p_value < SIGNIFICANCE_LEVEL else 'not '}significant"
    if math.isnan(p_value):
        test = "too few origins for a test"
    return f"{name}: {describe_change(change)} than {first} ({test}); {cost}"


def print_policies(folder: Path, policies: PolicyBacktests) -> None:
    """Print a row for each policy, its intervals, and what training again brings."""
    first = next(iter(policies.values()))
    title = f"{first.title}, {count_origins(first)}, {first.zoned_dates.min()} to {first.zoned_dates.max()}"
    table = Table(title=f"backtest: {title}")
    table.add_column("retrain")
    for heading in (*HEADINGS.values(), "trainings", "training\nseconds"):
        table.add_column(heading, justify="right")
    scores = [tabulate_scores(each)[MODEL] for each in policies.values()]
    columns = [format_column(row[score] for row in scores) for score in HEADINGS]
    for (name, each), *row in zip(policies.items(), *columns, strict=True):
        table.add_row(name, *row, str(len(each.trainings)), f"{sum(each.training_seconds):.1f}")
    console = Console(soft_wrap=True, highlight=False, markup=False)
    Console(markup=False).print(table)
    for name, each in policies.items():
        for line in describe_intervals(each):
            console.print(f"interval   {name}: {line}")
    for note in dict.fromkeys(note for each in policies.values() for note in each.notes):
        console.print(f"note       {note}")
    for sentence in describe_policies(policies):
        console.print(f"verdict    {sentence}")
    console.print(f"saved in {folder}")


def draw_policies(policies: PolicyBacktests) -> figures.Figure:
    """Draw the cumulative difference of the squared errors of each policy from the first one; below 0 is better."""
    (first, reference), *others = policies.items()
    figure, axis = figures.subplots(1, 1, figsize=(9, 3.8))
    dates = reference.panel.utc_offset.shown(reference.panel.grid)
    has_truth = np.isfinite(reference.truth).any((1, 2))
    positions = np.unique(reference.origins.positions[has_truth])
    for number, (name, each) in enumerate(others):
        difference = sum_errors(each, MODEL) - sum_errors(reference, MODEL)
        axis.plot(dates[positions], difference.cumsum(), color=LIGHT[number], label=f"{name} − {first}")
    for cut in max((each.trainings for each in policies.values()), key=len)[1:]:
        axis.axvline(dates[cut], color="#999999", linewidth=0.8, linestyle=":")
    axis.axhline(0, color="#3d4854", linewidth=0.8)
    axis.set_ylabel("cumulative difference of the MSE")
    axis.set_title(f"{reference.title}: below 0: better than {first}; dotted: trained again", fontsize=10)
    figures.style_axis(axis)
    figures.format_dates(axis, 3, 10)
    axis.legend(frameon=False)
    figure.tight_layout()
    return figure
