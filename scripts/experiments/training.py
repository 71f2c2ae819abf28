"""Run a training cell: `forecast train` in a new process and a new run folder, whose scores are returned."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.cells import Cell
from experiments.run import CellFailed, Context, describe_commit
from experiments.store import Row
from forecast.cli.overrides import quote_value
from forecast.evaluation.scores import BASELINES

FACTS = (
    "validation_mse", "seconds", "peak_memory_mb", "ms_per_window", "mflops_per_window", "n_parameters", "epochs",
    "best_epoch", "shrinkage_weight", "precision",
)  # fmt: skip
TRAINING_SHARE = 0.7
"""Fraction of the rows whose standard deviation scales the published errors of weather."""


def run_training(cell: Cell, context: Context) -> Row:
    """Train and test; return the scores, the costs and the commit. A stopped run of the same code is resumed."""
    commit = describe_commit()
    folder = context.choose_folder(cell, commit)
    own = (
        "logger=[]",
        "pictures=false",
        "callbacks.progress=null",
        f"output_root={quote_value(str(folder))}",
        "resume=auto",
    )
    context.python("-m", "forecast.train", *type_overrides(cell, context.root), *own)
    (path,) = folder.glob("*/metrics.json")
    row = {**read_scores(path.parent), "commit": commit}
    if cell.facts.get("data") == "weather":
        row |= scale_as_published(path.parent, context.root / "weather.csv")
    shutil.rmtree(folder)
    return row


def type_overrides(cell: Cell, root: Path) -> list[str]:
    """Return the overrides with the data folder in place of ROOT."""
    return [override.replace("=ROOT", f"={root}", 1) for override in cell.overrides]


def read_scores(folder: Path) -> Row:
    """Return the test and validation errors of a run on scaled values, and its costs.

    Raises:
        CellFailed: the test error is not finite.
    """
    metrics = json.loads((folder / "metrics.json").read_text())
    if metrics["test"]["mse"] is None:
        raise CellFailed("the test MSE is not a number")
    with (folder / "metrics.csv").open(newline="") as file:
        epochs = [float(row["val/mse"]) for row in csv.DictReader(file) if row["val/mse"]]
    baselines = metrics["baselines"]
    return {
        **{key: metrics["test"][key] for key in ("mse", "mae", "rmse_raw")},
        **{f"{name}_{key}": baselines[name][key] for name in BASELINES for key in ("mse", "rmse_raw")},
        "test_windows": metrics["n_windows"]["test"],
        **{key: metrics[key] for key in FACTS},
        "validation_mse_by_epoch": epochs,
    }


def scale_as_published(run: Path, file: Path) -> dict[str, float]:
    """Return the test MSE of a run and of its linear baseline, each column divided by its published scale.

    The published loaders scale a column by its standard deviation over the first 70% of the rows as they are in the
    file. −9999 occurs in three columns, and only in these rows: their errors nearly vanish.

    Args:
        run: the run folder, whose errors_by_variable.csv has errors in original units.
        file: weather.csv.
    """
    rows = pd.read_csv(file, encoding_errors="replace").drop(columns="date")
    variance = rows.head(int(TRAINING_SHARE * len(rows))).var(ddof=0)
    errors = pd.read_csv(run / "errors_by_variable.csv", index_col="variable")
    if set(errors.index) != set(variance.index):
        raise ValueError(f"{run}: its columns are not those of {file}")
    columns = {"published_mse": "model_rmse_raw", "published_linear_mse": "linear_rmse_raw"}
    return {key: float(np.mean(errors[name] ** 2 / variance)) for key, name in columns.items()}
