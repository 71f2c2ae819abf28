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
from forecast.data.panel import name_series
from forecast.data.scaled_panel import ScaledPanel
from forecast.data.scaler import Scaler
from forecast.evaluation.conformal import calibrated_levels
from forecast.evaluation.levels import ADAPTIVE, QUANTILE, Level, bounds, parse_levels
from forecast.inference.forecast import (
    FAR,
    SERIES_AT_ONCE,
    Forecast,
    Values,
    count_history,
    dates_from,
    find_extremes,
    warn_of_constant_values,
    warn_of_far_values,
)
from forecast.inference.forecasters import PointForecaster, round_up_horizon
from forecast.inference.intervals import adapted_offsets, calibration_for, choose_method
from forecast.inference.model import TrainedModel
from forecast.inference.origins import (
    SeriesOrigins,
    choose_origins,
    known_truth,
    scale_excerpt,
    take_excerpt,
    windows_from,
)
from forecast.system.errors import ConfigError, DataError
from forecast.system.formatting import plural
from forecast.system.progress import track

Bounds = dict[Level, tuple[Tensor, Tensor]]
"""By level, the lower and the upper bounds (series, horizon, n_targets)."""


def count_known(
    excerpt: Panel,
    rows: Int64[np.ndarray, " series"],
    steps: int,
    known_steps: Sequence[int | None],
    is_read: Bool[np.ndarray, " covariates"],
) -> Int64[np.ndarray, "series covariates"]:
    """Count the steps after the origins of an excerpt for which each future covariate is known and may be read.

    Missing values before the end of a series are completed as in training.

    Args:
        is_read: whether the forecast reads each covariate after its origin.

    Raises:
        DataError: a covariate that is read has no value for a step, and no limit in `known_steps`; the message names
            the first series, column and date.
    """
    if excerpt.future is None:
        return np.zeros((len(excerpt), 0), dtype=np.int64)
    wanted = rows[:, None] + np.arange(steps)
    limits = np.array([steps if limit is None else min(limit, steps) for limit in known_steps])
    is_known = np.isfinite(excerpt.future[wanted][..., excerpt.ahead_index])  # (series, steps, covariates)
    needed = is_read & np.array([limit is None for limit in known_steps])
    is_needed = (wanted >= excerpt.ends[:, None])[..., None] & needed
    if (is_needed & ~is_known).any():
        s, step, column = (int(i) for i in np.argwhere(is_needed & ~is_known)[0])
        column_name = excerpt.future_columns[excerpt.ahead_index[column]]
        name = excerpt.indicators.get(column_name, column_name)
        place = int((excerpt.grid_starts + rows - excerpt.starts)[s]) + step
        date = excerpt.utc_offset.zoned(excerpt.grid[[place]])[0]
        raise DataError(
            f"{name_series(excerpt, s)}{name} is not known for {date}: this forecast needs future covariates "
            f"for {steps} steps after its start (a multiple of pred_len): add rows with these covariates and empty "
            "targets, or give future=FILE; a model trained with data.known_steps needs fewer"
        )
    return (is_known & (np.arange(steps)[:, None] < limits)).sum(axis=1)


def warn_of_unknown_steps(
    scaled: ScaledPanel,
    known: Int64[np.ndarray, "series covariates"],
    steps: int,
    is_read: Bool[np.ndarray, " covariates"],
) -> None:
    """Warn of each covariate that is read and known for fewer steps than in training.

    Args:
        scaled: the data.
        known: the number of steps for which each covariate is known, see `count_known`.
        steps: the number of steps that are forecast.
        is_read: whether the forecast reads each covariate after its origin.
    """
    panel, limits = scaled.panel, scaled.scales.known_steps
    for name, limit, counts, read in zip(panel.future_covariates, limits, known.T, is_read, strict=True):
        if limit is not None and read and counts.min() < min(limit, steps):
            warnings.warn(
                f"{name} is known for {plural(int(counts.min()), 'step')}, and was known for {limit} in training: give "
                f"future=FILE with {min(limit, steps)}",
                stacklevel=3,
            )


def describe_known_steps(
    scaled: ScaledPanel,
    known: Int64[np.ndarray, "series covariates"],
    steps: int,
    is_read: Bool[np.ndarray, " covariates"],
) -> list[str]:
    """Describe the future covariates that are not read over all steps, such as "temperature for 24 of 168 steps".

    Args:
        scaled, known, steps, is_read: see `warn_of_unknown_steps`.
    """
    panel, limits = scaled.panel, scaled.scales.known_steps
    unread = (name for name, read in zip(panel.future_covariates, is_read, strict=True) if not read)
    found = [
        f"the future of {name} is not read"
        for name in dict.fromkeys(panel.indicators.get(name, name) for name in unread)
    ]
    for name, limit, counts, read in zip(panel.future_covariates, limits, known.T, is_read, strict=True):
        if limit is not None and read:
            low, high = int(counts.min()), int(counts.max())
            found.append(f"{name} for {low if low == high else f'{low} to {high}'} of {steps} steps")
    return found


def predict(
    forecaster: PointForecaster,
    panel: Panel,
    *,
    horizon: int | None = None,
    start: str | pd.Timestamp | None = None,
    levels: Sequence[Level] = (),
    method: str = "auto",
    ahead: Panel | None = None,
) -> Forecast:
    """Forecast `horizon` steps (default: pred_len) of each series from `start` (default: after the end of each).

    Beyond pred_len the model reads its own forecasts. A series of the training data keeps its scale. A new series is
    scaled by its rows before the forecast. Of a series with fewer than seq_len rows, the rows before its first one are
    read as missing values. `ahead`: see `forecast.inference.model_data`.

    Raises:
        ConfigError: an option that this model does not support.
        DataError: missing columns, history or future covariates.
    """
    model = forecaster.model
    levels, horizon = parse_levels(levels), parse_horizon(forecaster, horizon)
    method = choose_method(forecaster, method, levels, horizon)
    panel = model.select_columns(panel)
    origins, n_steps = choose_origins(model, panel, start), round_up_horizon(horizon, model.pred_len)
    history = count_history(forecaster.history, horizon)
    excerpt, rows = take_excerpt(model, panel, origins, history=history, n_steps=n_steps, ahead=ahead)
    scaled = scale_excerpt(model, excerpt, rows)
    is_read = forecaster.covariates_ahead(scaled)
    known = count_known(excerpt, rows, n_steps, scaled.scales.known_steps, is_read)
    warn_of_unknown_steps(scaled, known, n_steps, is_read)
    warn_of_unusual_inputs(forecaster, excerpt, scaled, rows, n_steps)
    scaler, series = scaled.scales.scaler.select_columns(model.target_index), torch.arange(len(excerpt))
    windows = windows_from(model, scaled, [range(row, row + 1) for row in rows.tolist()], n_steps)
    point, output = forecast_series(forecaster, windows, horizon, scaler)
    sides, replayed = {}, 0
    if levels and method == QUANTILE:
        sides = choose_bounds(output[:, :horizon], forecaster.quantiles or (), levels)
    elif levels:
        is_adaptive = method == ADAPTIVE
        sides, replayed = calibrated_bounds(forecaster, panel, origins, point, levels, adaptive=is_adaptive)

    def unscale(values: Tensor) -> Values:
        return scaler.inverse(values, series).numpy()

    return Forecast(
        forecaster=forecaster.facts(),
        panel=excerpt.take_rows(np.arange(len(excerpt)), excerpt.starts, rows, rows),
        columns=model.target_columns,
        dates=dates_from(excerpt, rows, horizon),
        values=unscale(point),
        low={level: unscale(low) for level, (low, _) in sides.items()},
        high={level: unscale(high) for level, (_, high) in sides.items()},
        truth=known_truth(excerpt, rows, horizon, model.target_index),
        method=method,
        new=int((scaled.scales.place < 0).sum()),
        known=describe_known_steps(scaled, known, n_steps, is_read),
        replayed=replayed,
        rows_before=(origins.rows - panel.starts[origins.series]).clip(max=model.seq_len),
    )


def calibrated_bounds(
    forecaster: PointForecaster,
    panel: Panel,
    origins: SeriesOrigins,
    point: Float[Tensor, "series horizon n_targets"],
    levels: Sequence[Level],
    *,
    adaptive: bool,
) -> tuple[Bounds, int]:
    """Scaled bounds of each level around a point forecast, and the number of forecasts repeated for adaptive ones."""
    horizon, replayed = point.shape[1], 0
    calibration = calibration_for(forecaster, levels, horizon)
    if adaptive:
        offsets, replayed = adapted_offsets(forecaster, panel, origins, calibration, horizon)
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


def parse_horizon(forecaster: PointForecaster, horizon: object) -> int:
    """Return the horizon, or pred_len for None. Raises ConfigError for a horizon that cannot be reached."""
    model = forecaster.model
    if horizon is None:
        return model.pred_len
    if isinstance(horizon, bool) or not isinstance(horizon, Integral) or horizon < 1:
        raise ConfigError(f"horizon={horizon} must be a whole number of at least 1")
    horizon = int(horizon)
    is_rolled = horizon > model.pred_len and forecaster.is_recursive
    read = forecaster.columns_read() - set(model.target_columns)
    others = [name for name in model.feature_columns if name in read]
    if is_rolled and others:
        raise ConfigError(
            f"horizon={horizon} is beyond pred_len={model.pred_len}, and {forecaster.label} reads columns that it does "
            f"not forecast ({', '.join(others[:5])}), whose future is not known: train with pred_len={horizon}"
        )
    return horizon


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


def warn_of_unusual_inputs(
    forecaster: PointForecaster,
    excerpt: Panel,
    scaled: ScaledPanel,
    rows: Int64[np.ndarray, " series"],
    n_steps: int,
) -> None:
    """Warn of inputs far outside the training data, and of targets that are missing or constant before the forecast."""
    model, scales = forecaster.model, scaled.scales
    warn_of_empty_windows(model, scaled, torch.from_numpy(rows))
    read, first = {*model.target_columns, *forecaster.columns_read()}, rows - model.seq_len
    low, high = FAR[model.config["data"]["scaler"]]
    past = find_extremes(excerpt.values, first, model.seq_len)  # type: ignore[arg-type]
    warn_of_far_values(excerpt.columns, read, past, (scales.scaler.unscale(low), scales.scaler.unscale(high)))
    warn_of_constant_values(excerpt.columns, model.target_columns, past, model.seq_len)
    if excerpt.future is not None:
        covariates, scaler = excerpt.future_covariates, scales.future_scaler
        future = find_extremes(excerpt.future[:, : len(covariates)], first, model.seq_len + n_steps)
        warn_of_far_values(covariates, read, future, (scaler.unscale(low), scaler.unscale(high)))


@torch.inference_mode()
def forecast_series(
    forecaster: PointForecaster, windows: Windows, horizon: int, scaler: Scaler
) -> tuple[Float[Tensor, "series {horizon} n_targets"], Float[Tensor, "series steps n_targets ..."]]:
    """Scaled point forecasts of each window, and the output of the first pass: quantiles, if the network has them."""
    points, outputs = [], []
    for index in track(torch.arange(len(windows)).split(SERIES_AT_ONCE), "Forecasting"):
        batch = windows.gather_past(index)
        point, output = forecaster.forecast(windows, batch, scaler)
        points.append(point[:, :horizon])
        outputs.append(output)
    return torch.cat(points), torch.cat(outputs)
