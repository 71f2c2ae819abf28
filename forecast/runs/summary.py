"""The jobs in a sweep's folder: what each did, and the lines on those that have no scores."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import OmegaConf

from forecast.runs.folder import is_running, result_file
from forecast.system.formatting import plural

RESERVED = ("seeds", "mse", "mae", "skill", "seconds", "windows_per_second", "peak_memory_mb")
"""Columns of tables that no setting may be named like."""

TASK_FACTS = ("data", "features", "pred_len")
"""Entries of metrics.json, which are no configuration keys, that are equal in all runs of a task."""


@dataclass(frozen=True)
class Run:
    """A job of a sweep: its folder, and its final metrics or its error."""

    folder: Path
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
    """Read a job's metrics or error."""
    metrics, error = folder / "metrics.json", folder / "error.txt"
    try:
        scores = json.loads(metrics.read_text("utf-8")) if metrics.exists() else None
    except ValueError as damage:
        return Run(folder, None, f"metrics.json: cannot be read: {damage}")
    if error.exists():
        return Run(folder, scores, error.read_text().strip())
    return Run(folder, scores, None, is_running=scores is None and is_running(folder))


def job_number(folder: Path) -> tuple[int, str]:
    """Return the sort key of a job's folder: its number, then its name."""
    number = folder.name.split("_")[0]
    return (int(number) if number.isdigit() else -1, folder.name)


# ---- facts that comparisons read too


def headings(keys: Sequence[str]) -> dict[str, str]:
    """Return a heading for each setting: the last part of its key, or the whole key where two share that part."""
    last = [key.rsplit(".", 1)[-1] for key in keys]
    taken = {name for name in last if last.count(name) > 1} | {*RESERVED}
    return {key: key if name in taken else name for key, name in zip(keys, last, strict=True)}


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


def print_unfinished(folder: Path, runs: Sequence[Run], expected: int, *, can_resume: bool) -> None:
    """Name the jobs that failed, were interrupted, still run or did not begin, and the best trial of a search.

    Args:
        folder: the sweep's folder.
        runs: its jobs.
        expected: number of jobs that the sweep was to have.
        can_resume: whether the command can resume a sweep.
    """
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
