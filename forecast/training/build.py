"""Build what a configuration describes: its values `auto`, the model with its warm start, and the trainer."""

import copy
import inspect
import math
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, NamedTuple

import lightning as L
import numpy as np
import torch
from hydra.utils import get_class, instantiate
from jaxtyping import Float64
from lightning.pytorch.callbacks import Callback, ProgressBar
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from forecast.data import DataModule, Windows
from forecast.data.source import ASINH, LOG1P, NONE
from forecast.data.time_features import choose_evenly_spaced, time_feature_names
from forecast.evaluation.baselines import FittedBaselines, Linear, thin_validation
from forecast.evaluation.measurement import score_windows
from forecast.evaluation.scores import parse_levels, trained_quantiles
from forecast.models import ForecastModel
from forecast.models.base import LinearForecast, WarmStart
from forecast.system import signals
from forecast.system.formatting import shorten
from forecast.training.callbacks import SafePoints
from forecast.training.checkpointing import CheckpointFiles
from forecast.training.create_model import best_precision, check_memory, create_model, keep_precision, model_class
from forecast.training.module import Forecaster
from forecast.training.preparation import AUTO, is_float16

MIN_IMPROVEMENT = 0.03
"""Relative reduction of the error that a transform needs. `asinh` lowers the error of normal values by up to 2%, for it
moves forecasts towards the mean."""

MAX_ERRORS = 1 << 22
"""Largest number of errors from which quantiles are computed; their training windows are evenly spaced."""

ERROR_BATCH = 256

# ---- the configuration


class Resolved(NamedTuple):
    """A configuration without values `auto`, which is read-only, and lines for the terminal on what was chosen."""

    config: DictConfig
    lines: list[str]


def resolved_settings(config: DictConfig) -> dict[str, Any]:
    return OmegaConf.to_container(config, resolve=True)  # type: ignore[return-value]


def resolve_settings(
    config: DictConfig, data: DataModule | None = None, content: dict[str, Any] | None = None
) -> Resolved:
    """Replace each value `auto` by the best one for the machine and the data.

    These are `trainer.precision`, `optimizer.fused` and `data.transform`.

    Args:
        data: a data module whose rows are read, by which transforms are chosen. None: there is no transform.
        content: content of the checkpoint that training starts from. Its precision is kept where the machine supports
            it, and so are its transforms.
    """
    resolved, lines = copy.deepcopy(config), []
    saved = content["hyper_parameters"] if content else None
    if resolved.trainer.precision == AUTO:
        accelerator = resolved.trainer.accelerator
        width = model_class(resolved.model).estimate_size(resolved.model, n_features=1, n_targets=1).width
        best = best_precision(accelerator, width)
        resolved.trainer.precision = keep_precision(saved["trainer"]["precision"], best, accelerator) if saved else best
    if resolved.optimizer.get("fused") == AUTO:
        if "fused" in inspect.signature(get_class(resolved.optimizer._target_)).parameters:
            # Lightning cannot clip gradients that a fused optimizer unscales.
            resolved.optimizer.fused = not is_float16(resolved.trainer.precision)
        else:
            del resolved.optimizer.fused
    if data is not None and data.options.transform == AUTO:
        if saved:
            transform = saved["data"]["transform"]
        else:
            changes = choose_transforms(data, resolved.loss)
            transform = {name: kind for name, (kind, _) in changes.items()} or None
            lines.append(describe_transforms(changes, resolved.loss))
        resolved.data.transform = transform
    OmegaConf.set_readonly(resolved, True)
    return Resolved(resolved, lines)


def choose_transforms(data: DataModule, loss: str) -> dict[str, tuple[str, float]]:
    """Choose the transform of each target: none, `asinh`, or `log1p` if its lower bound is at least 0.

    The error in original units, divided by the scale of the series, decides: the root mean squared error for
    `loss=mse`, otherwise the mean absolute error. Each target is forecast from its own past and the future covariates,
    because the weights of a linear model of all columns depend on all their transforms.

    Returns the transform of each target that gets one, and its error relative to that without a transform.
    """
    plain = data.with_transform(None)
    chosen = {}
    for name, lower in zip(plain.target_columns, plain.target_scaler.domain.lower, strict=True):
        errors = {
            kind: linear_error(data.with_transform({name: kind}, target=name), loss)
            for kind in (NONE, ASINH, *([LOG1P] if lower >= 0 else []))
        }
        best = min(errors, key=errors.__getitem__)
        if errors[best] < (1 - MIN_IMPROVEMENT) * errors[NONE]:
            chosen[name] = best, errors[best] / errors[NONE]
    return chosen


def describe_transforms(chosen: dict[str, tuple[str, float]], loss: str) -> str:
    error = f"validation {'RMSE' if loss == 'mse' else 'MAE'} of the linear baseline"
    if not chosen:
        return f"transform  none: no other one lowers the {error} by {MIN_IMPROVEMENT:.0%}"
    parts = [f"{name} {kind} ({relative - 1:+.1%})" for name, (kind, relative) in chosen.items()]
    return f"transform  {shorten(parts)}: {error}"


def linear_error(data: DataModule, loss: str) -> float:
    """The error of the linear baseline on validation windows: RMSE for `loss=mse`, otherwise MAE.

    `data` has one target.
    """
    fitted, windows = FittedBaselines.fit(data), data.windows["val"]
    linear = Linear(fitted.linear)
    stride = thin_validation(data, data.season)
    scores = score_windows({"linear": partial(linear, windows)}, data, fitted, "val", stride=stride)["linear"]
    return math.sqrt(scores["mse"]) if loss == "mse" else scores["mae"]


def fit_baselines(data: DataModule) -> FittedBaselines:
    """Scale the data and cut them into windows, and fit the baselines on the training windows."""
    data.setup()
    signals.exit_if_received(" before it fitted baselines")
    baselines = FittedBaselines.fit(data)
    signals.exit_if_received(" before training started")
    return baselines


# ---- the model


def quantiles_of(config: DictConfig) -> tuple[float, ...]:
    """The quantiles that the model forecasts; the median alone for point forecasts."""
    return trained_quantiles(config.loss, parse_levels(config.levels)) or (0.5,)


def make_model(config: DictConfig, data: DataModule) -> ForecastModel:
    return create_model(
        config.model,
        n_features=data.n_features,
        n_targets=data.n_targets,
        n_time_features=data.n_time_features,
        n_quantiles=len(quantiles_of(config)),
    )


def make_forecaster(
    config: DictConfig, data: DataModule, fitted: FittedBaselines, chosen_on: DataModule | None = None
) -> Forecaster:
    """Create a model for the data, with the configuration's loss, optimizer and schedule.

    `chosen_on`: a warm start's hyperparameters are chosen on its validation windows; None: on those of `data`.

    Raises ConfigError: the model and its batches cannot fit into memory.
    """
    check_memory(config, data)
    model = make_model(config, data)
    linear = None if model.warm_start_name is None else fitted.fit_linear(data, chosen_on or data)
    names = time_feature_names(data.freq, data.options.holidays)
    errors = partial(error_quantiles, data.windows["train"], quantiles_of(config))
    model.warm_start(WarmStart(data.target_index, names, linear, errors))
    return wrap_model(config, model, fitted)


def wrap_model(config: DictConfig, model: ForecastModel, fitted: FittedBaselines) -> Forecaster:
    """Create the module that trains a model with the configuration's loss, optimizer and schedule."""
    return Forecaster(
        model,
        loss=config.loss,
        levels=parse_levels(config.levels),
        optimizer=instantiate(config.optimizer),
        schedule=instantiate(config.schedule),
        fitted=fitted,
        config=resolved_settings(config),
    )


@torch.no_grad()
def error_quantiles(
    windows: Windows, quantiles: Sequence[float], forecast: LinearForecast
) -> Float64[Tensor, "n_targets n_quantiles"]:
    """Quantiles of a forecast's errors; see `forecast.models.base.WarmStart`.

    Without them, the first epochs would only learn the width of the intervals.
    """
    count = max(1, MAX_ERRORS // (windows.pred_len * len(windows.target_index)))
    index = torch.from_numpy(choose_evenly_spaced(len(windows), count)).to(windows.device)
    errors = []
    for numbers in index.split(ERROR_BATCH):
        batch = windows.gather(numbers)
        future, columns = batch.future.cpu(), windows.target_index
        point, scale = forecast(batch.past.cpu(), batch.past_time.cpu(), batch.future_time.cpu())
        errors.append(((future - point[..., columns]) / scale[..., columns]).flatten(0, 1))
    found = np.nanquantile(torch.cat(errors).double().numpy(), quantiles, axis=0)
    return torch.from_numpy(found).T


# ---- the trainer


def make_trainer(
    config: DictConfig, *added: Callback, names: Collection[str] | None = None, **settings: Any
) -> L.Trainer:
    """Create the configuration's trainer, whose checkpoint files are written whole and loaded safely.

    Args:
        added: callbacks before the configuration's.
        names: which of the configuration's callbacks to use; None: all that are not switched off.
        settings: arguments of the trainer that replace the configuration's.
    """
    chosen = [
        instantiate(callback)
        for name, callback in config.callbacks.items()
        if callback is not None and (names is None or name in names)
    ]
    return instantiate(
        config.trainer,
        callbacks=[SafePoints(), *added, *chosen],
        plugins=[CheckpointFiles()],
        # without a progress bar here, Lightning would add its own
        enable_progress_bar=any(isinstance(callback, ProgressBar) for callback in chosen),
        **settings,
    )


def count_sanity_steps(model: ForecastModel) -> int:
    """Return `num_sanity_val_steps`: all batches (−1) if the untrained model can be the best, otherwise none."""
    return 0 if model.warm_start_name is None else -1
