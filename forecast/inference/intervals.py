"""Choice of the method of prediction intervals, and of the calibration of conformal ones."""

import warnings
from collections.abc import Sequence

import numpy as np
import torch

from forecast.data import DataModule
from forecast.data.even_spacing import choose_evenly_spaced
from forecast.evaluation.conformal import Calibration, calibrate
from forecast.evaluation.forecaster_names import MODEL
from forecast.evaluation.levels import Level, bounds
from forecast.inference.forecasters import PointForecaster
from forecast.inference.model import BATCH_SIZE
from forecast.inference.recursive import round_up_horizon
from forecast.system.checks import check_choice
from forecast.system.errors import ConfigError, DataError, ForecastError
from forecast.system.progress import track

METHODS = ("auto", "conformal", "quantile", "adaptive")

MAX_RECURSIVE_ORIGINS = 512
"""Largest number of recursive forecasts to calibrate on, for intervals beyond pred_len."""

MIN_HORIZONS = 10
"""Intervals beyond pred_len from fewer horizons of validation rows give a warning."""


def choose_method(forecaster: PointForecaster, method: str, levels: Sequence[Level], horizon: int) -> str:
    """Choose the method of the intervals. `auto` uses the quantiles of the network if it has all levels and steps.

    Raises:
        ConfigError: an unknown method, or `quantile` without the quantiles of a level or a step.
    """
    check_choice("intervals", method, METHODS)
    if method == "quantile" and forecaster.name != MODEL:
        raise ConfigError(
            f"intervals=quantile are the model's, not those of baseline={forecaster.name}: use conformal or adaptive"
        )
    if method == "quantile" and levels:
        check_trained_quantiles(forecaster, levels, horizon)
    if method != "auto":
        return method
    wanted = {p for level in levels for p in bounds(level)}
    is_within = horizon <= forecaster.model.pred_len
    return "quantile" if is_within and wanted <= set(forecaster.quantiles or ()) else "conformal"


def check_trained_quantiles(forecaster: PointForecaster, levels: Sequence[Level], horizon: int) -> None:
    """Raise ConfigError if the quantiles of the network lack a level or a step."""
    quantiles, pred_len = forecaster.quantiles, forecaster.model.pred_len
    if quantiles is None:
        raise ConfigError(
            "intervals=quantile needs trained quantiles, and the model was trained with another loss than quantile, or "
            "no epoch of its training was kept: use intervals=conformal"
        )
    if horizon > pred_len:
        raise ConfigError(
            f"intervals=quantile reaches pred_len={pred_len} steps, not horizon={horizon}: use "
            "intervals=conformal"
        )
    known = [f"{100 - 200 * p:g}" for p in quantiles if p < 0.5]
    for level in levels:
        if not set(bounds(level)) <= set(quantiles):
            raise ConfigError(
                f"levels: this model was trained for {', '.join(known)}%, not {level:g}%: give one of those, or "
                "intervals=conformal"
            )


def calibration_for(forecaster: PointForecaster, levels: Sequence[Level], horizon: int) -> Calibration:
    """Return the checkpoint's calibration, or calibrate on validation windows if it lacks a level or a step."""
    model = forecaster.model
    stored = model.calibrations.get(forecaster.name)
    if stored is not None and stored.has(levels) and horizon <= model.pred_len:
        return stored.first(horizon)
    try:
        tested = forecaster.tested()
        with warnings.catch_warnings(action="ignore"):  # of the file, which training gave
            data = tested.model.data()
    except ForecastError as error:
        raise type(error)(
            f"these levels or steps need a calibration on the training data, which failed: {error}; "
            "set levels=[] for no intervals"
        ) from None
    if horizon > model.pred_len:
        calibration = calibrate_recursive(tested, data, levels, horizon)
    else:
        windows, scaler = data.windows["val"], data.target_scaler
        calibration = calibrate(
            lambda batch: tested.points(windows, batch, scaler), windows, scaler, BATCH_SIZE, levels,
            lambda batches: track(batches, "Calibrating"),
        ).first(horizon)  # fmt: skip
    return calibration.rescaled(tested.model.target_scaler, model.target_scaler)


def calibrate_recursive(
    forecaster: PointForecaster, data: DataModule, levels: Sequence[Level], horizon: int
) -> Calibration:
    """Calibrate on at most `MAX_RECURSIVE_ORIGINS` forecasts whose whole horizon lies in the validation rows."""
    seq_len, pred_len = forecaster.model.seq_len, forecaster.model.pred_len
    n_steps = round_up_horizon(horizon, pred_len)
    first, last = data.rows["val"]
    # The truth must lie within the validation rows; time features may lie after them.
    begin = np.maximum(data.panel.starts, first - seq_len)
    end = np.minimum(last - horizon, data.panel.ends - n_steps) - seq_len + 1
    starts = [range(a, max(a, b)) for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
    rows = int((last - first).max())
    if not any(starts):
        raise DataError(
            f"horizon={horizon} is longer than the {rows} validation rows on which its intervals could be calibrated: "
            "set levels=[] for no intervals"
        )
    if rows < MIN_HORIZONS * horizon:
        warnings.warn(
            f"horizon={horizon}: intervals beyond pred_len={pred_len} are calibrated on {rows:,} validation rows, "
            f"which hold {rows // horizon} such horizons: they are rough, and may leave out the forecast itself; train "
            "with a longer pred_len, or give validation more rows (data.split)",
            stacklevel=2,
        )
    windows = data.windows["val"].with_starts(starts, pred_len=n_steps)
    chosen = torch.from_numpy(choose_evenly_spaced(len(windows), MAX_RECURSIVE_ORIGINS))
    errors = []
    for index in track(chosen.split(BATCH_SIZE), "Calibrating"):
        batch = windows.gather(index)
        point = forecaster.points(windows, batch, data.target_scaler)
        errors.append((batch.future - point)[:, :horizon])
    horizons = windows.count_horizons(len(windows) / len(chosen), horizon)
    return Calibration.fit(torch.cat(errors), levels, horizons=horizons)
