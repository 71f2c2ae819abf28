"""Build the data, the model and the trainer that a configuration describes."""

from collections.abc import Collection
from typing import Any, TypeVar

import lightning as L
from hydra.utils import instantiate
from lightning.pytorch.callbacks import Callback, ProgressBar
from omegaconf import DictConfig, OmegaConf

from forecast.data import DataModule
from forecast.evaluation.baselines import FittedBaselines
from forecast.evaluation.quantiles import check_levels
from forecast.models import ForecastModel
from forecast.system.errors import ConfigError
from forecast.training.checkpointing import CheckpointFiles
from forecast.training.create_model import create_model
from forecast.training.memory_estimate import check_sizes
from forecast.training.module import Forecaster, trained_quantiles
from forecast.training.safe_points import SafePoints
from forecast.training.warm_start_data import WarmStartData

AnyCallback = TypeVar("AnyCallback", bound=Callback)


def make_data(config: DictConfig) -> DataModule:
    """Create the data module of `config.data` and set it up.

    Raises:
        ConfigError: `data.split` names one split, which leaves no rows for the others.
    """
    if isinstance(config.data.split, str):
        raise ConfigError(
            f"data.split={config.data.split} leaves no rows for the other splits; give three parts or two dates"
        )
    data = instantiate(config.data)
    data.prepare_data()
    data.setup()
    return data


def make_forecaster(
    config: DictConfig,
    data: DataModule,
    fitted: FittedBaselines,
    chosen_on: DataModule | None = None,
) -> Forecaster:
    """Create a model for the data, with the configuration's loss, optimizer and schedule.

    Args:
        data: a warm start is fitted on its training windows.
        fitted: the baselines, which know the season of the scaled errors.
        chosen_on: a warm start's hyperparameters are chosen on its validation windows; None: those of `data`.

    Raises:
        ConfigError: the model and its batches cannot fit into memory.
    """
    check_sizes(config, data)
    quantiles = trained_quantiles(config.loss, check_levels(config.levels))
    model = create_model(
        config.model,
        n_features=data.n_features,
        n_targets=data.n_targets,
        n_time_features=data.n_time_features,
        n_quantiles=len(quantiles or "1"),
    )
    model.warm_start(WarmStartData(data, chosen_on or data, quantiles, fitted.gram))
    settings: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    return Forecaster(
        model,
        loss=config.loss,
        levels=check_levels(config.levels),
        optimizer=instantiate(config.optimizer),
        schedule=instantiate(config.schedule),
        fitted=fitted,
        config=settings,
    )


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
    # Lightning would add its own progress bar where there is none
    has_bar = any(isinstance(callback, ProgressBar) for callback in callbacks)
    return instantiate(
        config.trainer,
        callbacks=callbacks,
        plugins=[CheckpointFiles()],
        enable_progress_bar=has_bar,
        **settings,
    )


def find_callback(trainer: L.Trainer, kind: type[AnyCallback]) -> AnyCallback:
    """Return the trainer's callback of this class."""
    return next(callback for callback in trainer.callbacks if isinstance(callback, kind))  # type: ignore[attr-defined]


def batches_before_training(model: ForecastModel) -> int:
    """Count the validation batches before the first step: all (−1) if the untrained model can be the best, else 0."""
    return -1 if model.forecasts_untrained else 0
