"""Choice of the method of prediction intervals, and the calibration of conformal and adaptive ones."""

import warnings
from collections import deque
from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from forecast.data import DataModule, Panel, Windows
from forecast.data.scaler import Scaler
from forecast.data.time_features import choose_evenly_spaced
from forecast.evaluation.backtest import adapt
from forecast.evaluation.conformal import Calibration, calibrate, scale_ratio
from forecast.evaluation.levels import CONFORMAL, QUANTILE, Level, list_untrained
from forecast.evaluation.scores import MODEL
from forecast.inference.forecasters import PointForecaster, round_up_horizon
from forecast.inference.model import BATCH_SIZE
from forecast.inference.options import AUTO, check_method
from forecast.inference.origins import SeriesOrigins, scale_excerpt, take_excerpt, windows_from
from forecast.system.errors import ConfigError, DataError, ForecastError
from forecast.system.progress import track

MAX_RECURSIVE_ORIGINS = 512
"""Largest number of recursive forecasts to calibrate on, for intervals beyond pred_len."""

MIN_HORIZONS = 10
"""Intervals beyond pred_len from fewer horizons of validation rows give a warning."""

REPLAYED_ROWS = 1_024
"""Number of rows before the origin from which past forecasts are recomputed."""

MAX_REPLAYED = 1 << 15
"""Largest number of repeated forecasts of all series, but for `MIN_REPLAYED` of each."""

MIN_REPLAYED = 32

AT_ONCE = 256
"""Number of windows, and of series, that are worked on at once."""


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


def adapted_offsets(
    forecaster: PointForecaster,
    panel: Panel,
    origins: SeriesOrigins,
    calibration: Calibration,
    horizon: int,
) -> tuple[Float[Tensor, "chosen quantiles {horizon} n_targets"], int]:
    """Offsets of each series at its origin, and the number of repeated forecasts.

    Forecasts that begin after the training rows are repeated, from rows among the last `REPLAYED_ROWS` before the
    origin: with many series from fewer rows, the latest ones or every n-th. If the model was refitted on all rows, the
    tested one repeats them.

    Args:
        calibration: of the steps of the horizon, on the scale of the forecaster's model.
    """
    repeated = forecaster.tested()
    tested = repeated.model
    count = min(REPLAYED_ROWS, max(MIN_REPLAYED, MAX_REPLAYED // len(origins.rows)))
    stride, n_steps = REPLAYED_ROWS // count, round_up_horizon(horizon, tested.pred_len)
    history = repeated.history + REPLAYED_ROWS + 1  # the first row is not read: it may be carried
    excerpt, rows = take_excerpt(tested, panel, origins, history=history, n_steps=n_steps)
    scaled = scale_excerpt(tested, excerpt, rows)
    trained = int(excerpt.grid.searchsorted(pd.Timestamp(tested.trained_until), side="right"))  # type: ignore[arg-type]
    first = np.maximum(excerpt.starts + tested.seq_len, excerpt.starts + trained - excerpt.grid_starts)
    counts = ((rows - first) // stride).clip(0, count)
    replayed = [
        range(row - stride * n, row, stride) for row, n in zip(rows.tolist(), counts.tolist(), strict=True)
    ]
    errors = torch.full((len(excerpt), count, horizon, len(tested.target_index)), torch.nan)
    if sum(counts):
        windows = windows_from(tested, scaled, replayed, n_steps)
        scaler = scaled.scales.scaler.select_columns(tested.target_index)
        found = errors_before(repeated, windows, scaler, end=torch.from_numpy(rows), horizon=horizon)
        for series, own in enumerate(found.split(counts.tolist())):
            errors[series, count - len(own) :] = own
    errors *= scale_ratio(tested.target_scaler, forecaster.model.target_scaler).float()
    offsets = torch.cat([last_offsets(calibration, some, stride) for some in errors.split(AT_ONCE)])
    return offsets, int(sum(counts))


@torch.inference_mode()
def errors_before(
    forecaster: PointForecaster,
    windows: Windows,
    scaler: Scaler,
    *,
    end: Int64[Tensor, " series"],
    horizon: int,
) -> Float[Tensor, "windows {horizon} n_targets"]:
    """Scaled errors, truth − forecast, of all windows; NaN from row `end[s]` of series s on."""
    errors = []
    for index in track(torch.arange(len(windows)).split(AT_ONCE), "Adapting"):
        batch = windows.gather_past(index)
        point = forecaster.points(windows, batch, scaler)[:, :horizon]
        rows = windows.origins(index)[:, None] + torch.arange(horizon)
        limit = end[batch.series][:, None]
        truth = windows.targets(rows.minimum(limit - 1))
        errors.append(torch.where((rows < limit)[..., None], truth - point, torch.nan))
    return torch.cat(errors)


def last_offsets(
    calibration: Calibration, errors: Float[Tensor, "series origins steps n_targets"], stride: int
) -> Float[Tensor, "series quantiles steps n_targets"]:
    """The offsets at the origin after all errors."""
    return deque(adapt(calibration, errors, stride), maxlen=1).pop()
