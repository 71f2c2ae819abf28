"""Backtests: forecasts from many past origins, each with a model and data known at its date."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import lightning as L
import numpy as np
import torch
from omegaconf import DictConfig
from torch import Tensor

from forecast.checkpoints.file import load_checkpoint
from forecast.data import Batch, DataModule, Windows
from forecast.data.row_ranges import RowRanges
from forecast.data.scaled_panel import ScaledPanel
from forecast.data.scaling.scaler import Scaler
from forecast.data.scaling.scales import Scales
from forecast.evaluation.adaptive import score_adaptive
from forecast.evaluation.backtest import Backtest, Origins, PerOrigin
from forecast.evaluation.conformal import Calibration, calibrate, calibrated_levels
from forecast.evaluation.fitted_baselines import FittedBaselines
from forecast.evaluation.intervals import IntervalSums
from forecast.evaluation.names import MODEL
from forecast.evaluation.quantiles import map_quantiles
from forecast.inference.backtest_origins import check_rows, choose_backtest_origins
from forecast.inference.evaluate import baselines_for
from forecast.inference.model import BATCH_SIZE, TrainedModel
from forecast.inference.trained_rows import count_seen, note_on_origins
from forecast.system.errors import ConfigError, DataError
from forecast.system.progress import track
from forecast.training.build import batches_before_training, make_forecaster, make_trainer
from forecast.training.checkpointing import Checkpointing
from forecast.training.compile import compile_where_possible
from forecast.training.lightning_data import LightningData
from forecast.training.module import Forecaster
from forecast.training.point_forecast import predict

VALIDATION_DIVISOR = 8
"""The last eighth of the dates before a training are validation dates."""

Point = Callable[[Batch], Tensor]
"""Function of a batch. Returns scaled point forecasts (batch, pred_len, n_targets)."""


class Trained(NamedTuple):
    """What forecasts from the origins of a backtest after one training.

    Attributes:
        point: the forecast of the model.
        fitted: the baselines.
        calibration: the intervals.
        state: state of the training data, with the scale of each of its series.
    """

    point: Point
    fitted: FittedBaselines
    calibration: Calibration
    state: dict[str, Any]


def backtest_model(model: TrainedModel, data: DataModule, config: DictConfig) -> Backtest:
    """Forecast from every origin with a trained model.

    A series of the training data keeps its scale. A new series is scaled by its rows before its first origin.
    """
    origins = choose_backtest_origins(data, config.steps, config.stride)
    fitted, calibration = baselines_for(model, data), model.calibration
    if calibration is None or not calibration.has([*config.levels]):
        own = model.data()
        calibration = calibrate(
            model.forecast_batch, own.windows["val"], own.target_scaler, BATCH_SIZE, [*config.levels]
        )
    trained = Trained(model.forecast_batch, fitted, calibration, model.data_state)
    found = new_backtest(config, data, trained, origins)
    forecast_origins(found, data, trained, np.arange(len(origins)))
    found.seen = count_seen(model, data, origins)
    if note := note_on_origins(model, found.seen, len(origins)):
        found.notes.append(note)
    return found


def backtest_with_refits(data: DataModule, config: DictConfig) -> Backtest:
    """Train before the first origin, and again after every `refit_every` rows, on all rows known at that date.

    Each training ends all series at the same date. The trained models are saved to `trainings` in the output folder.
    """
    check_rows("refit_every", config.refit_every)
    origins = choose_backtest_origins(data, config.steps, config.stride)
    passed = origins.positions - origins.positions.min()
    training = passed // config.refit_every if config.refit_every else np.zeros_like(passed)
    numbers, found = np.unique(training), None
    for done, number in enumerate(numbers):
        chosen = np.flatnonzero(training == number)
        cut = int(origins.positions[chosen].min())
        print(f"training   {done + 1} of {len(numbers)}, on rows to {data.panel.grid[cut - 1]}")
        known = known_before(data, cut)
        fitted = FittedBaselines.fit(known)
        forecaster = train_best(config, known, fitted, Path(config.output_dir) / "trainings" / str(done))

        def point(batch: Batch, forecaster: Forecaster = forecaster) -> Tensor:
            return predict(forecaster, batch)

        calibration = calibrate(
            point, known.windows["val"], known.target_scaler, BATCH_SIZE, [*config.levels]
        )
        trained = Trained(point, fitted, calibration, known.scaled.state_dict())
        if found is None:
            found = new_backtest(config, known, trained, origins)
        found.trainings.append(cut)
        forecast_origins(found, known, trained, chosen)
    assert found is not None
    return found


def known_before(data: DataModule, cut: int) -> DataModule:
    """Split the data so that all training and validation rows lie before a position of the grid.

    Raises:
        DataError: too few dates lie before the position.
    """
    grid = data.panel.grid
    validation = cut - max(cut // VALIDATION_DIVISOR, data.pred_len)
    if validation < 1:
        raise DataError(
            f"{data.name}: {cut:,} dates before the first origin, {grid[cut]}, are too few to train and validate on: "
            "give fewer steps"
        )
    return data.resplit([str(date) for date in data.panel.utc_offset.zoned(grid[[validation, cut]])])


def train_best(config: DictConfig, data: DataModule, fitted: FittedBaselines, folder: Path) -> Forecaster:
    """Train a new model and return it at its best epoch by validation; its checkpoint is saved to `folder`."""
    L.seed_everything(config.seed, workers=True, verbose=False)
    forecaster = make_forecaster(config, data, fitted)
    trainer = make_trainer(
        config,
        Checkpointing(str(folder), every_minutes=config.callbacks.checkpoint.every_minutes),
        names=("progress", "finite", "early_stopping"),
        logger=False,
        num_sanity_val_steps=batches_before_training(forecaster.model),
    )
    if trainer.world_size > 1:
        raise ConfigError(f"trainer.devices={config.trainer.devices}: a backtest trains on one device")
    if config.compile:
        compile_where_possible(forecaster.model, trainer.strategy.root_device)
    trainer.fit(forecaster, datamodule=LightningData(data))
    forecaster.load_state_dict(load_checkpoint(folder / "best.ckpt")["state_dict"])
    return forecaster


def new_backtest(config: DictConfig, data: DataModule, trained: Trained, origins: Origins) -> Backtest:
    """Create a backtest that holds the truth, and NaN for every forecast of the model and of the baselines."""
    panel, calibration = data.panel, trained.calibration
    targets = [panel.columns.index(name) for name in data.target_columns]
    truth = panel.values[origins.rows[:, None] + np.arange(data.pred_len)][..., targets].astype(np.float64)
    unknown = torch.full((len(panel), data.n_targets), torch.nan, dtype=torch.float64)
    scaler = Scaler(unknown, unknown.clone(), data.target_scaler.domain)
    levels = calibrated_levels(calibration, config.levels)
    found = Backtest(
        title=data.title,
        attention=config.model.attention.name,
        columns=list(data.target_columns),
        panel=panel,
        origins=origins,
        truth=truth,
        forecasts={name: np.full(truth.shape, np.nan) for name in (MODEL, *trained.fitted.baselines())},
        intervals={
            method: IntervalSums(calibration.quantiles, levels, scaler) for method in interval_methods(config)
        },
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


def interval_methods(config: DictConfig) -> tuple[str, ...]:
    """The methods of the intervals to score. Raises ConfigError for an unknown one."""
    if config.intervals not in ("conformal", "adaptive"):
        raise ConfigError(f"intervals={config.intervals} is not one of conformal, adaptive")
    return ("conformal",) if config.intervals == "conformal" else ("conformal", "adaptive")


def forecast_origins(found: Backtest, data: DataModule, trained: Trained, chosen: PerOrigin) -> None:
    """Forecast from some of the origins, and add the scores of the intervals.

    Args:
        found: receives the forecasts and the scores.
        data: holds all rows.
        trained: the model and the baselines.
        chosen: numbers of the origins, ascending.
    """
    point, fitted, calibration, state = trained
    origins = found.origins.take(chosen)
    windows, scaler = scale_before(data, state, origins)
    series = np.unique(origins.series)
    new = torch.from_numpy(series[found.scaler.scale[series].isnan().any(1).numpy()])
    found.scaler.copy_scales(scaler, series=new, source=new)
    found.naive_mae[new] = fitted.naive_mae_of(data.panel.ids)[new].double()
    baselines, numbers = fitted.baselines(), torch.arange(len(windows))

    def rescale(values: Tensor, series: Tensor) -> Tensor:
        """From the scale of this model to the scale of the errors."""
        return found.scaler.transform(scaler.inverse(values, series), series)

    points, truths = [], []
    batches = list(zip(numbers.split(BATCH_SIZE), torch.from_numpy(chosen).split(BATCH_SIZE), strict=True))
    with torch.inference_mode():
        for index, place in track(batches, "Forecasting"):
            batch = windows.gather(index)
            forecasts = {MODEL: point(batch)}
            forecasts |= {name: baseline(windows, batch) for name, baseline in baselines.items()}
            for name, forecast in forecasts.items():
                found.forecasts[name][place.numpy()] = scaler.inverse(forecast, batch.series).numpy()
            points.append(scaler.clip(forecasts[MODEL].float(), batch.series))
            truths.append(batch.future)
            quantiles = map_quantiles(partial(rescale, series=batch.series), calibration.around(points[-1]))
            found.intervals["conformal"].update(quantiles, rescale(batch.future, batch.series), batch.series)
    if "adaptive" in found.intervals:
        sums = found.intervals["adaptive"]
        score_adaptive(sums, calibration, origins, torch.cat(points), torch.cat(truths), rescale)


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
