"""Backtests that train: once, or again after some rows, from scratch or from the weights of the training before."""

import copy
import shutil
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import lightning as L
import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf

from forecast.checkpoints.contents import is_untrained
from forecast.checkpoints.file import load_checkpoint
from forecast.data import DataModule
from forecast.evaluation.backtest import Backtest, Origins
from forecast.evaluation.baselines import FittedBaselines
from forecast.evaluation.conformal import calibrate
from forecast.inference.backtest import Trained, choose_backtest_origins, forecast_origins, new_backtest
from forecast.inference.model import BATCH_SIZE
from forecast.inference.options import NEVER, SCRATCH, list_policies
from forecast.system.errors import ConfigError, DataError
from forecast.training.build import (
    count_sanity_steps,
    make_forecaster,
    make_trainer,
    resolve_settings,
    wrap_model,
)
from forecast.training.checkpointing import Checkpointing
from forecast.training.hardware import compile_where_possible
from forecast.training.losses import describe_untrained, set_shrinkage, window_losses
from forecast.training.module import Forecaster, LightningData, compute_output, predict

VALIDATION_DIVISOR = 8
"""The last eighth of the dates before a training are validation dates."""


@dataclass(frozen=True)
class Training:
    """A model that was trained on all rows before a date.

    Attributes:
        data: its training and validation rows, with its scaler.
        forecaster: at its best epoch by validation.
        trained: the forecasters of the origins.
        folder: holds its checkpoint, `best.ckpt`.
        seconds: time of the training.
    """

    data: DataModule
    forecaster: Forecaster
    trained: Trained
    folder: Path
    seconds: float


def backtest_with_training(data: DataModule, config: DictConfig) -> dict[str, Backtest]:
    """Train before the first origin, then backtest each policy of `retrain` with that training.

    The trained models are saved to `trainings` in the output folder, or in a folder of each of several policies.

    Returns:
        The backtest of each policy.
    """
    policies = list_policies(config)
    origins = choose_backtest_origins(data, config.steps, config.stride)
    folder, cut = Path(config.output_dir), int(origins.positions.min())
    config, lines = resolve_settings(config, data.resplit(split_before(data, cut)))
    if lines:
        print(*lines, sep="\n")
        data.set_transform(config.data.transform)
    print(f"training   on rows to {data.panel.local_date(cut - 1)}")
    first = train_from_scratch(config, data, cut, folder / "trainings" / "0")
    return {
        policy: backtest_policy(
            policy, data, config, origins, first, folder / policy if len(policies) > 1 else folder
        )
        for policy in policies
    }


def backtest_policy(
    policy: str, data: DataModule, config: DictConfig, origins: Origins, training: Training, folder: Path
) -> Backtest:
    """Forecast from all origins, and train again after every `refit_every` rows as the policy says.

    Each training reads all rows known at its date, and ends all series at the same date.

    Args:
        training: the training before the first origin.
        folder: receives the models of the others.
    """
    backtest = new_backtest(config, training.data, training.trained, origins)
    rows_since_first, every = origins.positions - origins.positions.min(), config.refit_every
    is_trained_once = every is None or policy == NEVER
    period = np.zeros_like(rows_since_first) if is_trained_once else rows_since_first // every
    periods, untrained = np.unique(period), 0
    for number, current in enumerate(periods):
        chosen = np.flatnonzero(period == current)
        cut = int(origins.positions[chosen].min())
        if number:
            print(
                f"training   {policy}, {number + 1} of {len(periods)}, on rows to {data.panel.local_date(cut - 1)}"
            )
            train = train_from_scratch if policy == SCRATCH else partial(fine_tune, before=training)
            training = train(config, data, cut, folder / "trainings" / str(number))
        backtest.trainings.append(cut)
        backtest.training_seconds.append(training.seconds)
        untrained += training.forecaster.is_untrained
        forecast_origins(backtest, training.data, training.trained, chosen)
    backtest.is_untrained = untrained == len(periods)
    if untrained:
        count = f" ({untrained} of {len(periods)} trainings, retrain={policy})" if len(periods) > 1 else ""
        backtest.notes.append(describe_untrained(training.forecaster.model.warm_start_name) + count)
    return backtest


def train_from_scratch(config: DictConfig, data: DataModule, cut: int, folder: Path) -> Training:
    """Train a new model on the rows before a position of the grid; its checkpoint is saved to `folder`."""
    began = time.perf_counter()
    known = data.resplit(split_before(data, cut))
    fitted = FittedBaselines.fit(known)
    L.seed_everything(config.seed, workers=True, verbose=False)
    forecaster = make_forecaster(config, known, fitted)
    for shrinkage in fitted.shrinkages.values():
        if line := shrinkage.describe():
            print(f"linear     {line}")
    forecaster.is_untrained = train_to_best(config, known, forecaster, folder)
    return finish_training(config, known, fitted, forecaster, folder, began)


def fine_tune(config: DictConfig, data: DataModule, cut: int, folder: Path, *, before: Training) -> Training:
    """Train the model of the training before for `fine_tune_epochs` more, on the rows before a position of the grid.

    The scaler is kept. The schedule of the learning rate begins again. If the model had a lower validation loss
    without these epochs, it is kept as it was.
    """
    began = time.perf_counter()
    known = data.resplit(split_before(data, cut))
    known.load_state_dict(before.data.state_dict())
    fitted = FittedBaselines.fit(known)
    L.seed_everything(config.seed, workers=True, verbose=False)
    settings = OmegaConf.merge(config, {"trainer": {"max_epochs": config.fine_tune_epochs}})
    assert isinstance(settings, DictConfig)
    forecaster = wrap_model(settings, copy.deepcopy(before.forecaster.model).train(), fitted)
    set_shrinkage(forecaster, 1.0)
    is_unchanged = train_to_best(settings, known, forecaster, folder)
    forecaster.is_untrained = is_unchanged and before.forecaster.is_untrained
    if validation_loss(before.forecaster, known) <= validation_loss(forecaster, known):
        forecaster = before.forecaster
        shutil.copyfile(before.folder / "best.ckpt", folder / "best.ckpt")
        print("           not used: the validation loss was lower before")
    return finish_training(config, known, fitted, forecaster, folder, began)


def finish_training(
    config: DictConfig,
    known: DataModule,
    fitted: FittedBaselines,
    forecaster: Forecaster,
    folder: Path,
    began: float,
) -> Training:
    """Calibrate intervals on the validation windows; `began` is the time at which the training began."""
    seconds = time.perf_counter() - began

    point, windows = partial(predict, forecaster), known.windows["val"]
    calibration = calibrate(point, windows, known.target_scaler, BATCH_SIZE, [*config.levels])
    trained = Trained(point, fitted, calibration, known.scaled.state_dict())
    return Training(known, forecaster, trained, folder, seconds)


def split_before(data: DataModule, cut: int) -> list[str]:
    """The split whose training and validation rows lie before a position of the grid.

    Raises:
        DataError: too few dates lie before the position.
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

    Returns:
        Whether no epoch was better than the model before them, which is then restored.
    """
    trainer = make_trainer(
        config,
        Checkpointing(str(folder), every_minutes=config.callbacks.checkpoint.every_minutes),
        names=("progress", "finite", "early_stopping"),
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
        forecast = data.clip_targets(compute_output(forecaster, batch), batch.series)
        losses.append(window_losses(forecast, batch, data.target_scaler, forecaster.quantiles)[:, -1])
        measured.append(batch.future.isfinite().double().mean((1, 2)))
    return float(torch.cat(losses).double().sum() / torch.cat(measured).sum())
