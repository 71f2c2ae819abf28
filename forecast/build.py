"""From a run's configuration to what is trained."""

from collections.abc import Iterable, Sequence
from typing import Any

import lightning as L
from hydra.utils import instantiate
from lightning.pytorch.callbacks import Callback, ProgressBar
from omegaconf import DictConfig, OmegaConf
from torch import nn

from forecast.baselines import FittedBaselines
from forecast.data import ForecastData
from forecast.data.calendar import time_feature_names
from forecast.errors import ConfigError
from forecast.forecaster import Forecaster, trained_quantiles
from forecast.keeping import SealedFiles
from forecast.model import ResidualInformer
from forecast.quantiles import check_levels
from forecast.sizes import check_sizes
from forecast.start_map import fit_map
from forecast.start_spread import fit_spread


def make_data(config: DictConfig) -> ForecastData:
    """The data module that `config.data` names, set up."""
    if isinstance(config.data.split, str):
        raise ConfigError(
            f"data.split={config.data.split} leaves other splits no rows: give three parts or two dates"
        )
    data = instantiate(config.data)
    data.prepare_data()
    data.setup()
    return data


def make_forecaster(
    config: DictConfig,
    data: ForecastData,
    fitted: FittedBaselines,
    chosen_on: ForecastData | None = None,
) -> Forecaster:
    """A new model for the data, with the loss, optimizer and schedule of the configuration.

    What a model fits before training is fitted on `data`, and chosen on the validation windows of `chosen_on`.
    """
    check_sizes(config, data)
    quantiles = trained_quantiles(config.loss, check_levels(config.levels))
    model = instantiate(config.model)(
        n_features=data.n_features,
        n_targets=data.n_targets,
        n_time_features=data.n_time_features,
        n_quantiles=len(quantiles or "1"),
    )
    if isinstance(model, ResidualInformer):
        start(model, data, chosen_on or data, quantiles)
    settings: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    return Forecaster(
        model,
        loss=config.loss,
        levels=check_levels(config.levels),
        optimizer=instantiate(config.optimizer),
        schedule=instantiate(config.schedule),
        new_errors=lambda: fitted.new_errors(data),
        config=settings,
    )


def start(
    model: ResidualInformer,
    data: ForecastData,
    chosen_on: ForecastData,
    quantiles: Sequence[float] | None,
) -> None:
    """Fit the linear map, and quantiles about it; tell the model which columns it forecasts, and its time features."""
    model.start_from(
        weight=fit_map(data, chosen_on) if model.linear is not None else None,
        targets=data.target_index,
        time_features=time_feature_names(data.freq, data.holidays),
    )
    if quantiles is not None:
        model.spread(fit_spread(model, data.windows["train"], quantiles))


def check_callbacks(config: DictConfig, *names: str) -> None:
    """Raises ConfigError where one of them is switched off."""
    for name in names:
        if config.callbacks.get(name) is None:
            raise ConfigError(f"callbacks.{name}=null: no run goes without it")


def make_trainer(config: DictConfig, callbacks: Iterable[Callback | None], **settings: Any) -> L.Trainer:
    """The configuration's trainer, with those callbacks that are not switched off, and checkpoints with a hash."""
    kept = [callback for callback in callbacks if callback is not None]
    # Lightning would add a bar of its own where there is none
    has_bar = any(isinstance(callback, ProgressBar) for callback in kept)
    return instantiate(
        config.trainer, callbacks=kept, plugins=[SealedFiles()], enable_progress_bar=has_bar, **settings
    )


def before_training(model: nn.Module) -> int:
    """Validation batches before the first step (−1: all): a model that is fitted in part is a candidate as it is."""
    return -1 if isinstance(model, ResidualInformer) and model.linear is not None else 0
