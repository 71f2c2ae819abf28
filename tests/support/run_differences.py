"""Differences between two run folders, to the bit; times, throughput, memory and paths are left out."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from forecast.runs.folder import read_metrics
from tests.support.wandb_file import WandbRun

MEASURED = {
    "seconds", "seconds_before_resume", "finished", "windows_per_second", "ms_per_window", "peak_memory_mb", "machine",
    "windows_per_second_dev", "RunTime",
}  # fmt: skip
"""What differs from run to run whatever happens."""

IN_LOGS = MEASURED | {"_runtime", "_timestamp", "_step", "_wandb"}

TABLES = ("errors_by_step.csv", "errors_by_variable.csv", "errors_by_window.parquet", "forecasts.parquet")


def differences(one: Path, other: Path) -> list[str]:
    """What differs between two run folders; empty where they are the same."""
    found = []
    for name in ("best", "last"):
        pair = [torch.load(run / "checkpoints" / f"{name}.ckpt", weights_only=True) for run in (one, other)]
        for content in pair:
            del content["hyper_parameters"]  # they hold the folder
        found += [f"{name}.ckpt: {where}" for where in unequal(*map(unmeasured, pair))]
    metrics = [read_metrics(run) for run in (one, other)]
    found += [f"metrics.json: {where}" for where in unequal(*map(unmeasured, metrics))]
    found += [name for name in TABLES if (one / name).read_bytes() != (other / name).read_bytes()]
    epochs = [pd.read_csv(run / "metrics.csv", dtype=str) for run in (one, other)]
    found += [f"metrics.csv: {where}" for where in unequal(*(unmeasured(t.to_dict("list")) for t in epochs))]
    return found


def unmeasured(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: unmeasured(value) for key, value in content.items() if key not in MEASURED}
    return content


def unequal(one: Any, other: Any, where: str = "") -> list[str]:
    if type(one) is not type(other):
        return [f"{where}: {type(one).__name__} and {type(other).__name__}"]
    if isinstance(one, dict):
        lost = [f"{where}.{key}: in one alone" for key in one.keys() ^ other.keys()]
        return lost + [w for key in one.keys() & other.keys() for w in unequal(one[key], other[key], f"{where}.{key}")]
    if isinstance(one, list | tuple):
        if len(one) != len(other):
            return [f"{where}: {len(one)} and {len(other)} entries"]
        return [w for i, pair in enumerate(zip(one, other, strict=True)) for w in unequal(*pair, f"{where}[{i}]")]
    if isinstance(one, torch.Tensor):
        same = one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)
        return [] if same else [f"{where}: tensors"]
    if isinstance(one, float) and np.isnan(one) and np.isnan(other):
        return []
    return [] if one == other else [f"{where}: {one} and {other}"]


def logged_differently(one: Path, other: Path) -> list[str]:
    """What the loggers of two runs hold differently: of each step and score the last value, over the parts in order."""
    found = []
    for read in (csv_log, wandb_log):
        log = read(one)
        assert log, f"{read.__name__}: nothing was logged"
        found += [f"{read.__name__}: {where}" for where in unequal(log, read(other))]
    return found


def csv_log(run: Path) -> dict[str, Any]:
    parts = sorted(run.glob("logs/csv/version_*/metrics.csv"))
    text = [row for part in parts for row in pd.read_csv(part, dtype=str).to_dict("records")]
    rows = [{name: float(value) for name, value in row.items()} for row in text]
    return last_values((row["step"], row) for row in rows)


def wandb_log(run: Path) -> dict[str, Any]:
    """Over all parts, which must share one id, and the last part's summary."""
    files = sorted(run.glob("wandb/offline-run-*/*.wandb"))
    assert len({file.name for file in files}) == 1  # named by the run's id
    parts = [WandbRun(file) for file in files]
    rows = [row for part in parts for row in part.history]
    summary = {key: value for key, value in parts[-1].summary.items() if key not in IN_LOGS and "/" in key}
    summary = {key: value for key, value in summary.items() if key.startswith(("test/", "baselines/"))}
    return {
        **last_values((row["trainer/global_step"], row) for row in rows if "trainer/global_step" in row),
        "summary": summary,
    }


def last_values(rows: Iterable[tuple[float, dict[str, Any]]]) -> dict[str, Any]:
    values = {}
    for step, row in rows:
        for name, value in row.items():
            is_value = isinstance(value, list) or (isinstance(value, int | float) and not np.isnan(value))
            if is_value and name not in IN_LOGS and not name.endswith("/filenames"):
                values[f"{name} at {int(step)}"] = value
    return values
