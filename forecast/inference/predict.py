"""Forecasts of each series of a panel with a trained model, and their intervals."""

import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from forecast.data import DataModule, Panel, Windows
from forecast.data.scaled_panel import ScaledPanel
from forecast.data.scaler import Scaler
from forecast.data.time_features import choose_evenly_spaced
from forecast.evaluation.conformal import Calibration, adapt, calibrate, calibrated_levels, convert_scale
from forecast.evaluation.intervals import map_quantiles
from forecast.evaluation.sample_paths import MIN_TRAJECTORIES, draw_sample_paths
from forecast.evaluation.scores import (
    ADAPTIVE,
    CONFORMAL,
    FEW_HORIZONS,
    MODEL,
    QUANTILE,
    Level,
    bounds,
    list_untrained,
    parse_levels,
)
from forecast.inference.forecast import (
    AUTO,
    FAR,
    SERIES_AT_ONCE,
    Forecast,
    check_method,
    count_history,
    count_series,
    dates_from,
    find_extremes,
    warn_of_constant_values,
    warn_of_far_values,
)
from forecast.inference.forecasters import Output, PointForecaster, Points, round_up_horizon
from forecast.inference.future_covariates import check_covariates
from forecast.inference.model import BATCH_SIZE
from forecast.inference.origins import (
    SeriesOrigins,
    choose_origins,
    known_truth,
    scale_excerpt,
    take_excerpt,
    windows_from,
)
from forecast.system.errors import ConfigError, DataError, ForecastError, check_count
from forecast.system.formatting import shorten
from forecast.system.progress import track

MAX_RECURSIVE_ORIGINS = 512
"""Number of recursive forecasts to calibrate on, for intervals beyond pred_len; of many series, there are more."""

MIN_HORIZONS = 10  # intervals beyond pred_len, and samples, from fewer horizons of validation rows give a warning
REPLAYED_ROWS = 1_024  # number of rows before the origin from which past forecasts are recomputed

MAX_REPLAYED, MIN_REPLAYED = 1 << 15, 32
"""Largest number of repeated forecasts of all series, but for `MIN_REPLAYED` of each."""


def predict(
    forecaster: PointForecaster,
    panel: Panel,
    *,
    horizon: int | None = None,
    start: str | pd.Timestamp | None = None,
    levels: Sequence[Level] = (),
    intervals: str = AUTO,
    samples: int | None = None,
    seed: int = 0,
    ahead: Panel | None = None,
) -> Forecast:
    """Forecast `horizon` steps (default: pred_len) of each series from `start` (default: after the end of each).

    A series of the training data keeps its scale. A new series is scaled by its rows before the forecast. Of a series
    with fewer than seq_len rows, the rows before its first are missing values. `ahead`: see `model_data.add_future`;
    `samples`: number of sample paths, which `seed` determines.

    Raises:
        ConfigError: an option that this model does not support.
        DataError: missing columns, history or future covariates.
    """
    model = forecaster.model
    if samples is not None:
        check_count("samples", samples)
        check_count("seed", seed, least=0)
    levels, horizon = parse_levels(levels), parse_horizon(forecaster, horizon)
    method, panel = choose_method(forecaster, intervals, levels, horizon), model.select_columns(panel)
    origins, n_steps = choose_origins(model, panel, start), round_up_horizon(horizon, model.pred_len)
    history = count_history(forecaster.history, horizon)
    excerpt, rows = take_excerpt(model, panel, origins, history=history, n_steps=n_steps, ahead=ahead)
    scaled = scale_excerpt(model, excerpt, rows)
    known = check_covariates(scaled, rows, n_steps, forecaster.covariates_ahead(scaled))
    warn_of_unusual_inputs(forecaster, scaled, rows, n_steps)
    scaler = scaled.scales.scaler.select_columns(model.target_index)
    windows = windows_from(model, scaled, [range(row, row + 1) for row in rows.tolist()], n_steps)
    point, output = forecast_series(forecaster, windows, horizon, scaler)
    found = find_quantiles(forecaster, panel, origins, (point, output), levels, method, samples is not None)
    unscale = partial(scaler.inverse, series=torch.arange(len(excerpt)))
    low, high = ({level: unscale(found.bound(level, side)).numpy() for level in found.levels} for side in (0, 1))
    paths, order, is_joint = draw_paths(found, scaled, rows, unscale, samples, seed, model.pred_len)
    return Forecast(
        forecaster=forecaster.facts(),
        panel=excerpt.take_rows(np.arange(len(excerpt)), excerpt.starts, rows, rows),
        columns=model.target_columns,
        dates=dates_from(excerpt, rows, horizon),
        values=unscale(point).numpy(),
        low=low,
        high=high,
        truth=known_truth(excerpt, rows, horizon, model.target_index),
        method=method,
        new=int((scaled.scales.place < 0).sum()),
        known=known,
        replayed=found.replayed,
        paths=paths,
        order=order,
        is_joint=is_joint,
        rows_before=(origins.rows - panel.starts[origins.series]).clip(max=model.seq_len),
    )


def parse_horizon(forecaster: PointForecaster, horizon: object) -> int:
    """Return the horizon, or pred_len for None. Raises ConfigError for a horizon that cannot be reached."""
    model = forecaster.model
    if horizon is None:
        return model.pred_len
    horizon = horizon.item() if isinstance(horizon, np.integer) else horizon
    check_count("horizon", horizon)
    assert isinstance(horizon, int)
    read = forecaster.columns_read() - set(model.target_columns)
    others = model.name_columns(name for name in model.feature_columns if name in read)
    if horizon > model.pred_len and forecaster.is_recursive and others:
        raise ConfigError(
            f"horizon={horizon} is beyond pred_len={model.pred_len}, and {forecaster.label} reads columns that it does "
            f"not forecast ({shorten(others, 5)}), whose future is not known: train without them (data.drop), or with "
            f"pred_len={horizon} if the validation and the test part have so many rows"
        )
    return horizon


def warn_of_unusual_inputs(
    forecaster: PointForecaster, scaled: ScaledPanel, rows: Int64[np.ndarray, " series"], n_steps: int
) -> None:
    """Warn of inputs far outside the training data, and of targets that are missing or constant before the forecast."""
    model, scales, panel = forecaster.model, scaled.scales, scaled.panel
    read, first = {*model.target_columns, *forecaster.columns_read()}, rows - model.seq_len
    low, high = FAR[model.config["data"]["scaler"]]
    past = find_extremes(panel.values, first, model.seq_len)  # type: ignore[arg-type]
    for name, i in zip(model.target_columns, model.target_index, strict=True):
        if empty := int(np.isnan(past[0][:, i]).sum()):
            warnings.warn(
                f"no value of {name} in the {model.seq_len} rows before the forecast"
                f"{count_series(empty, len(rows))}: it is forecast from its mean",
                stacklevel=3,
            )
    warn_of_far_values(panel.columns, read, past, (scales.scaler.unscale(low), scales.scaler.unscale(high)), panel)
    warn_of_constant_values(panel.columns, model.target_columns, past, model.seq_len, panel)
    if panel.future is not None:
        covariates, scaler = panel.future_covariates, scales.future_scaler
        future = find_extremes(panel.future[:, : len(covariates)], first, model.seq_len + n_steps)
        warn_of_far_values(covariates, read, future, (scaler.unscale(low), scaler.unscale(high)), panel)


@torch.inference_mode()
def forecast_series(
    forecaster: PointForecaster, windows: Windows, horizon: int, scaler: Scaler
) -> tuple[Points, Output]:
    """Scaled point forecasts of each window, and the output of the first pass: quantiles, if the network has them."""
    points, outputs = [], []
    for index in track(torch.arange(len(windows)).split(SERIES_AT_ONCE), "Forecasting"):
        point, output = forecaster.forecast(windows, windows.gather_past(index), scaler)
        points.append(point[:, :horizon])
        outputs.append(output)
    return torch.cat(points), torch.cat(outputs)


def choose_method(forecaster: PointForecaster, method: str, levels: Sequence[Level], horizon: int) -> str:
    """Choose the method of the intervals. `auto` uses the quantiles of the network if it has all levels and steps.

    Raises ConfigError: an unknown method, or `quantile` without the quantiles of a level or a step.
    """
    check_method(method, None if forecaster.name == MODEL else forecaster.name)
    missing = explain_missing_quantiles(forecaster, levels, horizon)
    if method == QUANTILE and missing:
        raise ConfigError(f"intervals=quantile is not possible, because {missing}: use intervals=conformal")
    if method != AUTO:
        return method
    if missing and levels and forecaster.quantiles is not None:
        warnings.warn(f"the intervals of all levels are conformal, because {missing}", stacklevel=2)
    return CONFORMAL if missing else QUANTILE


def explain_missing_quantiles(forecaster: PointForecaster, levels: Sequence[Level], horizon: int) -> str | None:
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


def calibration_for(
    forecaster: PointForecaster, levels: Sequence[Level], horizon: int, *, with_ranks: bool = False
) -> Calibration:
    """Return the checkpoint's calibration, or calibrate on validation windows if it lacks a level, a step or ranks.

    Beyond pred_len, these are about `MAX_RECURSIVE_ORIGINS` windows of the horizon, which lie in the validation rows.
    """
    model = forecaster.model
    stored = model.calibrations.get(forecaster.name)
    if stored is not None and stored.has(levels, with_ranks=with_ranks) and horizon <= model.pred_len:
        return stored.first(horizon)
    try:
        tested = forecaster.tested()
        with warnings.catch_warnings(action="ignore"):  # of the file, which training gave
            data = tested.model.data()
    except ForecastError as error:
        raise type(error)(
            f"these levels, steps or samples need a calibration on the training data, which failed: {error}; "
            "set levels=[] and no samples"
        ) from None
    windows, chosen, scaler = data.windows["val"], None, data.target_scaler
    if horizon > model.pred_len:
        windows = recursive_windows(data, horizon)
        every = torch.arange(len(windows))
        # joint ranks need the dates that all series share
        chosen = windows.align(every) if with_ranks else every[None]
        chosen = chosen if chosen.shape[1] > MIN_TRAJECTORIES else every[None]
        few = choose_evenly_spaced(chosen.shape[1], max(MAX_RECURSIVE_ORIGINS // len(chosen), MIN_TRAJECTORIES))
        chosen = chosen[:, few].flatten()
    calibration = calibrate(
        lambda batch: tested.forecast(windows, batch, scaler)[0], windows, scaler, BATCH_SIZE, levels,
        lambda batches: track(batches, "Calibrating"), horizon=max(horizon, model.pred_len), chosen=chosen,
    )  # fmt: skip
    return calibration.first(horizon).rescaled(tested.model.target_scaler, model.target_scaler)


class Quantiles(NamedTuple):
    """Scaled quantiles of each value of a forecast, their probabilities, and the levels of the intervals among them.

    `calibration` is None if only trained quantiles are needed; `replayed` forecasts moved the quantiles.
    """

    values: Float[Tensor, "series steps n_targets quantiles"]
    at: Sequence[float]
    levels: Sequence[Level]
    calibration: Calibration | None = None
    replayed: int = 0

    def bound(self, level: Level, side: int) -> Float[Tensor, "series steps n_targets"]:
        """The lower (0) or the upper (1) bound of an interval."""
        return self.values[..., self.at.index(bounds(level)[side])]


def find_quantiles(
    forecaster: PointForecaster,
    panel: Panel,
    origins: SeriesOrigins,
    forecasts: tuple[Points, Output],
    levels: Sequence[Level],
    method: str,
    with_ranks: bool,
) -> Quantiles:
    """The quantiles of the network, or those around its point forecasts, as the method says."""
    point, output = forecasts
    horizon, calibration, replayed = point.shape[1], None, 0
    if with_ranks or (levels and method != QUANTILE):
        calibration = calibration_for(forecaster, levels, horizon, with_ranks=with_ranks)
    if calibration is None or method == QUANTILE:
        return Quantiles(output[:, :horizon], forecaster.quantiles or (), levels, calibration)
    if method == ADAPTIVE:
        calibration, replayed = adapt_to_errors(forecaster, panel, origins, calibration, horizon)
    levels = calibrated_levels(calibration, levels)
    return Quantiles(calibration.around(point), calibration.quantiles, levels, calibration, replayed)


def draw_paths(
    found: Quantiles,
    scaled: ScaledPanel,
    rows: Int64[np.ndarray, " series"],
    unscale: Callable[[Tensor], Tensor],
    samples: int | None,
    seed: int,
    pred_len: int,
) -> tuple[Float64[np.ndarray, "series steps n_targets samples"] | None, str, bool]:
    """Draw sample paths in original units, describe their order, and say whether they are joint; None for no samples.

    Series of training whose first row to forecast, of `rows`, is on the same date are drawn jointly if the calibration
    has their ranks on common dates.

    Raises DataError: the validation rows hold too few horizons.
    """
    if samples is None:
        return None, "", False
    assert found.calibration is not None
    panel, place, ranks = scaled.panel, scaled.scales.place, found.calibration.ranks
    horizons = found.calibration.horizons / (1 if ranks is None else ranks.shape[1])
    if ranks is None or not len(ranks) or horizons < FEW_HORIZONS:
        shorter = "horizon" if found.values.shape[1] > pred_len else "pred_len"
        raise DataError(
            f"sample paths: their order needs validation rows that hold {FEW_HORIZONS} horizons, and these hold "
            f"{horizons:.1f}: train with a larger validation part (data.split) or give a shorter {shorter}"
        )
    has_common_date = len(np.unique(panel.grid_starts + rows - panel.starts)) == 1
    is_joint = ranks.shape[1] > 1 and has_common_date and bool((place >= 0).all())
    ranks = ranks[:, torch.from_numpy(place)] if is_joint else ranks.flatten(0, 1)[:, None]
    paths = map_quantiles(unscale, draw_sample_paths(found.values, found.at, ranks, samples, seed))
    how = "" if len(place) == 1 else "all series jointly, " if is_joint else "each series independently, "
    rough = f", rough, for these hold {horizons:.1f} horizons" if horizons < MIN_HORIZONS else ""
    return (paths.numpy(), f"{how}in the order of the errors of {len(ranks):,} validation windows{rough}", is_joint)


def recursive_windows(data: DataModule, horizon: int) -> Windows:
    """The windows whose `horizon` lies in the validation rows, of a multiple of pred_len steps.

    Raises DataError: the horizon is longer than the validation rows.
    """
    seq_len, pred_len = data.seq_len, data.pred_len
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
    return data.windows["val"].with_starts(starts, pred_len=n_steps)


def adapt_to_errors(
    forecaster: PointForecaster, panel: Panel, origins: SeriesOrigins, calibration: Calibration, horizon: int
) -> tuple[Calibration, int]:
    """The calibration with the offsets of each series at its origin, and the number of repeated forecasts.

    Forecasts that begin after the training rows are repeated, from rows among the last `REPLAYED_ROWS` before the
    origin: with many series from every n-th. If the model was refitted on all rows, the tested one repeats them.

    `calibration`: of the steps of the horizon, on the scale of the forecaster's model.
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
    errors = torch.full((len(excerpt), count, horizon, len(tested.target_index)), torch.nan)
    if sum(counts):
        replayed = [range(row - stride * n, row, stride) for row, n in zip(rows.tolist(), counts.tolist(), strict=True)]
        windows = windows_from(tested, scaled, replayed, n_steps)
        scaler = scaled.scales.scaler.select_columns(tested.target_index)
        point, _ = forecast_series(repeated, windows, horizon, scaler)
        ratio, shift = convert_scale(tested.target_scaler, forecaster.model.target_scaler)
        factors = calibration.factors(point * ratio.float() + shift.float())
        index = torch.arange(len(windows))
        series, ahead = windows.series(index), windows.origins(index)[:, None] + torch.arange(horizon)
        limit = torch.from_numpy(rows)[series][:, None]  # the truth is not known from the origin on
        truth = windows.targets(ahead.minimum(limit - 1))
        found = torch.where((ahead < limit)[..., None], (truth - point) * ratio.float() / factors, torch.nan)
        for own, each in zip(errors, found.split(counts.tolist()), strict=True):
            own[count - len(each) :] = each
    offsets = deque(adapt(calibration, errors, stride), maxlen=1).pop()  # (series, quantiles, steps, n_targets)
    return replace(calibration, offsets=offsets), int(sum(counts))
