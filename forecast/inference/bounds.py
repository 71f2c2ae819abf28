"""Choice of the method of interval bounds, and of the calibration of conformal ones."""

import warnings
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch

from forecast.data import DataModule
from forecast.evaluation.conformal import Calibration, calibrate
from forecast.evaluation.names import MODEL
from forecast.evaluation.quantiles import Level, bounds
from forecast.inference.model import BATCH_SIZE, TrainedModel
from forecast.inference.points import forecast_points
from forecast.inference.roll import rounded_horizon
from forecast.system.errors import ConfigError, DataError, ForecastError
from forecast.system.progress import track

METHODS = ("auto", "conformal", "quantile", "adaptive")

MAX_ROLLED_ORIGINS = 512
"""Largest number of rolled forecasts to calibrate on, for bounds beyond pred_len."""

MIN_HORIZONS = 10
"""Bounds beyond pred_len from fewer horizons of validation rows give a warning."""


def choose_method(
    model: TrainedModel, method: str, levels: Sequence[Level], horizon: int, baseline: str | None
) -> str:
    """Choose the method of the bounds. `auto` uses the quantiles of the network if it has all levels and steps."""
    if method not in METHODS:
        raise ConfigError(f"intervals={method} is not one of {', '.join(METHODS)}")
    if baseline is not None and method == "quantile":
        raise ConfigError(
            f"intervals=quantile are the model's, not those of baseline={baseline}: use conformal or adaptive"
        )
    if method != "auto" or baseline is not None:
        return "conformal" if method == "auto" else method
    wanted = {p for level in levels for p in bounds(level)}
    trained = horizon <= model.pred_len and model.quantiles is not None and wanted <= set(model.quantiles)
    return "quantile" if trained else "conformal"


def check_trained_bounds(model: TrainedModel, levels: Sequence[Level], horizon: int) -> Sequence[float]:
    """Return the probabilities of the network's quantiles. Raises ConfigError if they lack a level or a step."""
    if model.quantiles is None:
        raise ConfigError(
            "intervals=quantile needs a model trained with loss=quantile, and more than its linear model: use "
            "intervals=conformal"
        )
    if horizon > model.pred_len:
        raise ConfigError(
            f"intervals=quantile reaches pred_len={model.pred_len} steps, not horizon={horizon}: use "
            "intervals=conformal"
        )
    known = [f"{100 - 200 * p:g}" for p in model.quantiles if p < 0.5]
    for level in levels:
        if not set(bounds(level)) <= set(model.quantiles):
            raise ConfigError(
                f"levels: this model was trained for {', '.join(known)}%, not {level:g}%: give one of those, or "
                "intervals=conformal"
            )
    return model.quantiles


def calibration_for(
    model: TrainedModel, levels: Sequence[Level], horizon: int, baseline: str | None = None
) -> Calibration:
    """Return the checkpoint's calibration, or calibrate on validation windows if it lacks a level or a step.

    It is the calibration of the model's point forecasts, or of a baseline's.
    """
    stored = model.calibrations.get(baseline or MODEL)
    if stored is not None and stored.has(levels) and horizon <= model.pred_len:
        return stored.first(horizon)
    try:
        tested = model.tested()
        data = tested.data()
    except ForecastError as error:
        raise type(error)(
            f"these levels or steps need a calibration on the training data, which failed: {error}; "
            "set levels=[] for no bounds"
        ) from None
    if horizon > model.pred_len:
        calibration = calibrate_rolled(tested, data, levels, horizon, baseline)
    else:
        windows = data.windows["val"]
        calibration = calibrate(
            partial(forecast_points, tested, baseline, data.target_scaler, windows), windows, data.target_scaler,
            BATCH_SIZE, levels,
            lambda batches: track(batches, "Calibrating"),
        ).first(horizon)  # fmt: skip
    return calibration.rescaled(tested.target_scaler, model.target_scaler)


def calibrate_rolled(
    model: TrainedModel, data: DataModule, levels: Sequence[Level], horizon: int, baseline: str | None = None
) -> Calibration:
    """Calibrate on at most `MAX_ROLLED_ORIGINS` rolled forecasts whose whole horizon lies in the validation rows."""
    passes = rounded_horizon(horizon, model.pred_len)
    first, last = data.rows["val"]
    # The truth must lie within the validation rows; time features may lie after them.
    begin = np.maximum(data.panel.starts, first - model.seq_len)
    end = np.minimum(last - horizon, data.panel.ends - passes) - model.seq_len + 1
    starts = [range(a, max(a, b)) for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
    rows = int((last - first).max())
    if not any(starts):
        raise DataError(
            f"horizon={horizon} is longer than the {rows} validation rows that its bounds could be taken from: "
            "set levels=[] for no bounds"
        )
    if rows < MIN_HORIZONS * horizon:
        warnings.warn(
            f"horizon={horizon}: bounds beyond pred_len={model.pred_len} come from {rows:,} validation rows, which "
            f"hold {rows // horizon} such horizons: they are rough, and may leave out the forecast itself; train with "
            "a longer pred_len, or give validation more rows (data.split)",
            stacklevel=2,
        )
    windows = data.windows["val"].over(starts, pred_len=passes)
    chosen = torch.linspace(0, len(windows) - 1, min(len(windows), MAX_ROLLED_ORIGINS)).long()
    errors = []
    for index in track(chosen.split(BATCH_SIZE), "Calibrating"):
        batch = windows.gather(index)
        point = forecast_points(model, baseline, data.target_scaler, windows, batch)
        errors.append((batch.future - point)[:, :horizon])
    return Calibration.fit(torch.cat(errors), levels)
