"""Grouping of runs into tasks, whose runs can be compared, and named variants, whose runs differ only in the seed."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from forecast.evaluation.scores import BASELINES, LINEAR_ALONE, name_tested
from forecast.reports.compare.run_folders import FinishedRun, mark_overlapping_runs, use_new_times
from forecast.reports.compare.task import Entry, Task, group_by
from forecast.reports.tables import MISSING
from forecast.runs.summary import TASK_FACTS, headings, shorten_number
from forecast.system.errors import ConfigError
from forecast.system.formatting import shorten
from forecast.system.keys import FILE_SOURCES

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
    """Return the name of the entry that is called so, with or without the note that only its linear model was kept.

    Raises:
        ConfigError: there is none.
    """
    names = [entry.name for entry in (*task.variants, *task.baselines)]
    for found in names:
        if name in (found, found.removesuffix(LINEAR_ALONE)):
            return found
    similar = sorted(names, key=lambda other: name not in other)  # those that contain the name come first
    raise ConfigError(
        f"reference={name}: {task.title} has no variant or baseline of this name, but {shorten(similar)}"
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
        sorted(variants, key=lambda entry: entry.error),
        baselines,
        dict(zip(names, differences, strict=True)),
        {key: value for key, value in first if all(text.get(key) == value for text in texts.values())},
    )


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
        # sums over batches differ by round-off
        fits = group_by(entries, lambda one, other: math.isclose(one.error, other.error, rel_tol=ROUND_OFF))
        for first, *_ in fits:
            run = first.runs[0]
            value = {**run.settings, **run.metrics}.get(setting) if setting else None
            suffix = f" ({setting}={value})" if setting and len(fits) > 1 else ""
            found.setdefault(f"{name}{suffix}", replace(first, name=f"{name}{suffix}"))
    return sorted(found.values(), key=lambda entry: entry.error)


ATTENTION = "model.attention.name"


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

    Args:
        settings: configurations as `format_settings` returns them.
        prefix: compare only keys that start with it.
    """
    keys = dict.fromkeys(key for one in settings for key in one if key.startswith(prefix))
    ordered = sorted(keys, key=lambda key: (key != ATTENTION, key.count("."), not key.endswith("._target_")))
    chosen: dict[str, tuple[str, ...]] = {}
    for key in ordered:
        values = tuple(one.get(key, MISSING) for one in settings)
        if len(set(values)) == 1 or values in chosen.values():
            continue
        choices = [column for other, column in chosen.items() if is_below(key, other)]
        same_name = [column for other, column in chosen.items() if other == key.rsplit(".", 1)[-1]]
        causes = [*choices, *same_name]
        if choices and count_groups([*causes, values]) == count_groups(causes):
            continue
        chosen[key] = values
    labels: dict[str, str] = {}
    for key in chosen:
        label = "attention" if key == ATTENTION else key.removesuffix("._target_")
        labels[key] = key if label in labels.values() else label
    short = headings(list(labels.values()))
    return [{short[labels[key]]: values[i] for key, values in chosen.items()} for i in range(len(settings))]


def is_below(key: str, choice: str) -> bool:
    """Return whether `choice` selects the class or name of the configuration group that contains `key`."""
    group, _, last = choice.rpartition(".")
    return last in ("_target_", "name") and key.startswith(f"{group}.")


def count_groups(columns: Iterable[tuple[str, ...]]) -> int:
    """Return the number of distinct rows of a table given by its columns."""
    return len(set(zip(*columns, strict=True)))


def name_variants(
    differences: list[dict[str, str]], settings: list[dict[str, str]], taken: Sequence[str] = ()
) -> list[str]:
    """Return a name for each configuration, as short as possible, different from all others and from `taken`.

    Names with shortened values are tried first, then names with full values, then names that also mention missing
    settings. If none of these are unique, the names are numbered.
    """
    counts = (Counter(values[key] for values in differences).most_common(1)[0] for key in differences[0])
    majority = [value if 2 * count > len(differences) else None for value, count in counts]
    names: list[str] = []
    for omitted, write in ((MISSING, shorten_number), (MISSING, str), (None, str)):
        names = [
            name_variant(values, majority, one.get(ATTENTION, MISSING), omitted, write)
            for values, one in zip(differences, settings, strict=True)
        ]
        if len({*names, *taken}) == len(names) + len(taken):
            return names
    return [f"{number}. {name}" for number, name in enumerate(names, start=1)]


def name_variant(
    values: dict[str, str],
    majority: list[str | None],
    attention: str,
    omitted: str | None,
    shorten: Callable[[str], str],
) -> str:
    """Return a name such as `probsparse, d_model=32`.

    It starts with the attention type if the attention types differ, followed by the values that most variants do not
    share. Values equal to `omitted` are not mentioned.
    """
    parts = [values.get("attention", "")]
    for (key, value), common in zip(values.items(), majority, strict=True):
        if key != "attention" and value not in (common, omitted):
            parts.append(f"{key}={shorten(value)}")
    return ", ".join(part for part in parts if part) or attention
