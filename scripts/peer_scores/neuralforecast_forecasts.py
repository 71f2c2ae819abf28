# pyright: reportMissingImports=false
"""Forecasts by models of neuralforecast, with early stopping on the validation rows."""

import logging
import warnings
from typing import Any

import numpy as np
import pandas as pd
import torch
from neuralforecast import NeuralForecast, models
from neuralforecast.losses.pytorch import MSE

from peer_scores.rows import CALENDAR, Rows, interpolate
from peer_scores.tasks import Task
from peer_scores.windows import Forecasts, Split

QUIET = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}


def forecast(
    rows: Rows, task: Task, split: Split, name: str, settings: dict[str, Any]
) -> tuple[Forecasts, dict[str, Any]]:
    """Train a model, and return the standardised forecasts of the test windows and the validation MSE at some steps."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    table = tabulate(rows, split)
    kind = getattr(models, name)
    size = {"n_series": task.columns} if kind.MULTIVARIATE else {}
    model = kind(
        h=split.horizon, input_size=split.seq_len, loss=MSE(), alias="forecast",
        **covariates(kind, list(table.columns[3:])), **size, **settings, **QUIET,
    )  # fmt: skip
    trained = NeuralForecast([model], freq=f"{task.minutes}min")
    found = trained.cross_validation(
        table,
        val_size=split.test_start - split.train_end,
        test_size=split.rows - split.test_start,
        n_windows=None,
    )
    found = found.sort_values(["unique_id", "cutoff", "ds"])
    forecasts = found["forecast"].to_numpy(np.float64).reshape(task.columns, -1, split.horizon)
    return forecasts, {"validation_mse_by_step": trained.models[0].valid_trajectories}


def covariates(kind: Any, known: list[str]) -> dict[str, list[str]]:
    """Return the covariates that a class of models reads: over the horizon too, in the past only, or none."""
    if kind.EXOGENOUS_FUTR:
        return {"futr_exog_list": known}
    return {"hist_exog_list": known} if kind.EXOGENOUS_HIST else {}


def tabulate(rows: Rows, split: Split) -> pd.DataFrame:
    """Return the rows in the layout of neuralforecast: id, date, target, then the known columns and the calendar as
    cycles. Values are standardised, and missing ones interpolated."""
    angles = {name: 2 * np.pi * part / CALENDAR[name] for name, part in rows.calendar().items()}
    targets = interpolate(split.standardise(rows.targets))
    shared = pd.DataFrame(
        {
            "ds": rows.dates,
            **{name: split.standardise(values) for name, values in rows.known.items()},
            **{f"sine of {name}": np.sin(angle) for name, angle in angles.items()},
            **{f"cosine of {name}": np.cos(angle) for name, angle in angles.items()},
        }
    ).iloc[: split.rows]
    tables = []
    for column in range(targets.shape[1]):
        table = shared.copy()
        table.insert(0, "unique_id", f"{column:03}")
        table.insert(2, "y", targets[: split.rows, column])
        tables.append(table)
    return pd.concat(tables, ignore_index=True)
