"""Grouping of runs into tasks, whose runs can be compared, and variants, whose runs differ only in the seed."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from forecast.evaluation.scores import BASELINES, LINEAR_ALONE, name_tested
from forecast.reports.compare.entry import Entry
from forecast.reports.compare.number_format import shorten_list
from forecast.reports.compare.run_folders import FinishedRun
from forecast.reports.compare.run_times import mark_overlapping_runs, use_new_times
from forecast.reports.compare.task import Task
from forecast.reports.compare.variant_names import find_differences, format_settings, name_variants
from forecast.runs.summary import TASK_FACTS
from forecast.system.errors import ConfigError
from forecast.system.keys import FILE_SOURCES

Item = TypeVar("Item")

ROUND_OFF = 1e-4
"""Relative difference of the errors of one baseline in two runs."""


def group_into_tasks(
    runs: Iterable[FinishedRun], score: str = "mse", reference: str | None = None
) -> list[Task]:
    """Return the tasks, sorted by data, then horizon. Titles of tasks on the same data are made unique.

    Args:
        runs: the finished runs.
        score: the error that ranks and tests variants and baselines, `mse`, `mae` or `crps`.
        reference: name of the variant or baseline that the others are compared with; None: the best variant.

    Raises:
        ConfigError: a task has no variant or baseline of the name `reference`.
    """
    groups = [use_new_times(group) for group in group_by(mark_overlapping_runs(runs), is_same_task)]
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


def group_by(items: Iterable[Item], is_same: Callable[[Item, Item], bool]) -> list[list[Item]]:
    """Return groups of items, each of which is the same as the first one of its group."""
    groups: list[list[Item]] = []
    for item in items:
        for group in groups:
            if is_same(group[0], item):
                group.append(item)
                break
        else:
            groups.append([item])
    return groups


def is_same_task(one: FinishedRun, other: FinishedRun) -> bool:
    """Return whether two runs forecast the same test windows of the same scaled values.

    Dates and columns are compared exactly. Values and scale are the same if the naive forecast has the same error in
    every window.
    """
    a, b = one.windows, other.windows
    return (
        all(one.metrics[key] == other.metrics[key] for key in TASK_FACTS)
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
    """Return the name of the entry that is called so; of variants that make the same forecasts, the name of their row.

    Raises:
        ConfigError: there is none.
    """
    for entry in task.entries:
        names = [entry.name, *(member.name for member in entry.equal)]
        if name in (*names, *(each.removesuffix(LINEAR_ALONE) for each in names)):
            return entry.name
    names = [entry.name for entry in (*task.variants, *task.baselines)]
    similar = sorted(names, key=lambda other: name not in other)  # those that contain the name come first
    raise ConfigError(
        f"reference={name}: {task.title} has no variant or baseline of this name, but {shorten_list(similar, most=8)}"
    )


def make_task(title: str, runs: list[FinishedRun], score: str) -> Task:
    """Group the runs of a task into variants, and name them."""
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
        sorted(merge_equal(variants), key=lambda entry: entry.error),
        baselines,
        dict(zip(names, differences, strict=True)),
        {key: value for key, value in first if all(text.get(key) == value for text in texts.values())},
    )


def merge_equal(variants: list[Entry]) -> list[Entry]:
    """Return the variants, with those that make the same forecasts as one, such as `full = probsparse`.

    Their names are in alphabetical order. The runs of the fastest one stand for all of them; where times cannot be
    compared, those of the first one.
    """
    merged = []
    for group in group_by(variants, Entry.forecasts_the_same):
        members = sorted(group, key=lambda entry: entry.name)
        times = [entry.milliseconds for entry in members]
        shown = members[0 if any(map(math.isnan, times)) else times.index(min(times))]
        bare = [entry.name.removesuffix(LINEAR_ALONE) for entry in members]
        is_alone = all(entry.name.endswith(LINEAR_ALONE) for entry in members)
        name = " = ".join(bare) + LINEAR_ALONE if is_alone else " = ".join(entry.name for entry in members)
        merged.append(replace(shown, name=name, equal=members) if len(members) > 1 else shown)
    return merged


def make_baselines(runs: list[FinishedRun], score: str) -> list[Entry]:
    """Return each baseline once, or once for each setting that it was fitted to, such as `seq_len`.

    Runs of an older version may lack a baseline.
    """
    found: dict[str, Entry] = {}
    with_forecasts_first = sorted(runs, key=lambda run: not run.has_forecasts)
    for column, facts in BASELINES.items():
        name, setting = facts.label, facts.depends_on
        tested = (run for run in with_forecasts_first if column in run.metrics["baselines"])
        entries = (Entry(name, [run], column, score=score) for run in tested)
        fits = group_by(entries, has_same_error)
        for first, *_ in fits:
            run = first.runs[0]
            value = {**run.settings, **run.metrics}.get(setting) if setting else None
            suffix = f" ({setting}={value})" if setting and len(fits) > 1 else ""
            found.setdefault(f"{name}{suffix}", replace(first, name=f"{name}{suffix}"))
    return sorted(found.values(), key=lambda entry: entry.error)


def has_same_error(one: Entry, other: Entry) -> bool:
    """Return whether the error of two baselines is the same up to the round-off of sums over batches."""
    return math.isclose(one.error, other.error, rel_tol=ROUND_OFF)
