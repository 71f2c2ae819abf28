"""Forecasts of each series of a panel with a trained model."""

import warnings
from collections.abc import Sequence
from functools import partial
from numbers import Integral

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from forecast.data import Panel
from forecast.data.scaled_panel import ScaledPanel, ScalingOptions
from forecast.data.scaler import Scaler
from forecast.evaluation.conformal import calibrated_levels
from forecast.evaluation.quantiles import Level, bounds, check_levels
from forecast.inference.bounds import calibration_for, check_trained_bounds, choose_method
from forecast.inference.forecast import Forecast, Values
from forecast.inference.model import TrainedModel
from forecast.inference.origins import (
    choose_origins,
    count_known,
    known_truth,
    take_part,
)
from forecast.inference.roll import passes_over, roll
from forecast.system.errors import ConfigError
from forecast.system.progress import track

SERIES_AT_ONCE = 512


def predict(
    model: TrainedModel,
    panel: Panel,
    *,
    horizon: int | None = None,
    start: str | pd.Timestamp | None = None,
    levels: Sequence[Level] = (),
    method: str = "auto",
) -> Forecast:
    """Forecast `horizon` steps (default: pred_len) of each series from `start` (default: after the end of each).

    Beyond pred_len the model reads its own forecasts. A series of the training data keeps its scale. A new series is
    scaled by its rows before the forecast. Series with too little history are left out, with a warning.

    Raises:
        ConfigError: an option that this model does not support.
        DataError: missing columns, history or future covariates.
    """
    levels, horizon = check_levels(levels), check_horizon(model, horizon)
    method = choose_method(model, method, levels, horizon)
    panel = model.select_columns(panel)
    chosen, origins = choose_origins(model, panel, start)
    passes = passes_over(horizon, model.pred_len)
    part, rows = take_part(model, panel, chosen, origins, horizon, passes)
    saved = model.config["data"]
    scaled = ScaledPanel.of(
        "the data", part, model.data_state, part.starts, rows,
        ScalingOptions(
            saved["scaler"], saved.get("scale_by", "series"), model.holidays, saved.get("fill"),
            saved.get("fill_limit"), model.season, model.target_columns, known_steps=saved.get("known_steps"),
        ),
    )  # fmt: skip
    known = count_known(part, rows, passes, scaled.known_steps)
    warn_of_empty_windows(model, scaled, torch.from_numpy(rows))
    scaler, series = scaled.scaler.select_columns(model.target_index), torch.arange(len(part))
    point, output = forecast_series(model, scaled, torch.from_numpy(rows), horizon, scaler)

    def unscale(values: Tensor) -> Values:
        return scaler.inverse(values, series).numpy()

    low, high = {}, {}
    for level, (below, above) in scaled_bounds(model, method, levels, point, output[:, :horizon]).items():
        low[level], high[level] = unscale(below), unscale(above)
    places = (part.grid_starts + rows - part.starts)[:, None] + np.arange(horizon)
    return Forecast(
        panel=part.take_rows(np.arange(len(part)), part.starts, rows, rows),
        columns=model.target_columns,
        dates=part.grid.to_numpy()[places],
        values=unscale(point),
        low=low,
        high=high,
        truth=known_truth(part, rows, horizon, model.target_index),
        method=method,
        new=int((scaled.place < 0).sum()),
        known=describe_known_steps(scaled, known, passes),
    )


def scaled_bounds(
    model: TrainedModel,
    method: str,
    levels: Sequence[Level],
    point: Float[Tensor, "series horizon n_targets"],
    output: Float[Tensor, "series steps n_targets ..."],
) -> dict[Level, tuple[Tensor, Tensor]]:
    """Lower and upper bound of each level, from the quantiles of the network (`output`) or from a calibration."""
    horizon = point.shape[1]
    at: Sequence[float] = ()
    quantiles = output
    if levels and method == "quantile":
        at = check_trained_bounds(model, levels, horizon)
    elif levels:
        calibration = calibration_for(model, levels, horizon)
        levels = calibrated_levels(calibration, levels)
        at, quantiles = calibration.quantiles, calibration.around(point)
    sides = {level: bounds(level) for level in levels}
    return {
        level: (quantiles[..., at.index(low)], quantiles[..., at.index(high)])
        for level, (low, high) in sides.items()
    }


def check_horizon(model: TrainedModel, horizon: int | None) -> int:
    """Return the horizon, or pred_len for None. Raises ConfigError for a horizon that this model cannot reach."""
    if horizon is None:
        return model.pred_len
    if isinstance(horizon, bool) or not isinstance(horizon, Integral) or horizon < 1:
        raise ConfigError(f"horizon={horizon} must be a whole number of at least 1")
    horizon = int(horizon)
    if horizon > model.pred_len and model.feature_columns != model.target_columns:
        others = [name for name in model.feature_columns if name not in model.target_columns]
        raise ConfigError(
            f"horizon={horizon} is beyond pred_len={model.pred_len}, and this model reads columns that it does not "
            f"forecast ({', '.join(others[:5])}), whose future is not known: train with pred_len={horizon}"
        )
    return horizon


def describe_known_steps(
    scaled: ScaledPanel, known: Int64[np.ndarray, "series covariates"], steps: int
) -> list[str]:
    """Describe the future covariates that are not known for all steps, such as "temperature for 24 of 168 steps"."""
    found = []
    for name, limit, counts in zip(scaled.panel.future_covariates, scaled.known_steps, known.T, strict=True):
        if limit is not None:
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
    model: TrainedModel,
    scaled: ScaledPanel,
    origins: Int64[Tensor, " series"],
    horizon: int,
    scaler: Scaler,
) -> tuple[Float[Tensor, "series horizon n_targets"], Float[Tensor, "series pred_len n_targets ..."]]:
    """Scaled point forecasts of each series, and the output of the first pass: quantiles, if the network has them."""
    steps = passes_over(horizon, model.pred_len)
    points, outputs = [], []
    for series in track(torch.arange(len(origins)).split(SERIES_AT_ONCE), "Forecasting"):
        first = origins[series] - model.seq_len
        past = scaled.past(first, model.seq_len, series)
        time = (
            scaled.time.past(first, model.seq_len, series),
            scaled.time.ahead(origins[series], steps, series),
        )
        clip = partial(scaler.clip, series=series)
        point, output = roll(model, past, torch.cat(time, dim=1), horizon, clip)
        points.append(point)
        outputs.append(output)
    return torch.cat(points), torch.cat(outputs)
