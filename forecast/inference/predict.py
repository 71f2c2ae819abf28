"""Forecasts of each series of a panel with a trained model."""

import warnings
from collections.abc import Sequence
from numbers import Integral

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from forecast.data import Panel, Windows
from forecast.data.scaled_panel import ScaledPanel
from forecast.data.scaler import Scaler
from forecast.evaluation.conformal import calibrated_levels
from forecast.evaluation.quantiles import Level, bounds, check_levels
from forecast.inference.adaptive import adapted_offsets
from forecast.inference.bounds import calibration_for, check_trained_bounds, choose_method
from forecast.inference.forecast import Forecast, Values
from forecast.inference.model import TrainedModel
from forecast.inference.origins import (
    SeriesOrigins,
    choose_origins,
    count_known,
    history_of,
    known_truth,
    scale_excerpt,
    take_excerpt,
    windows_from,
)
from forecast.inference.points import (
    check_baseline,
    covariates_ahead,
    forecast_model,
    forecast_points,
    reads_own_forecasts,
)
from forecast.inference.roll import rounded_horizon
from forecast.system.errors import ConfigError
from forecast.system.progress import track

SERIES_AT_ONCE = 512

Bounds = dict[Level, tuple[Tensor, Tensor]]
"""By level, the lower and the upper bounds (series, horizon, n_targets)."""


def predict(
    model: TrainedModel,
    panel: Panel,
    *,
    horizon: int | None = None,
    start: str | pd.Timestamp | None = None,
    levels: Sequence[Level] = (),
    method: str = "auto",
    baseline: str | None = None,
    ahead: Panel | None = None,
) -> Forecast:
    """Forecast `horizon` steps (default: pred_len) of each series from `start` (default: after the end of each).

    Beyond pred_len the model reads its own forecasts. A series of the training data keeps its scale. A new series is
    scaled by its rows before the forecast. Series with too little history are left out, with a warning. `baseline`
    names a baseline that forecasts in place of the model. `ahead`: see `forecast.inference.store_future`.

    Raises:
        ConfigError: an option that this model does not support.
        DataError: missing columns, history or future covariates.
        CheckpointError: a baseline of a run that was not tested.
    """
    check_baseline(model, baseline)
    levels, horizon = check_levels(levels), check_horizon(model, horizon, baseline)
    method = choose_method(model, method, levels, horizon, baseline)
    panel = model.select_columns(panel)
    origins = choose_origins(model, panel, start)
    passes = rounded_horizon(horizon, model.pred_len)
    history = max(history_of(model, baseline) + 1, 4 * horizon, 48)  # the first row may be carried, not read
    excerpt, rows = take_excerpt(model, panel, origins, history=history, passes=passes, ahead=ahead)
    scaled = scale_excerpt(model, excerpt, rows)
    known = check_known_steps(scaled, rows, passes, covariates_ahead(model, baseline, scaled))
    warn_of_empty_windows(model, scaled, torch.from_numpy(rows))
    scaler, series = scaled.scales.scaler.select_columns(model.target_index), torch.arange(len(excerpt))
    windows = windows_from(model, scaled, [range(row, row + 1) for row in rows.tolist()], passes)
    point, output = forecast_series(model, windows, horizon, baseline, scaler)
    if method == "quantile" or not levels:
        sides, replayed = trained_bounds(model, levels, output, horizon), 0
    else:
        sides, replayed = calibrated_bounds(
            model, panel, origins, point, levels, method=method, baseline=baseline
        )

    def unscale(values: Tensor) -> Values:
        return scaler.inverse(values, series).numpy()

    return Forecast(
        panel=excerpt.take_rows(np.arange(len(excerpt)), excerpt.starts, rows, rows),
        columns=model.target_columns,
        dates=dates_from(excerpt, rows, horizon),
        values=unscale(point),
        low={level: unscale(low) for level, (low, _) in sides.items()},
        high={level: unscale(high) for level, (_, high) in sides.items()},
        truth=known_truth(excerpt, rows, horizon, model.target_index),
        method=method,
        new=int((scaled.scales.place < 0).sum()),
        known=known,
        baseline=baseline,
        replayed=replayed,
    )


def dates_from(excerpt: Panel, rows: Int64[np.ndarray, " series"], horizon: int) -> np.ndarray:
    """The dates from these rows on (series, horizon), on the clock of the panel."""
    places = (excerpt.grid_starts + rows - excerpt.starts)[:, None] + np.arange(horizon)
    return excerpt.grid.to_numpy()[places]


def trained_bounds(
    model: TrainedModel,
    levels: Sequence[Level],
    output: Float[Tensor, "series pred_len n_targets ..."],
    horizon: int,
) -> Bounds:
    """Scaled bounds of each level from the quantiles of the network, which are its `output`."""
    if not levels:
        return {}
    return choose_bounds(output[:, :horizon], check_trained_bounds(model, levels, horizon), levels)


def calibrated_bounds(
    model: TrainedModel,
    panel: Panel,
    origins: SeriesOrigins,
    point: Float[Tensor, "series horizon n_targets"],
    levels: Sequence[Level],
    *,
    method: str,
    baseline: str | None,
) -> tuple[Bounds, int]:
    """Scaled bounds of each level around a point forecast, and the number of forecasts repeated for adaptive ones."""
    horizon, replayed = point.shape[1], 0
    calibration = calibration_for(model, levels, horizon, baseline)
    if method == "adaptive":
        offsets, replayed = adapted_offsets(
            model, panel, origins, calibration, horizon=horizon, baseline=baseline
        )
        quantiles = point[..., None] + offsets.permute(0, 2, 3, 1)
    else:
        quantiles = calibration.around(point)
    levels = calibrated_levels(calibration, levels)
    return choose_bounds(quantiles, calibration.quantiles, levels), replayed


def choose_bounds(
    quantiles: Float[Tensor, "series horizon n_targets quantiles"],
    probabilities: Sequence[float],
    levels: Sequence[Level],
) -> Bounds:
    """The lower and the upper bound of each level among quantiles of these probabilities."""
    sides = {level: bounds(level) for level in levels}
    return {
        level: (quantiles[..., probabilities.index(low)], quantiles[..., probabilities.index(high)])
        for level, (low, high) in sides.items()
    }


def check_horizon(model: TrainedModel, horizon: int | None, baseline: str | None) -> int:
    """Return the horizon, or pred_len for None. Raises ConfigError for a horizon that cannot be reached."""
    if horizon is None:
        return model.pred_len
    if isinstance(horizon, bool) or not isinstance(horizon, Integral) or horizon < 1:
        raise ConfigError(f"horizon={horizon} must be a whole number of at least 1")
    horizon = int(horizon)
    is_rolled = horizon > model.pred_len and reads_own_forecasts(baseline)
    if is_rolled and model.feature_columns != model.target_columns:
        others = [name for name in model.feature_columns if name not in model.target_columns]
        raise ConfigError(
            f"horizon={horizon} is beyond pred_len={model.pred_len}, and this model reads columns that it does not "
            f"forecast ({', '.join(others[:5])}), whose future is not known: train with pred_len={horizon}"
        )
    return horizon


def check_known_steps(
    scaled: ScaledPanel,
    rows: Int64[np.ndarray, " series"],
    steps: int,
    is_read: Bool[np.ndarray, " covariates"],
) -> list[str]:
    """Describe the future covariates that are not known for all steps, such as "temperature for 24 of 168 steps".

    Covariates that the forecast does not read after its origin (`is_read`) are named as such. Warns of a covariate that
    is known for fewer steps than in training. Raises DataError for one that must be known, see `count_known`.
    """
    panel, limits = scaled.panel, scaled.scales.known_steps
    known = count_known(panel, rows, steps, limits, is_read)
    unread = (name for name, read in zip(panel.future_covariates, is_read, strict=True) if not read)
    found = [
        f"the future of {name} is not read"
        for name in dict.fromkeys(panel.indicators.get(name, name) for name in unread)
    ]
    for name, limit, counts, read in zip(panel.future_covariates, limits, known.T, is_read, strict=True):
        if limit is not None and read:
            low, high = int(counts.min()), int(counts.max())
            found.append(f"{name} for {low if low == high else f'{low} to {high}'} of {steps} steps")
            if low < min(limit, steps):
                warnings.warn(
                    f"{name} is known for {low} steps, and was known for {limit} in training: give future=FILE with "
                    f"{min(limit, steps)}",
                    stacklevel=3,
                )
    return found


def warn_of_empty_windows(
    model: TrainedModel, scaled: ScaledPanel, origins: Int64[Tensor, " series"]
) -> None:
    """Warn of the targets that no series, or not every series, has a measured value of before its forecast."""
    if scaled.fill is None:
        return
    empty = torch.zeros(len(model.feature_columns), dtype=torch.int64)
    for first in (origins - model.seq_len).split(SERIES_AT_ONCE):
        empty += scaled.values.windows(first, model.seq_len).isnan().all(1).sum(0)
    for name, i in zip(model.target_columns, model.target_index, strict=True):
        if empty[i]:
            of = f" in {int(empty[i]):,} of {len(origins):,} series" if len(origins) > 1 else ""
            warnings.warn(
                f"no value of {name} in the {model.seq_len} rows before the forecast{of}: it is forecast from its mean",
                stacklevel=3,
            )


@torch.inference_mode()
def forecast_series(
    model: TrainedModel, windows: Windows, horizon: int, baseline: str | None, scaler: Scaler
) -> tuple[Float[Tensor, "series {horizon} n_targets"], Float[Tensor, "series steps n_targets ..."]]:
    """Scaled point forecasts of each window, and the output of the first pass: quantiles, if the network has them."""
    points, outputs = [], []
    for index in track(torch.arange(len(windows)).split(SERIES_AT_ONCE), "Forecasting"):
        batch = windows.gather_past(index)
        if baseline is None:
            point, output = forecast_model(model, scaler, batch)
        else:
            point = output = forecast_points(model, baseline, scaler, windows, batch)
        points.append(point[:, :horizon])
        outputs.append(output)
    return torch.cat(points), torch.cat(outputs)
