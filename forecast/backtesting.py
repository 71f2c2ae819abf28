"""Rolling origins: what would have been forecast at each of them, with what was known and trained by then."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import pandas as pd
import torch
from hydra.utils import instantiate
from jaxtyping import Float64, Int64
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from forecast.baselines import FittedBaselines
from forecast.build import before_training, make_forecaster, make_trainer
from forecast.checkpoint import load_checkpoint
from forecast.compiler import compile_where_possible
from forecast.conformal import Calibration, calibrate, enough
from forecast.data import Batch, ForecastData
from forecast.errors import ConfigError, DataError
from forecast.evaluation import baselines_for
from forecast.forecaster import Forecaster
from forecast.interval_scores import IntervalSums
from forecast.progress import track
from forecast.report import predict
from forecast.scores import MODEL
from forecast.trained import TrainedModel
from forecast.trust import TRAINING, check_trusted

BATCH = 64
VALIDATION = 8  # the last eighth of the rows known at a training is for validation

Point = Callable[[Batch], Tensor]


@dataclass
class Backtest:
    """Forecasts in data units, `forecasts[name]` and `truth` (origins, pred_len, n_targets).

    `origins` are rows of the table, the first one forecast; `trainings` those before which a model was trained on all
    that was known (none: it came from a checkpoint). `scale` makes errors scaled ones, the same for all origins;
    `naive_mae` is MASE's denominator, from the rows of the first training.
    """

    title: str
    attention: str
    columns: list[str]
    freq: str
    dates: pd.DatetimeIndex
    origins: Int64[np.ndarray, " origins"]
    scale: Float64[np.ndarray, " n_targets"]
    naive_mae: Float64[np.ndarray, " n_targets"]
    truth: Float64[np.ndarray, "origins pred_len n_targets"]
    forecasts: dict[str, Float64[np.ndarray, "origins pred_len n_targets"]]
    intervals: IntervalSums
    trainings: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def scaled_errors(self, name: str) -> Float64[np.ndarray, "origins pred_len n_targets"]:
        return (self.forecasts[name] - self.truth) / self.scale


def choose_origins(
    data: ForecastData, steps: int | None, stride: int | None
) -> Int64[np.ndarray, " origins"]:
    """Rows that are forecast first: `stride` (default: pred_len) apart in the last `steps` rows, or the test split's.

    Raises ConfigError for numbers that cannot be, DataError where the table is too short.
    """
    for key, value in {"steps": steps, "stride": stride}.items():
        if value is not None and (type(value) is not int or value < 1):
            raise ConfigError(f"{key}={value} must be a whole number of rows, at least 1")
    if steps is not None and steps > len(data.table.dates):
        raise ConfigError(f"steps={steps:,}: {data.title} has {len(data.table.dates):,} rows")
    rows = data.rows["test"] if steps is None else range(len(data.table.dates) - steps, len(data.table.dates))
    if len(rows) < data.pred_len:
        raise ConfigError(f"steps={len(rows)} hold no forecast of pred_len={data.pred_len}: give more")
    if rows.start < data.seq_len:
        raise DataError(
            f"{data.name}: {rows.start} rows before the first origin, and seq_len={data.seq_len} are read: give fewer "
            "steps"
        )
    return np.arange(rows.start, rows.stop - data.pred_len + 1, stride or data.pred_len)


def unchanged(model: TrainedModel, data: ForecastData, config: DictConfig) -> Backtest:
    """A trained model as it is, from every origin."""
    origins = choose_origins(data, config.steps, config.stride)

    def point(batch: Batch) -> Tensor:
        return model.point(model.forecast(batch.past, batch.past_time, batch.future_time))

    fitted = baselines_for(model, data)
    calibration = model.calibration
    if calibration is None or not calibration.has([*config.levels]):
        calibration = calibrate(point, model.data().windows["val"], BATCH, [*config.levels])
    found = empty(OmegaConf.to_container(config), data, fitted, calibration, origins)  # type: ignore[arg-type]
    measure(found, data, range(len(origins)), point, fitted, calibration)
    if note := model.note_on(data.table.dates[origins]):
        found.notes.append(note)
    return found


def refitted(config: DictConfig, data: ForecastData) -> Backtest:
    """Train before the first origin and again after every `refit_every` rows, on all that is known by then."""
    origins, every = choose_origins(data, config.steps, config.stride), config.refit_every
    if every is not None and (type(every) is not int or every < 1):
        raise ConfigError(f"refit_every={every} must be a whole number of rows, at least 1")
    part = (origins - origins[0]) // every if every else np.zeros_like(origins)
    found = None
    for done, number in enumerate(np.unique(part)):
        mine = np.flatnonzero(part == number)
        start = int(origins[mine[0]])
        print(f"training   {done + 1} of {len(np.unique(part))}, on rows to {data.table.dates[start - 1]}")
        known = known_before(data, start)
        fitted = FittedBaselines.fit(known)
        forecaster = trained_on(config, known, fitted, Path(config.output_dir) / "trainings" / str(done))

        def point(batch: Batch, forecaster: Forecaster = forecaster) -> Tensor:
            return predict(forecaster, batch)

        calibration = calibrate(point, known.windows["val"], BATCH, [*config.levels])
        if found is None:
            settings: Any = OmegaConf.to_container(config, resolve=True)
            found = empty(settings, known, fitted, calibration, origins)
        found.trainings.append(start)
        measure(found, known, mine, point, fitted, calibration)
    assert found is not None
    return found


def known_before(data: ForecastData, row: int) -> ForecastData:
    """The table as it was known before a row: what can be trained, scaled and calibrated on ends there."""
    validation = data.table.dates[row - max(row // VALIDATION, data.pred_len)]
    return data.resplit([str(validation), str(data.table.dates[row])])


def trained_on(config: DictConfig, data: ForecastData, fitted: FittedBaselines, folder: Path) -> Forecaster:
    """A new model trained on the training rows, at its best epoch by validation; its checkpoint is kept in `folder`."""
    L.seed_everything(config.seed, workers=True, verbose=False)
    forecaster = make_forecaster(config, data, fitted)
    chosen = {name: config.callbacks[name] for name in ("progress", "finite", "checkpoint", "early_stopping")}
    chosen["checkpoint"] = {**chosen["checkpoint"], "dirpath": str(folder)}
    callbacks = instantiate(chosen)
    trainer = make_trainer(
        config, callbacks.values(), logger=False, num_sanity_val_steps=before_training(forecaster.model)
    )
    if trainer.world_size > 1:
        raise ConfigError(f"trainer.devices={config.trainer.devices}: a backtest trains on one device")
    if config.compile:
        compile_where_possible(forecaster.model, trainer.strategy.root_device)
    trainer.fit(forecaster, datamodule=data)
    forecaster.load_state_dict(load_checkpoint(folder / "best.ckpt")["state_dict"])
    return forecaster


def empty(
    settings: dict[str, Any],
    data: ForecastData,
    fitted: FittedBaselines,
    calibration: Calibration,
    origins: Int64[np.ndarray, " origins"],
) -> Backtest:
    """Room for the forecasts from all origins, the truth filled in."""
    targets = [data.table.columns.index(name) for name in data.target_columns]
    truth = data.table.values[origins[:, None] + np.arange(data.pred_len)][..., targets].astype(np.float64)
    names = (MODEL, *fitted.rules())
    return Backtest(
        title=data.title,
        attention=settings["model"]["attention"]["name"],
        columns=list(data.target_columns),
        freq=data.freq,
        dates=data.table.dates,
        origins=origins,
        scale=data.target_scaler.scale.numpy(),
        naive_mae=fitted.naive_mae.numpy(),
        truth=truth,
        forecasts={name: np.full(truth.shape, np.nan) for name in names},
        intervals=IntervalSums(
            calibration.quantiles, enough(calibration, settings["levels"]), data.target_scaler.scale
        ),
    )


def measure(
    found: Backtest,
    data: ForecastData,
    which: Sequence[int] | Int64[np.ndarray, " some"],
    point: Point,
    fitted: FittedBaselines,
    calibration: Calibration,
) -> None:
    """Fill in the forecasts from some of the origins, and score their intervals."""
    rows = found.origins[list(which)]
    first = int(rows[0]) - data.seq_len
    windows = data.windows_from([range(first, first + int(rows[-1] - rows[0]) + 1)])
    rules = fitted.rules()
    # from this training's scale to the first one's; centres cancel in widths and errors
    rescale = (data.target_scaler.scale / torch.from_numpy(found.scale)).float()
    where, numbers = torch.as_tensor(list(which)), torch.from_numpy(rows - rows[0])
    batches = list(zip(numbers.split(BATCH), where.split(BATCH), strict=True))
    with torch.inference_mode():
        for index, place in track(batches, "Forecasting"):
            batch = windows.gather(index)
            forecasts = {MODEL: point(batch), **{name: rule(windows, batch) for name, rule in rules.items()}}
            for name, forecast in forecasts.items():
                found.forecasts[name][place.numpy()] = data.unscale_targets(forecast).numpy()
            quantiles = calibration.around(forecasts[MODEL].float())
            found.intervals.update(quantiles * rescale[:, None], batch.future * rescale)


def settings_of(
    model: TrainedModel, config: DictConfig, typed: Sequence[str]
) -> tuple[DictConfig, dict[str, Any]]:
    """The checkpoint's settings where the command's own were not typed, and what was typed of the data.

    Callbacks and trainer are the command's: a checkpoint may come from other hardware, and names what is made.
    """
    check_trusted(model.path, [model.config["optimizer"], model.config["schedule"]], TRAINING)
    keys = {text.split("=")[0] for text in typed}
    settings = OmegaConf.create(model.config)
    for key in ("steps", "stride", "refit_every", "output_dir", "callbacks", "trainer"):
        settings[key] = config[key]
    if "levels" in keys:
        settings.levels = config.levels
    for key in {"max_epochs", "gradient_clip_val", "precision"} - {
        key.removeprefix("trainer.") for key in keys
    }:
        settings.trainer[key] = model.config["trainer"][key]
    if str(settings.trainer.precision).startswith("16") and not torch.cuda.is_available():
        settings.trainer.precision = "32-true"
    data: dict[str, Any] = OmegaConf.to_container(config.data) if "data" in keys else {}  # type: ignore[assignment]
    data |= {
        key.removeprefix("data."): OmegaConf.select(config, key) for key in keys if key.startswith("data.")
    }
    return settings, data
