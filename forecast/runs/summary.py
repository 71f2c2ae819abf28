"""The summary of a sweep: one row per configuration, mean ± standard deviation over seeds, and the failed jobs."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import OmegaConf

from forecast.runs.folder import is_running, read_overrides, result_file
from forecast.system.files import atomic_file
from forecast.system.formatting import plural
from forecast.system.keys import RUN_EFFECTS, effect_of_override, key_of_override

SUMMARISED = ("mse", "mae", "skill", "seconds", "windows_per_second", "peak_memory_mb")
"""Scores in the summary."""

TASK_FACTS = ("data", "features", "pred_len")
"""Entries of metrics.json, which are no configuration keys, that are equal in all runs of a task."""

COMPARABLE_COLUMNS = [*TASK_FACTS, "path", "naive"]
"""Columns that must be equal for the scores of two rows to be comparable; `naive` is `naive_fingerprint`."""


@dataclass(frozen=True)
class Run:
    """A job of a sweep: its folder, its overrides, and its final metrics or its error."""

    folder: Path
    settings: dict[str, str]
    metrics: dict[str, Any] | None
    error: str | None
    is_running: bool = False  # by another process

    @property
    def is_done(self) -> bool:
        """Whether the run was tested and had no error afterwards, for example in a refit."""
        return self.metrics is not None and self.error is None

    @property
    def is_interrupted(self) -> bool:
        """Whether the run has neither results nor an error, and no process works on it."""
        return result_file(self.folder) is None and self.error is None and not self.is_running


def read_jobs(folder: Path) -> list[Run]:
    """Read the jobs in a sweep's folder, in the order of their numbers."""
    folders = {path.parent for path in folder.glob("*/overrides.yaml")}
    return [read_run(job) for job in sorted(folders, key=job_number)]


def read_run(folder: Path) -> Run:
    """Read a job's overrides and metrics or error."""
    settings = {}
    if (folder / "overrides.yaml").exists():
        for override in read_overrides(folder / "overrides.yaml"):
            settings[key_of_override(override)] = override.partition("=")[2].strip("'\"")
    metrics, error = folder / "metrics.json", folder / "error.txt"
    try:
        scores = json.loads(metrics.read_text("utf-8")) if metrics.exists() else None
    except ValueError as damage:
        return Run(folder, settings, None, f"metrics.json: cannot be read: {damage}")
    if error.exists():
        return Run(folder, settings, scores, error.read_text().strip())
    return Run(folder, settings, scores, None, is_running=scores is None and is_running(folder))


def job_number(folder: Path) -> tuple[int, str]:
    """Return the sort key of a job's folder: its number, then its name."""
    number = folder.name.split("_")[0]
    return (int(number) if number.isdigit() else -1, folder.name)


# ---- rows


def differing_settings(runs: Sequence[Run]) -> list[str]:
    """List the settings in which the runs differ, except the seed and settings of places and logs."""
    keys = dict.fromkeys(
        key
        for run in runs
        for key in run.settings
        if key != "seed" and effect_of_override(key) in RUN_EFFECTS
    )
    return [key for key in keys if len({run.settings.get(key) for run in runs}) > 1]


def headings(keys: Sequence[str]) -> dict[str, str]:
    """Return a heading for each setting: the last part of its key, or the whole key where two share that part."""
    last = [key.rsplit(".", 1)[-1] for key in keys]
    taken = {name for name in last if last.count(name) > 1} | {"seeds", *SUMMARISED}
    return {key: key if name in taken else name for key, name in zip(keys, last, strict=True)}


def summarise(runs: Sequence[Run]) -> pd.DataFrame:
    """Tabulate one row per configuration: settings, number of seeds, mean and standard deviation of each score.

    `best` marks the rows with the lowest test MSE of their task.
    """
    names = headings(differing_settings(runs) or ["attention"])
    tested = [run for run in runs if run.metrics is not None]
    scores = pd.DataFrame([scores_of(run) for run in tested])
    chosen = pd.DataFrame(
        {
            name: [str(run.settings.get(key, (run.metrics or {}).get(key, ""))) for run in tested]
            for key, name in names.items()
        }
    )
    if scores.empty:
        return scores
    configuration = chosen.groupby(list(chosen), sort=False).ngroup().rename("configuration")
    seeds = pd.concat([configuration, scores["seed"]], axis=1)
    last = ~seeds.duplicated(keep="last")  # each seed counts once
    groups = scores[last].groupby(configuration[last])
    rows = chosen.groupby(configuration).first().assign(seeds=groups.size())
    for score in SUMMARISED:
        values = groups[score]
        rows[score] = values.agg(lambda found: found.mean(skipna=False))
        rows[f"{score}_dev"] = values.agg(lambda found: found.std(skipna=False))
    lowest = (
        rows["mse"]
        .groupby([groups[name].first() for name in COMPARABLE_COLUMNS], dropna=False)
        .transform("min")
    )
    return rows.assign(best=rows["mse"] == lowest)


def scores_of(run: Run) -> dict[str, Any]:
    """Return a tested run's seed, task and scores; scores that it lacks are NaN."""
    assert run.metrics is not None
    found = {**run.metrics, **run.metrics["test"], "path": run.settings.get("data.path", "")}
    task = {"naive": naive_fingerprint(run.metrics)}
    numbers = {score: np.nan if found.get(score) is None else float(found[score]) for score in SUMMARISED}
    return {**{name: found.get(name) for name in ("seed", *COMPARABLE_COLUMNS)}, **task, **numbers}


def naive_fingerprint(metrics: dict[str, Any]) -> str:
    """Return the MSE of the naive baseline to five digits. It depends on the scales and on the test rows."""
    return f"{metrics['baselines']['naive']['mse']:.5g}"


def mean_and_std(values: Iterable[float | None]) -> tuple[float, float]:
    """Return mean and sample standard deviation, NaN where undefined. None, which is NaN in JSON, counts as NaN."""
    numbers = np.array([np.nan if value is None else value for value in values], dtype=float)
    return float(numbers.mean()), float(numbers.std(ddof=1)) if len(numbers) > 1 else np.nan


def describe_linear_only(metrics: Sequence[dict[str, Any]]) -> str:
    """Return a sentence on the runs whose tested model is the linear model only; empty if there are none."""
    count = sum(run.get("best_epoch") == 0 for run in metrics)
    which = "The run" if len(metrics) == 1 else f"{count} of {len(metrics)} runs"
    why = "no epoch was 1% better on validation windows, so attention has no part in the scores"
    return f"{which} kept only the linear model: {why}." if count else ""


# ---- output


def save_summary(folder: Path, runs: Sequence[Run], expected: int, *, can_resume: bool) -> None:
    """Save the summary as `summary.csv`, and name the jobs that failed, were interrupted, still run or did not begin.

    Args:
        folder: the sweep's folder.
        runs: its jobs.
        expected: number of jobs that the sweep was to have.
        can_resume: whether the command can resume a sweep.
    """
    rows = summarise(runs)
    if len(rows):
        with atomic_file(folder / "summary.csv") as temporary:
            rows.to_csv(temporary, index=False)
        print(f"saved {folder / 'summary.csv'}")
    for run in runs:
        if run.is_running:
            print(f"still running, by another process: {run.folder.name}")
        elif run.error is not None:
            print(f"failed: {run.folder.name}: {run.error}")
        elif run.is_interrupted:
            print(f"interrupted: {run.folder.name}")
    if len(runs) < expected:
        print(f"not begun: {plural(expected - len(runs), 'run')}")
    if can_resume and (len(runs) < expected or any(run.is_interrupted for run in runs)):
        print("repeat the command with resume=auto to continue")
    found = folder / "optimization_results.yaml"  # Optuna's
    if found.exists():
        best = OmegaConf.to_container(OmegaConf.load(found))
        assert isinstance(best, dict)
        settings = " ".join(f"{key}={value}" for key, value in best["best_params"].items())
        print(f"best validation {best['score']} {best['best_value']:.4f}: {settings}")


def shorten_number(value: str) -> str:
    """Shorten a number of many digits, such as one drawn by Optuna, to four digits."""
    try:
        return value if len(value) < 8 else f"{float(value):.4g}"
    except ValueError:
        return value
