"""Backtests: forecasts from many past origins, by a trained model or by models that are trained on the way.

A training reads all rows known at its date: from scratch, or from the weights of the training before.
"""

import copy
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import lightning as L
import numpy as np
import torch
from jaxtyping import Float
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from forecast.checkpoints.contents import is_untrained
from forecast.checkpoints.file import load_checkpoint
from forecast.data import Batch, DataModule, Windows
from forecast.data.panel import name_some
from forecast.data.row_ranges import RowRanges
from forecast.data.scaled_panel import ScaledPanel, Scales
from forecast.data.scaler import Scaler
from forecast.evaluation.baselines import FittedBaselines
from forecast.evaluation.conformal import Calibration, adapt, calibrate
from forecast.evaluation.intervals import IntervalSums, make_interval_sums, map_quantiles
from forecast.evaluation.library_baselines import LibraryForecasts, forecast_with_libraries
from forecast.evaluation.measurement import Backtest, Origins, PerOrigin
from forecast.evaluation.scores import ADAPTIVE, CONFORMAL, DECILES, MODEL, QUANTILE, list_untrained, trained_levels
from forecast.inference.forecast import NEVER, SCRATCH, interval_methods, list_policies
from forecast.inference.forecasters import choose_forecaster
from forecast.inference.model import BATCH_SIZE, TrainedModel, baselines_for
from forecast.inference.origins import count_seen, note_on_seen
from forecast.inference.predict import calibration_for
from forecast.models.residual import take_median
from forecast.system.errors import ConfigError, DataError
from forecast.system.progress import track
from forecast.training.build import count_sanity_steps, make_forecaster, make_trainer, resolve_settings, wrap_model
from forecast.training.checkpointing import Checkpointing, describe_untrained, set_shrinkage
from forecast.training.create_model import compile_where_possible
from forecast.training.module import Forecaster, LightningData, compute_output, predict, window_losses

VALIDATION_DIVISOR = 8  # the last eighth of the dates before a training are validation dates


class Source(NamedTuple):
    """What forecasts from some origins of a backtest.

    Attributes:
        output: returns scaled point forecasts (batch, pred_len, n_targets) of a batch, or quantiles on one more axis.
        quantiles: probabilities of the quantiles in the output; None: it is a point forecast.
    """

    output: Callable[[Batch], Tensor]
    fitted: FittedBaselines
    calibration: Calibration
    state: dict[str, Any]  # state of the training data, with the scale of each of its series
    quantiles: tuple[float, ...] | None = None


def choose_backtest_origins(data: DataModule, steps: int | None, stride: int | None) -> Origins:
    """Choose the origins of a backtest.

    A series with too few rows before or after its first origin is left out, with a warning.

    Args:
        steps: number of last rows of each series that are forecast; None: its test rows.
        stride: rows between two origins of a series; None: pred_len.

    Raises:
        ConfigError: `steps` is longer than the data, or shorter than a forecast.
        DataError: every series is too short.
    """
    panel = data.panel
    if steps is not None and steps > panel.lengths.max():
        longest = f"the longest series of {data.title}" if len(panel) > 1 else data.title
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


def backtest_model(model: TrainedModel, data: DataModule, config: DictConfig) -> Backtest:
    """Forecast from every origin with a trained model, and with the baselines of other libraries.

    A series of the training data keeps its scale. A new series is scaled by its rows before its first origin.
    """
    origins = choose_backtest_origins(data, config.steps, config.stride)
    calibration = calibration_for(choose_forecaster(model), [*config.levels], model.pred_len)
    source = Source(model.output, baselines_for(model, data), calibration, model.data_state, model.quantiles)
    found = new_backtest(config, data, source, origins, forecast_beside(config, data, origins))
    forecast_origins(found, data, source, np.arange(len(origins)))
    found.seen = count_seen(model, data, origins.rows)
    if note := note_on_seen(model, found.seen, f"{len(origins):,} origins", data.panel.utc_offset):
        found.notes.append(f"{note}; backtest fewer of the last rows")
    found.is_untrained = model.is_untrained
    if model.is_untrained:
        found.notes.append(describe_untrained(model.network.warm_start_name))
    if model.quantiles is not None and (untrained := list_untrained(model.quantiles, config.levels)):
        found.notes.append(f"the model has no trained quantiles for levels {', '.join(untrained)}")
    return found


def forecast_beside(config: DictConfig, data: DataModule, origins: Origins) -> LibraryForecasts:
    """Forecast from every origin with the `baselines` of other libraries."""
    names = config.baselines if OmegaConf.is_list(config.baselines) else [config.baselines]
    return forecast_with_libraries([*dict.fromkeys(names)], data, origins, config.chronos)


def new_backtest(
    config: DictConfig, data: DataModule, source: Source, origins: Origins, of_libraries: LibraryForecasts
) -> Backtest:
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
        forecasts={name: np.full(truth.shape, np.nan) for name in (MODEL, *source.fitted.baselines(), *of_libraries)},
        intervals={
            **make_interval_sums(
                source.calibration, source.quantiles, config.levels, scaler, data.pred_len, interval_methods(config)
            ),
            **{
                name: IntervalSums(DECILES, trained_levels(DECILES, config.levels), scaler, data.pred_len)
                for name, quantiles in of_libraries.items()
                if quantiles.shape[-1] > 1
            },
        },
        scaler=scaler,
        naive_mae=unknown.clone(),
        of_libraries=of_libraries,
    )
    as_measured = [name for name in panel.future_covariates if name not in panel.as_of]
    if as_measured:
        found.notes.append(
            f"the forecasts read future covariates ({panel.describe_covariates(as_measured)}) as the data have them; "
            "where these are forecasts themselves, errors will be larger: data.as_of names a column of such forecasts"
        )
    return found


def forecast_origins(backtest: Backtest, data: DataModule, source: Source, chosen: PerOrigin) -> None:
    """Forecast from some of the origins, by their ascending numbers, and add the intervals and all scores."""
    fitted, calibration = source.fitted, source.calibration
    origins = backtest.origins.take(chosen)
    windows, scaler = scale_before(data, source.state, origins)
    series = np.unique(origins.series)
    new = torch.from_numpy(series[backtest.scaler.scale[series].isnan().any(1).numpy()])
    backtest.scaler.copy_scales(scaler, series=new, source=new)
    backtest.naive_mae[new] = fitted.naive_mae_of(data.panel.ids)[new].double()
    for name, of_library in backtest.of_libraries.items():
        quantiles = torch.from_numpy(of_library[chosen])
        backtest.add_forecasts(name, chosen, quantiles[..., quantiles.shape[-1] // 2])
        if name in backtest.intervals:
            backtest.add_intervals(name, chosen, quantiles)
    baselines, numbers = fitted.baselines(), torch.arange(len(windows))

    def keep_intervals(method: str, place: PerOrigin, quantiles: Tensor) -> None:
        unscale = partial(scaler.inverse, series=torch.from_numpy(backtest.origins.series[place]))
        backtest.add_intervals(method, place, map_quantiles(unscale, quantiles))

    points, truths = [], []
    batches = list(zip(numbers.split(BATCH_SIZE), torch.from_numpy(chosen).split(BATCH_SIZE), strict=True))
    with torch.inference_mode():
        for index, place in track(batches, "Forecasting"):
            batch = windows.gather(index)
            output = source.output(batch)
            point = take_median(output, source.quantiles)
            forecasts = {MODEL: point}
            forecasts |= {name: baseline(windows, batch) for name, baseline in baselines.items()}
            for name, forecast in forecasts.items():
                backtest.add_forecasts(name, place.numpy(), scaler.inverse(forecast, batch.series))
            points.append(scaler.clip(point.float(), batch.series))
            truths.append(batch.future)
            keep_intervals(CONFORMAL, place.numpy(), calibration.around(points[-1]))
            if source.quantiles is not None:
                keep_intervals(QUANTILE, place.numpy(), output.float())
    if ADAPTIVE in backtest.intervals:
        for part, quantiles in adaptive_quantiles(calibration, origins, torch.cat(points), torch.cat(truths)):
            keep_intervals(ADAPTIVE, chosen[part], quantiles)


def adaptive_quantiles(
    calibration: Calibration,
    origins: Origins,
    point: Float[Tensor, "origins pred_len n_targets"],
    truth: Float[Tensor, "origins pred_len n_targets"],
) -> Iterator[tuple[PerOrigin, Float[Tensor, "chosen pred_len n_targets quantiles"]]]:
    """Yield numbers of some origins, and their scaled quantiles, whose offsets follow the errors of each series.

    `calibration`: the offsets at the first origin of each series.
    """
    _, series, counts = np.unique(origins.series, return_inverse=True, return_counts=True)
    number = np.arange(len(series)) - (counts.cumsum() - counts)[series]  # of each origin in its series
    errors = torch.full((len(counts), int(counts.max()), *point.shape[1:]), torch.nan)
    errors[series, number] = (truth - point) / calibration.factors(point)
    for origin, offsets in zip(range(errors.shape[1]), adapt(calibration, errors, origins.stride), strict=False):
        here = np.flatnonzero(number == origin)
        yield here, replace(calibration, offsets=offsets[series[here]]).around(point[here])


def scale_before(data: DataModule, state: dict[str, Any], origins: Origins) -> tuple[Windows, Scaler]:
    """Create the windows of these origins, and the scaler of their targets.

    A series that is not in `state` is scaled by its rows before its first origin.
    """
    panel = data.panel.select_columns(data.feature_columns)
    first, counts = origins.first_rows(len(panel))
    rows = RowRanges(panel.starts, np.where(counts > 0, first, panel.starts))
    scales = Scales.fit(data.location, panel, rows, data.options, state=state)
    scaled = ScaledPanel.of(data.location, panel, scales, data.options, season=data.season)
    begins, stride = (first - data.seq_len).tolist(), origins.stride
    windows = scaled.windows(
        [range(a, a + n * stride, stride) for a, n in zip(begins, counts.tolist(), strict=True)],
        seq_len=data.seq_len,
        pred_len=data.pred_len,
        target_index=data.target_index,
    )
    return windows, scales.scaler.select_columns(data.target_index)


class Training(NamedTuple):
    """A model that was trained on all rows before a date."""

    data: DataModule  # its training and validation rows, with its scaler
    forecaster: Forecaster  # at its best epoch by validation
    source: Source
    folder: Path  # holds its checkpoint, `best.ckpt`
    seconds: float


def backtest_with_training(data: DataModule, config: DictConfig) -> dict[str, Backtest]:
    """Train before the first origin, then backtest each policy of `retrain`, which are the keys, with that training.

    The trained models are saved to `trainings` in the output folder, or in a folder of each of several policies.
    """
    policies = list_policies(config)
    origins = choose_backtest_origins(data, config.steps, config.stride)
    folder, cut = Path(config.output_dir), int(origins.positions.min())
    config, lines = resolve_settings(config, data.with_split(split_before(data, cut)))
    if lines:
        print(*lines, sep="\n")
        data = data.with_transform(config.data.transform)
    of_libraries = forecast_beside(config, data, origins)
    print(f"training   on rows to {data.panel.local_date(cut - 1)}")
    first = train(config, data, cut, folder / "trainings" / "0")
    return {
        policy: backtest_policy(
            policy,
            new_backtest(config, first.data, first.source, origins, of_libraries),
            data,
            config,
            first,
            folder / policy if len(policies) > 1 else folder,
        )
        for policy in policies
    }


def backtest_policy(
    policy: str, backtest: Backtest, data: DataModule, config: DictConfig, training: Training, folder: Path
) -> Backtest:
    """Forecast from all origins, and train again after every `refit_every` rows as the policy says.

    Each training reads all rows known at its date, and ends all series at the same date.

    Args:
        training: the training before the first origin.
        folder: receives the models of the others.
    """
    origins = backtest.origins
    rows_since_first, every = origins.positions - origins.positions.min(), config.refit_every
    is_trained_once = every is None or policy == NEVER
    period = np.zeros_like(rows_since_first) if is_trained_once else rows_since_first // every
    periods, untrained = np.unique(period), 0
    for number, current in enumerate(periods):
        chosen = np.flatnonzero(period == current)
        cut = int(origins.positions[chosen].min())
        if number:
            print(f"training   {policy}, {number + 1} of {len(periods)}, on rows to {data.panel.local_date(cut - 1)}")
            before = None if policy == SCRATCH else training
            training = train(config, data, cut, folder / "trainings" / str(number), before)
        backtest.trainings.append(cut)
        backtest.training_seconds.append(training.seconds)
        untrained += training.forecaster.is_untrained
        forecast_origins(backtest, training.data, training.source, chosen)
    backtest.is_untrained = untrained == len(periods)
    if untrained:
        count = f" ({untrained} of {len(periods)} trainings, retrain={policy})" if len(periods) > 1 else ""
        backtest.notes.append(describe_untrained(training.forecaster.model.warm_start_name) + count)
    return backtest


def train(config: DictConfig, data: DataModule, cut: int, folder: Path, before: Training | None = None) -> Training:
    """Train on the rows before a position of the grid; the checkpoint is saved to `folder`.

    None as `before` trains a new model. Otherwise the model of that training is trained for `fine_tune_epochs` more,
    with its scaler and a new schedule of the learning rate, and kept as it was if its validation loss was lower.
    """
    began = time.perf_counter()
    known = data.with_split(split_before(data, cut))
    if before is not None:
        known = known.with_state(before.data.state_dict())
    fitted = FittedBaselines.fit(known)
    L.seed_everything(config.seed, workers=True, verbose=False)
    if before is None:
        forecaster = make_forecaster(config, known, fitted)
        if fitted.shrinkage and (line := fitted.shrinkage.describe()):
            print(f"linear     {line}")
    else:
        epochs = {"trainer": {"max_epochs": config.fine_tune_epochs}}
        config = OmegaConf.merge(config, epochs)  # type: ignore[assignment]
        forecaster = wrap_model(config, copy.deepcopy(before.forecaster.model).train(), fitted)
        set_shrinkage(forecaster, 1.0)
    is_unchanged = train_to_best(config, known, forecaster, folder)
    forecaster.is_untrained = is_unchanged and (before is None or before.forecaster.is_untrained)
    if before is not None and validation_loss(before.forecaster, known) <= validation_loss(forecaster, known):
        forecaster = before.forecaster
        shutil.copyfile(before.folder / "best.ckpt", folder / "best.ckpt")
        print("           not used: the validation loss was lower before")
    seconds = time.perf_counter() - began
    point, windows = partial(predict, forecaster), known.windows["val"]
    calibration = calibrate(point, windows, known.target_scaler, BATCH_SIZE, [*config.levels])
    source = Source(point, fitted, calibration, known.scaled.state_dict())
    return Training(known, forecaster, source, folder, seconds)


def split_before(data: DataModule, cut: int) -> list[str]:
    """The split whose training and validation rows lie before a position of the grid.

    Raises DataError: too few dates lie before the position.
    """
    grid = data.panel.grid
    validation = cut - max(cut // VALIDATION_DIVISOR, data.pred_len)
    if validation < 1:
        raise DataError(
            f"{data.name}: {cut:,} dates before the first origin, {data.panel.local_date(cut)}, are too few to train "
            "and validate on: give fewer steps"
        )
    return [str(date) for date in data.panel.utc_offset.zoned(grid[[validation, cut]])]


def train_to_best(config: DictConfig, data: DataModule, forecaster: Forecaster, folder: Path) -> bool:
    """Train, and restore the best epoch by validation, whose checkpoint is saved to `folder`.

    Returns whether no epoch was better than the model before them, which is then restored.
    """
    trainer = make_trainer(
        config,
        Checkpointing(str(folder), every_minutes=config.callbacks.checkpoint.every_minutes),
        names=("progress", "finite", "average", "early_stopping"),
        logger=False,
        num_sanity_val_steps=count_sanity_steps(forecaster.model),
    )
    if trainer.world_size > 1:
        raise ConfigError(f"trainer.devices={config.trainer.devices}: a backtest trains on one device")
    if config.compile:
        compile_where_possible(forecaster.model, trainer.strategy.root_device)
    trainer.fit(forecaster, datamodule=LightningData(data))
    best = load_checkpoint(folder / "best.ckpt")
    forecaster.load_state_dict(best["state_dict"])
    return is_untrained(best)


def validation_loss(forecaster: Forecaster, data: DataModule) -> float:
    """Compute the loss of the measured values of the validation windows that selects the best epoch."""
    windows, losses, measured = data.windows["val"], [], []
    for index in torch.arange(len(windows), device=windows.device).split(BATCH_SIZE):
        batch = windows.gather(index)
        forecast = data.target_scaler.clip(compute_output(forecaster, batch), batch.series)
        losses.append(window_losses(forecast, batch, data.target_scaler, forecaster.quantiles)[:, -1])
        measured.append(batch.future.isfinite().double().mean((1, 2)))
    return float(torch.cat(losses).double().sum() / torch.cat(measured).sum())
