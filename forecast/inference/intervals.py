"""Choice of the method of prediction intervals, and of the calibration of conformal ones."""

import warnings
from collections.abc import Sequence

import numpy as np
import torch

from forecast.data import DataModule
from forecast.data.even_spacing import choose_evenly_spaced
from forecast.evaluation.conformal import Calibration, calibrate
from forecast.evaluation.forecaster_names import MODEL
from forecast.evaluation.levels import CONFORMAL, QUANTILE, Level, list_untrained
from forecast.inference.forecasters import PointForecaster
from forecast.inference.model import BATCH_SIZE
from forecast.inference.options import AUTO, check_method
from forecast.inference.recursive import round_up_horizon
from forecast.system.errors import ConfigError, DataError, ForecastError
from forecast.system.progress import track

MAX_RECURSIVE_ORIGINS = 512
"""Largest number of recursive forecasts to calibrate on, for intervals beyond pred_len."""

MIN_HORIZONS = 10
"""Intervals beyond pred_len from fewer horizons of validation rows give a warning."""


def choose_method(forecaster: PointForecaster, method: str, levels: Sequence[Level], horizon: int) -> str:
    """Choose the method of the intervals. `auto` uses the quantiles of the network if it has all levels and steps.

    Raises:
        ConfigError: an unknown method, or `quantile` without the quantiles of a level or a step.
    """
    check_method(method, None if forecaster.name == MODEL else forecaster.name)
    missing = explain_missing_quantiles(forecaster, levels, horizon)
    if method == QUANTILE and levels and missing:
        raise ConfigError(f"intervals=quantile is not possible, because {missing}: use intervals=conformal")
    if method != AUTO:
        return method
    if missing and levels and forecaster.quantiles is not None:
        warnings.warn(f"the intervals of all levels are conformal, because {missing}", stacklevel=2)
    return CONFORMAL if missing else QUANTILE


def explain_missing_quantiles(
    forecaster: PointForecaster, levels: Sequence[Level], horizon: int
) -> str | None:
    """Explain which levels or steps the trained quantiles of the network lack; None if they lack none."""
    quantiles, pred_len = forecaster.quantiles, forecaster.model.pred_len
    if quantiles is None:
        return (
            "the model has no trained quantiles (it was trained with another loss than quantile, or no epoch of its "
            "training was kept)"
        )
    if horizon > pred_len:
        return f"the trained quantiles reach pred_len={pred_len} steps, not horizon={horizon}"
    if untrained := list_untrained(quantiles, levels):
        trained = [f"{100 - 200 * p:g}" for p in sorted(quantiles, reverse=True) if p < 0.5]
        return f"the model was trained for levels=[{','.join(trained)}], not for {', '.join(untrained)}"
    return None


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
