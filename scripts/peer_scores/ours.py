"""Test scores of this project by its commands, and the same scores from the forecasts of a backtest."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from peer_scores.forecasters import Forecaster
from peer_scores.processes import measure
from peer_scores.rows import read_rows
from peer_scores.tasks import TASKS
from peer_scores.windows import Split, repeat_last_value
from results.cells import cell
from results.settings import ALONE, TRANSFORM, WITH_COVARIATES

TOLERANCE = 1e-4
SCORES = ("mse", "mae")
QUIET = ("logger=[]", "callbacks.progress=null")
BASELINES = ("naive", "seasonal_naive", "linear")


FLAT_VARIANTS = {
    "residual_informer": "seq_len=336",
    "mlp": f"model=mlp {ALONE} windows_per_epoch=8000",
    "patch_encoder": f"model=patch_encoder {ALONE}",
}
"""Overrides of docs/results.md#a-flat-head, by model."""


def list_overrides(task: str, forecaster: Forecaster) -> tuple[str, ...]:
    """Return the overrides of a cell of docs/results.md."""
    if task in WITH_COVARIATES:
        transform = f" {TRANSFORM}" if task.startswith("epf") else ""
        table, variant = "covariates", f"model={forecaster.model}{transform}"
    else:
        table, variant = "flat", FLAT_VARIANTS[forecaster.model]
    return cell(table, task, TASKS[task].horizon, "full", 1, variant).overrides


def train(overrides: tuple[str, ...], root: Path, folder: Path) -> dict[str, Any]:
    """Run `python -m forecast.train`, and return its scores, its cost, and the scores of its baselines."""
    typed = [override.replace("=ROOT", f"={root}", 1) for override in overrides]
    cost = measure([sys.executable, "-m", "forecast.train", *typed, *QUIET, f"output_root={folder}"])
    metrics = read_metrics(folder)
    return {
        **pick(metrics["test"]),
        **asdict(cost),
        "test_windows": metrics["n_windows"]["test"],
        "best_epoch": metrics["best_epoch"],
        "baselines": {name: pick(metrics["baselines"][name]) for name in BASELINES},
    }


def check_scores(task: str, root: Path, folder: Path) -> dict[str, Any]:
    """Return the scores of a run beside those of its forecasts, computed as the scores of the peers are.

    The forecasts of the model and the baselines are those of `python -m forecast.backtest` from every test row. Those
    of the naive forecast are also made from the rows alone.

    Raises:
        ValueError: scores differ.
    """
    metrics = read_metrics(folder)
    (run,) = (path.parent for path in folder.glob("*/metrics.json"))
    measure(
        [
            sys.executable, "-m", "forecast.backtest", f"checkpoint={run}", "stride=1",
            f"output_root={folder / 'backtest'}",
        ]
    )  # fmt: skip
    (file,) = folder.glob("backtest/*/forecasts.parquet")
    table = pd.read_parquet(file, columns=["model", *BASELINES])  # of each window, each step, each column
    targets = read_rows(TASKS[task], root).targets
    split = Split.of(TASKS[task], len(targets))
    mean, deviation = split.scale(targets)
    standardised = split.standardise(targets)
    forecasts = {
        name: np.moveaxis((values.to_numpy().reshape(-1, split.horizon, len(mean)) - mean) / deviation, 2, 0)
        for name, values in table.items()
    }
    forecasts["naive, from the rows"] = repeat_last_value(split, standardised)
    checked = {}
    for name, values in forecasts.items():
        key = str(name).partition(",")[0]
        told = pick(metrics["test"] if key == "model" else metrics["baselines"][key])
        checked[name] = {"run": told, "scored_here": split.score(values, standardised)}
        for score in SCORES:
            if abs(checked[name]["scored_here"][score] / told[score] - 1) > TOLERANCE:
                raise ValueError(f"{task}, {name}: {score} is {checked[name]}")
    return checked


def read_metrics(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob("*/metrics.json")
    return json.loads(path.read_text())


def pick(scores: dict[str, Any]) -> dict[str, float]:
    return {name: scores[name] for name in SCORES}
