"""Backtests: forecasts from many past origins, each with a model and data known at its date."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from omegaconf import DictConfig
from torch import Tensor

from forecast.data import Batch, DataModule, Windows
from forecast.data.panel import name_longest, name_some
from forecast.data.row_ranges import RowRanges
from forecast.data.scaled_panel import ScaledPanel, Scales
from forecast.data.scaler import Scaler
from forecast.evaluation.backtest import Backtest, Origins, PerOrigin, adaptive_quantiles
from forecast.evaluation.baselines import FittedBaselines
from forecast.evaluation.conformal import Calibration
from forecast.evaluation.intervals import make_interval_sums, map_quantiles
from forecast.evaluation.levels import ADAPTIVE, CONFORMAL, QUANTILE, list_untrained
from forecast.evaluation.scores import MODEL
from forecast.inference.evaluate import baselines_for
from forecast.inference.forecasters import ModelForecaster
from forecast.inference.intervals import calibration_for
from forecast.inference.model import BATCH_SIZE, TrainedModel
from forecast.inference.options import interval_methods
from forecast.inference.origins import count_seen, note_on_origins
from forecast.models.residual import take_median
from forecast.system.errors import ConfigError, DataError
from forecast.system.progress import track
from forecast.training.losses import describe_untrained

Output = Callable[[Batch], Tensor]
"""Function of a batch. Returns scaled point forecasts (batch, pred_len, n_targets), or along one more axis trained
quantiles."""


def choose_backtest_origins(data: DataModule, steps: int | None, stride: int | None) -> Origins:
    """Choose the origins of a backtest.

    A series with too few rows before or after its first origin is left out, with a warning.

    Args:
        data: the data to forecast.
        steps: number of last rows of each series that are forecast; None: its test rows.
        stride: rows between two origins of a series; None: pred_len.

    Raises:
        ConfigError: `steps` is longer than the data, or shorter than a forecast.
        DataError: every series is too short.
    """
    panel = data.panel
    if steps is not None and steps > panel.lengths.max():
        longest = name_longest(panel, data.title)
        raise ConfigError(f"steps={steps:,}: {longest} has {panel.lengths.max():,} rows: give fewer steps")
    first, stop = data.rows["test"] if steps is None else (panel.ends - steps, panel.ends)
    if (rows := (stop - first).max()) < data.pred_len:
        raise ConfigError(f"steps={rows} is shorter than pred_len={data.pred_len}: give more steps")
    is_long_enough = (first - panel.starts >= data.seq_len) & (stop - first >= data.pred_len)
    if not is_long_enough.any():
        raise DataError(
            f"{data.name}: there are {(first - panel.starts).max():,} rows before the first origin, and the model "
            f"reads seq_len={data.seq_len}: give fewer steps"
        )
    if not is_long_enough.all():
        warnings.warn(
            f"{data.name}: {int((~is_long_enough).sum()):,} of {len(panel):,} series left out: fewer than "
            f"seq_len={data.seq_len} rows before their first origin, or fewer than pred_len={data.pred_len} after it: "
            f"{name_some(panel, ~is_long_enough)}",
            stacklevel=2,
        )
    stop = np.where(is_long_enough, stop - data.pred_len + 1, first)
    return Origins.between(panel, first, stop, stride or data.pred_len)


class Trained(NamedTuple):
    """The forecasters of the origins of a backtest after one training.

    Attributes:
        output: the forecast of the model.
        fitted: the baselines.
        calibration: the conformal intervals.
        state: state of the training data, with the scale of each of its series.
        quantiles: probabilities of the quantiles in the output; None: it is a point forecast.
    """

    output: Output
    fitted: FittedBaselines
    calibration: Calibration
    state: dict[str, Any]
    quantiles: tuple[float, ...] | None = None


def backtest_model(model: TrainedModel, data: DataModule, config: DictConfig) -> Backtest:
    """Forecast from every origin with a trained model.

    A series of the training data keeps its scale. A new series is scaled by its rows before its first origin.
    """
    origins = choose_backtest_origins(data, config.steps, config.stride)
    fitted = baselines_for(model, data)
    calibration = calibration_for(ModelForecaster(model), [*config.levels], model.pred_len)

    def output(batch: Batch) -> Tensor:
        return model.forecast(batch.past, batch.past_time, batch.future_time)

    trained = Trained(output, fitted, calibration, model.data_state, model.quantiles)
    found = new_backtest(config, data, trained, origins)
    forecast_origins(found, data, trained, np.arange(len(origins)))
    found.seen = count_seen(model, data, origins)
    if note := note_on_origins(model, found.seen, len(origins), data.panel.utc_offset):
        found.notes.append(note)
    found.is_untrained = model.is_untrained
    if model.is_untrained:
        found.notes.append(describe_untrained(model.network.warm_start_name))
    if model.quantiles is not None and (untrained := list_untrained(model.quantiles, config.levels)):
        found.notes.append(f"the model has no trained quantiles for levels {', '.join(untrained)}")
    return found


def new_backtest(config: DictConfig, data: DataModule, trained: Trained, origins: Origins) -> Backtest:
    """Create a backtest that holds the truth, and NaN for every forecast of the model and of the baselines."""
    panel = data.panel
    targets = [panel.columns.index(name) for name in data.target_columns]
    truth = panel.values[origins.rows[:, None] + np.arange(data.pred_len)][..., targets].astype(np.float64)
    unknown = torch.full((len(panel), data.n_targets), torch.nan, dtype=torch.float64)
    scaler = Scaler(unknown, unknown.clone(), data.target_scaler.domain)
    found = Backtest(
        title=data.title,
        attention=config.model.attention.name,
        columns=list(data.target_columns),
        panel=panel,
        origins=origins,
        truth=truth,
        forecasts={name: np.full(truth.shape, np.nan) for name in (MODEL, *trained.fitted.baselines())},
        intervals=make_interval_sums(
            trained.calibration,
            trained.quantiles,
            config.levels,
            scaler,
            data.pred_len,
            interval_methods(config),
        ),
        scaler=scaler,
        naive_mae=unknown.clone(),
    )
    as_measured = [name for name in panel.future_covariates if name not in panel.as_of]
    if as_measured:
        found.notes.append(
            f"the forecasts read future covariates ({panel.describe_covariates(as_measured)}) as the data have them; "
            "where these are forecasts themselves, errors will be larger: data.as_of names a column of such forecasts"
        )
    return found


def forecast_origins(backtest: Backtest, data: DataModule, trained: Trained, chosen: PerOrigin) -> None:
    """Forecast from some of the origins, and add the intervals and their scores.

    Args:
        backtest: receives the forecasts, the bounds and the scores.
        data: holds all rows.
        trained: the model and the baselines.
        chosen: numbers of the origins, ascending.
    """
    fitted, calibration = trained.fitted, trained.calibration
    origins = backtest.origins.take(chosen)
    windows, scaler = scale_before(data, trained.state, origins)
    series = np.unique(origins.series)
    new = torch.from_numpy(series[backtest.scaler.scale[series].isnan().any(1).numpy()])
    backtest.scaler.copy_scales(scaler, series=new, source=new)
    backtest.naive_mae[new] = fitted.naive_mae_of(data.panel.ids)[new].double()
    baselines, numbers = fitted.baselines(), torch.arange(len(windows))

    def keep_intervals(method: str, place: PerOrigin, quantiles: Tensor) -> None:
        unscale = partial(scaler.inverse, series=torch.from_numpy(backtest.origins.series[place]))
        backtest.add_intervals(method, place, map_quantiles(unscale, quantiles))

    points, truths = [], []
    batches = list(zip(numbers.split(BATCH_SIZE), torch.from_numpy(chosen).split(BATCH_SIZE), strict=True))
    with torch.inference_mode():
        for index, place in track(batches, "Forecasting"):
            batch = windows.gather(index)
            output = trained.output(batch)
            point = take_median(output, trained.quantiles)
            forecasts = {MODEL: point}
            forecasts |= {name: baseline(windows, batch) for name, baseline in baselines.items()}
            for name, forecast in forecasts.items():
                backtest.forecasts[name][place.numpy()] = scaler.inverse(forecast, batch.series).numpy()
            points.append(scaler.clip(point.float(), batch.series))
            truths.append(batch.future)
            keep_intervals(CONFORMAL, place.numpy(), calibration.around(points[-1]))
            if trained.quantiles is not None:
                keep_intervals(QUANTILE, place.numpy(), output.float())
    if ADAPTIVE in backtest.intervals:
        parts = adaptive_quantiles(calibration, origins, torch.cat(points), torch.cat(truths))
        for part, quantiles in parts:
            keep_intervals(ADAPTIVE, chosen[part], quantiles)


def scale_before(data: DataModule, state: dict[str, Any], origins: Origins) -> tuple[Windows, Scaler]:
    """Create the windows of these origins, and the scaler of their targets.

    A series that is not in `state` is scaled by its rows before its first origin.
    """
    panel = data.panel.select_columns(data.feature_columns)
    first, counts = origins.first_rows(len(panel))
    rows = RowRanges(panel.starts, np.where(counts > 0, first, panel.starts))
    scales = Scales.restore(data.location, panel, state, rows, data.options)
    scaled = ScaledPanel.of(data.location, panel, scales, data.options, season=data.season)
    begin = first - data.seq_len
    stop = np.where(counts > 0, begin + (counts - 1) * origins.stride + 1, begin)
    windows = scaled.windows(
        [range(a, b, origins.stride) for a, b in zip(begin.tolist(), stop.tolist(), strict=True)],
        seq_len=data.seq_len,
        pred_len=data.pred_len,
        target_index=data.target_index,
    )
    return windows, scales.scaler.select_columns(data.target_index)
