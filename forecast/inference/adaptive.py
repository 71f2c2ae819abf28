"""Adaptive intervals of a forecast: the forecasts before it are repeated, and their errors update the offsets."""

from collections import deque

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from forecast.data import Panel, Windows
from forecast.data.scaling.scaler import Scaler
from forecast.evaluation.adaptive import adapt
from forecast.evaluation.conformal import Calibration, scale_ratio
from forecast.inference.forecasters import PointForecaster
from forecast.inference.origins import SeriesOrigins, scale_excerpt, take_excerpt, windows_from
from forecast.inference.recursive import round_up_horizon
from forecast.system.progress import track

REPLAYED_ROWS = 1_024
"""Number of rows before the origin from which past forecasts are recomputed."""

MAX_REPLAYED = 1 << 15
"""Largest number of repeated forecasts of all series, but for `MIN_REPLAYED` of each."""

MIN_REPLAYED = 32

AT_ONCE = 256
"""Number of windows, and of series, that are worked on at once."""


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
