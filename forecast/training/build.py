"""Build the data, the model with its warm start, and the trainer that a configuration describes."""

from collections.abc import Collection, Sequence
from typing import Any

import lightning as L
import numpy as np
import torch
from hydra.utils import instantiate
from jaxtyping import Float, Float64
from lightning.pytorch.callbacks import Callback, ProgressBar
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from forecast.data import DataModule
from forecast.data.time_features import choose_evenly_spaced, time_feature_names
from forecast.evaluation.baselines import FittedBaselines
from forecast.evaluation.levels import parse_levels, trained_quantiles
from forecast.models import ForecastModel
from forecast.models.base import LinearForecast, WarmStart
from forecast.models.linear_model import LinearWeights
from forecast.training.callbacks import SafePoints
from forecast.training.checkpointing import CheckpointFiles
from forecast.training.create_model import WithoutRandomValues, create_model
from forecast.training.hardware import check_memory, check_size
from forecast.training.module import Forecaster
from forecast.training.preparation import (
    AUTO,
    check_device_precision,
    check_one_process,
    check_processes,
    filter_messages,
)

MAX_ERRORS = 1 << 22
"""Largest number of errors from which quantiles are computed; their training windows are evenly spaced."""

ERROR_BATCH = 256


def resolved_settings(config: DictConfig) -> dict[str, Any]:
    """Return the configuration as plain values, with all interpolations resolved."""
    return OmegaConf.to_container(config, resolve=True)  # type: ignore[return-value]


def check_construction(config: DictConfig) -> None:
    """Construct the trainer, and the model of one column without its memory, and discard both.

    What they refuse depends on the configuration and the machine alone, so a run need not read its data before.

    Raises:
        ConfigError: a setting of the model or the trainer is invalid, or too large for the memory.
        ValueError: the model or the trainer refuses a value.
    """
    filter_messages()
    precision = {"precision": "32-true"} if config.trainer.precision == AUTO else {}
    trainer = make_trainer(config, names=(), logger=False, **precision)
    check_device_precision(config, trainer)
    check_processes(trainer)
    if config.budget is not None:
        check_one_process(config, trainer.world_size)
    check_size(config, n_features=1, n_targets=1, batch=1)
    with torch.device("meta"), WithoutRandomValues():
        create_model(
            config.model, n_features=1, n_targets=1, n_time_features=1, n_quantiles=count_quantiles(config)
        )


def count_quantiles(config: DictConfig) -> int:
    """The number of quantiles that the model forecasts; 1 for point forecasts."""
    quantiles = trained_quantiles(config.loss, parse_levels(config.levels))
    return 1 if quantiles is None else len(quantiles)


def make_model(config: DictConfig, data: DataModule) -> ForecastModel:
    """Create a model for the data, without a warm start."""
    return create_model(
        config.model,
        n_features=data.n_features,
        n_targets=data.n_targets,
        n_time_features=data.n_time_features,
        n_quantiles=count_quantiles(config),
    )


def make_forecaster(
    config: DictConfig,
    data: DataModule,
    fitted: FittedBaselines,
    chosen_on: DataModule | None = None,
) -> Forecaster:
    """Create a model for the data, with the configuration's loss, optimizer and schedule.

    Args:
        data: a warm start is fitted on its training windows.
        fitted: the fitted baselines.
        chosen_on: a warm start's hyperparameters are chosen on its validation windows; None: on those of `data`.

    Raises:
        ConfigError: the model and its batches cannot fit into memory.
    """
    check_memory(config, data)
    levels = parse_levels(config.levels)
    model = make_model(config, data)
    model.warm_start(WarmStartData(data, chosen_on or data, trained_quantiles(config.loss, levels), fitted))
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


def count_epochs(config: DictConfig) -> int:
    """The largest number of epochs: that of the budget, or `trainer.max_epochs`."""
    epochs = config.get("budget_epochs")
    return config.trainer.max_epochs if epochs is None else epochs


def make_trainer(
    config: DictConfig, *added: Callback, names: Collection[str] | None = None, **settings: Any
) -> L.Trainer:
    """Create the configuration's trainer, whose checkpoint files are written whole and loaded safely.

    Args:
        added: callbacks in addition to the configuration's.
        names: which of the configuration's callbacks to use; None: all that are not switched off.
        settings: arguments of the trainer that replace the configuration's.
    """
    chosen = [
        instantiate(callback)
        for name, callback in config.callbacks.items()
        if callback is not None and (names is None or name in names)
    ]
    callbacks = [SafePoints(), *chosen, *added]
    # without a progress bar here, Lightning would add its own
    has_bar = any(isinstance(callback, ProgressBar) for callback in callbacks)
    return instantiate(
        config.trainer,
        callbacks=callbacks,
        plugins=[CheckpointFiles()],
        enable_progress_bar=has_bar,
        **{"max_epochs": count_epochs(config), **settings},
    )


def count_sanity_steps(model: ForecastModel) -> int:
    """Return `num_sanity_val_steps`: all batches (−1) if the untrained model can be the best, otherwise none."""
    return 0 if model.warm_start_name is None else -1


class WarmStartData(WarmStart):
    """Implementation of `forecast.models.base.WarmStart` on a data module.

    Args:
        data: the model is fitted on its training windows.
        chosen_on: the hyperparameters of the linear model are chosen on its validation windows.
        quantiles: probabilities of the model's quantiles; None: it makes point forecasts.
        fitted: baselines fitted to the training windows of `chosen_on`.
    """

    def __init__(
        self,
        data: DataModule,
        chosen_on: DataModule,
        quantiles: Sequence[float] | None,
        fitted: FittedBaselines,
    ) -> None:
        self.data, self.chosen_on, self.quantiles, self.fitted = data, chosen_on, quantiles, fitted

    @property
    def target_index(self) -> Sequence[int]:
        return self.data.target_index

    @property
    def time_feature_names(self) -> Sequence[str]:
        return time_feature_names(self.data.freq, self.data.options.holidays)

    def own_past_weight(self) -> Float[Tensor, "seq_len pred_len"]:
        return self.fitted.fit_linear(self.data, self.chosen_on, covariates=False).past_weight

    def linear_weights(self) -> LinearWeights:
        return self.fitted.fit_linear(self.data, self.chosen_on)

    @torch.no_grad()
    def error_quantiles(self, forecast: LinearForecast) -> Float64[Tensor, "n_targets n_quantiles"]:
        """Compute the quantiles. Without them, the first epochs would only learn the width of the intervals.

        Raises:
            ValueError: the model makes point forecasts.
        """
        if self.quantiles is None:
            raise ValueError(
                "a model of point forecasts has no quantiles to start from; train with loss=quantile"
            )
        windows = self.data.windows["train"]
        count = max(1, MAX_ERRORS // (windows.pred_len * len(windows.target_index)))
        index = torch.from_numpy(choose_evenly_spaced(len(windows), count)).to(windows.device)
        errors = []
        for numbers in index.split(ERROR_BATCH):
            batch = windows.gather(numbers)
            future, columns = batch.future.cpu(), windows.target_index
            point, scale = forecast(batch.past.cpu(), batch.past_time.cpu(), batch.future_time.cpu())
            errors.append(((future - point[..., columns]) / scale[..., columns]).flatten(0, 1))
        quantiles = np.nanquantile(torch.cat(errors).double().numpy(), self.quantiles, axis=0)
        return torch.from_numpy(quantiles).T
