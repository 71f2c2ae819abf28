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

from peer_scores.forecasters import NEURALFORECAST
from peer_scores.tasks import CALENDAR, Rows
from peer_scores.windows import Forecasts, Split

QUIET = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}


def forecast(
    rows: Rows, split: Split, name: str, settings: dict[str, Any]
) -> tuple[Forecasts, dict[str, Any]]:
    """Train a model, and return the forecasts of the test windows and the validation MSE at some steps."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    table = tabulate(rows, split)
    kind = getattr(models, name)
    size = {"n_series": 1} if kind.MULTIVARIATE else {}
    model = kind(
        h=split.horizon, input_size=split.seq_len, loss=MSE(), alias="forecast",
        **covariates(kind, list(table.columns[3:])), **size, **NEURALFORECAST, **settings, **QUIET,
    )  # fmt: skip
    trained = NeuralForecast([model], freq="h")
    found = trained.cross_validation(
        table,
        val_size=split.test_start - split.train_end,
        test_size=split.rows - split.test_start,
        n_windows=None,
    )
    ordered = found.sort_values(["cutoff", "ds"])["forecast"].to_numpy(np.float64)
    known_rows = rows.target[: split.train_end]
    forecasts = ordered.reshape(-1, split.horizon) * known_rows.std() + known_rows.mean()
    return forecasts, {"validation_mse_by_step": trained.models[0].valid_trajectories}


def covariates(kind: Any, known: list[str]) -> dict[str, list[str]]:
    """Return the covariates that a class of models reads: over the horizon too, in the past only, or none."""
    if kind.EXOGENOUS_FUTR:
        return {"futr_exog_list": known}
    return {"hist_exog_list": known} if kind.EXOGENOUS_HIST else {}


def tabulate(rows: Rows, split: Split) -> pd.DataFrame:
    """Return the rows in the layout of neuralforecast: id, date, target, then the known columns and the calendar as
    cycles. Values are standardised."""
    angles = {name: 2 * np.pi * part / CALENDAR[name] for name, part in rows.calendar().items()}
    return pd.DataFrame(
        {
            "unique_id": "series",
            "ds": rows.dates,
            "y": split.standardise(rows.target),
            **{name: split.standardise(values) for name, values in rows.known.items()},
            **{f"sine of {name}": np.sin(angle) for name, angle in angles.items()},
            **{f"cosine of {name}": np.cos(angle) for name, angle in angles.items()},
        }
    )
