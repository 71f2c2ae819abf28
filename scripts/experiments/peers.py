"""This project, LightGBM and models of neuralforecast on the same rows, and their scores on the same test windows.

Settings were fixed before any test score. The peers are scored by code that reads the files without this project.
"""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.cells import FLAT, TRANSFORM, WITH_COVARIATES, Cell, make_cell
from experiments.run import CellFailed, Context
from experiments.store import Row
from experiments.training import type_overrides

DAYS_OF_ETT = (360, 120, 120)
"""Days of training, validation and test in ETT data (Zhou et al. 2021)."""


@dataclass(frozen=True)
class Task:
    """A file, and the windows of it that are forecast."""

    path: str  # below --root
    target: str = ""  # the column to forecast; empty: every column
    known: tuple[str, ...] = ()  # columns whose values are known over the horizon
    minutes: int = 60  # from a row to the next
    seq_len: int = 168
    horizon: int = 24
    columns: int = 1  # number of forecast columns
    missing: float | None = None  # number that stands for a missing value
    days: tuple[int, ...] = ()  # of training, validation and test; empty: the rows are split 7:1:2

    @property
    def steps_per_day(self) -> int:
        return 24 * 60 // self.minutes


TASKS = {
    **{name: Task(path, target, tuple(known.split(","))) for name, (path, target, known) in WITH_COVARIATES.items()},
    "ettm1": Task("ETTm1.csv", minutes=15, seq_len=336, horizon=96, columns=7, days=DAYS_OF_ETT),
    "weather": Task("weather.csv", minutes=10, seq_len=336, horizon=96, columns=21, missing=-9999),
}


@dataclass(frozen=True)
class Forecaster:
    library: str  # forecast, lightgbm or neuralforecast
    model: str = ""  # option of `model` of this project, or a class of neuralforecast
    one_column_settings: Mapping[str, Any] = field(default_factory=dict)  # on tasks of one column
    multivariate: bool = False  # a window of the model holds all columns


LIGHTGBM = {
    "objective": "l2", "learning_rate": 0.1, "num_leaves": 31, "seed": 1, "num_threads": 1, "verbose": -1,
}  # fmt: skip
"""Defaults of LightGBM for the objective, the rate and the leaves."""
LIMITS = {"rows": 4_000_000, "trees": 1000, "patience": 50}
"""Rows of features in training and in validation; a window has one for each step of the horizon and column."""

NEURALFORECAST: dict[str, Any] = {
    "max_steps": 1000, "val_check_steps": 100, "early_stop_patience_steps": 3, "windows_batch_size": 128,
    "inference_windows_batch_size": 1024, "random_seed": 1,
}  # fmt: skip
"""The first two are defaults of neuralforecast."""
WINDOWS, MAX_BATCH, STEP = 32, 256, 11
"""With several columns, a batch holds 32 windows of each, as in this project, but at most 256 windows of one column.
Windows begin every 11 rows, which divides no day, because models of one column copy all of them at every step."""
ROBUST = {"scaler_type": "robust"}
"""Each window is scaled by its own median, as in neuralforecast's tutorials on electricity prices with covariates. It
fails on weather, where windows without rain have no deviation."""
TIMEXER = {"windows_batch_size": 32, "learning_rate": 1e-4, "patch_len": 24}
"""The batch is the default of the library, the rest that of the authors' code for electricity prices. With the rate of
the library, 1e-3, validation errors on the prices of NP and DE hardly fall below those before training."""

FORECASTERS = {
    "default model": Forecaster("forecast", "residual_informer"),
    "`model=mlp`": Forecaster("forecast", "mlp"),
    "`model=patch_encoder`": Forecaster("forecast", "patch_encoder"),
    "LightGBM": Forecaster("lightgbm"),
    "NHITS": Forecaster("neuralforecast", "NHITS", ROBUST),
    "TSMixerx": Forecaster("neuralforecast", "TSMixerx", multivariate=True),
    "BiTCN": Forecaster("neuralforecast", "BiTCN", ROBUST),
    "TFT": Forecaster("neuralforecast", "TFT", {"windows_batch_size": 32}),  # a step of 128 windows takes 4 s of a core
    "TimeXer": Forecaster("neuralforecast", "TimeXer", TIMEXER, multivariate=True),
    "PatchTST": Forecaster("neuralforecast", "PatchTST"),
}  # fmt: skip
BASELINES, SCORES = ("naive", "seasonal_naive", "linear"), ("mse", "mae")
TOLERANCE = 1e-4


def list_settings(task: Task, forecaster: Forecaster) -> dict[str, Any]:
    """Return the settings of a peer on a task."""
    if forecaster.library == "lightgbm":
        return LIGHTGBM | LIMITS
    if task.columns == 1:
        settings = {**NEURALFORECAST, **forecaster.one_column_settings}
        if (forecaster.model, task.path) == ("TFT", "epf/NP.csv"):
            settings["windows_batch_size"] = 128  # measured before the batch was made smaller
        return settings
    size = WINDOWS if forecaster.multivariate else min(WINDOWS * task.columns, MAX_BATCH)
    return {**NEURALFORECAST, "windows_batch_size": size, "step_size": STEP}


def list_overrides(task: str, forecaster: Forecaster) -> tuple[str, ...]:
    """Return the settings that identify a result; for this project, those of a cell of docs/results.md."""
    if forecaster.library != "forecast":
        return tuple(f"{key}={value}" for key, value in list_settings(TASKS[task], forecaster).items())
    if task in WITH_COVARIATES:
        transform = f" {TRANSFORM}" if task.startswith("epf") else ""
        variant = f"model={forecaster.model}{transform}"
    else:
        variant = FLAT[forecaster.model]
    return make_cell("peers-accuracy", task, TASKS[task].horizon, "full", 1, variant).overrides


def list_cells(table: str) -> list[Cell]:
    return [
        Cell("peers-accuracy", f"{task}/{name}", list_overrides(task, forecaster), {"task": task, "forecaster": name})
        for name, forecaster in FORECASTERS.items()
        for task in TASKS
    ]  # fmt: skip


def run_forecaster(cell: Cell, context: Context) -> Row:
    """Return the scores and the costs of a forecaster, which has a process of its own."""
    task, name = cell.facts["task"], cell.facts["forecaster"]
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "scores.json")
        is_ours = FORECASTERS[name].library == "forecast"
        arguments = (str(context.root), task, "naive" if is_ours else name, str(out))
        cost = context.python("-m", "experiments.peer_forecasts", *arguments)
        scores = json.loads(out.read_text())
        if is_ours:
            return train_ours(cell, context, Path(scratch), {key: scores[key] for key in SCORES})
        return {**scores, "cpu_seconds": cost.cpu_seconds, "peak_mib": cost.peak_mib}


def train_ours(cell: Cell, context: Context, folder: Path, naive: Mapping[str, float]) -> Row:
    """Train this project; `naive`, the errors of the naive forecast scored as the peers are, must be those of the run.

    Raises:
        CellFailed: the errors differ.
    """
    own = ("logger=[]", "callbacks.progress=null", f"output_root={folder}")
    cost = context.python("-m", "forecast.train", *type_overrides(cell, context.root), *own)
    (path,) = folder.glob("*/metrics.json")
    metrics = json.loads(path.read_text())
    baselines = {name: {key: metrics["baselines"][name][key] for key in SCORES} for name in BASELINES}
    if any(abs(naive[key] / baselines["naive"][key] - 1) > TOLERANCE for key in SCORES):
        raise CellFailed(f"the naive forecast has {baselines['naive']} in the run, and {naive} scored as the peers")
    return {
        **{key: metrics["test"][key] for key in SCORES},
        "cpu_seconds": cost.cpu_seconds,
        "peak_mib": cost.peak_mib,
        "test_windows": metrics["n_windows"]["test"],
        "best_epoch": metrics["best_epoch"],
        "baselines": baselines,
    }
