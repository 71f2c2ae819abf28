"""Score a trained model as its run's test did."""

import copy
from typing import Any

import lightning as L
import torch

from forecast.data import DataModule
from forecast.evaluation.baselines import FittedBaselines
from forecast.evaluation.results import Results
from forecast.inference.model import TrainedModel
from forecast.system.errors import CheckpointError, ConfigError
from forecast.training.callbacks import ProgressBar
from forecast.training.module import Forecaster
from forecast.training.safe_points import SafePoints


def evaluate(
    model: TrainedModel, data: DataModule, split: str = "test", *, progress: bool = True
) -> tuple[dict[str, Any], Results]:
    """Every window of a split, on the best device here, in the precision of training: what a report says, and more.

    The baselines, MASE's denominator and the calibration are the training run's. Raises ConfigError for a split that
    `data` does not have, CheckpointError as `baselines_for`.
    """
    if split not in data.windows:
        raise ConfigError(f"split={split} is not one of {', '.join(data.windows)}")
    fitted = baselines_for(model, data)
    forecaster = Forecaster(
        copy.deepcopy(model.network).requires_grad_(
            True
        ),  # as in the run's test: kernels round otherwise without
        loss=model.loss,
        levels=model.config["levels"],
        fitted=fitted,
        config=model.config,
    )
    forecaster.calibration = model.calibration
    data.tested = split
    precision = str(model.config["trainer"]["precision"])
    on_cpu = not torch.cuda.is_available()
    trainer = L.Trainer(
        accelerator="cpu" if on_cpu else "gpu",
        devices=1,
        precision="32-true" if on_cpu and precision.startswith("16") else precision,  # type: ignore[arg-type]
        callbacks=[SafePoints(), *([ProgressBar()] if progress else [])],
        enable_progress_bar=progress,
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )
    if forecaster.calibration is None:
        trainer.validate(forecaster, datamodule=data, verbose=False)  # calibrates
    trainer.test(forecaster, datamodule=data, verbose=False)
    results = forecaster.results()
    facts = {
        "checkpoint": str(model.path),
        "data": data.name,
        "split": split,
        "n_windows": data.n_windows[split],
    }
    return {**facts, **results.content()}, results


def baselines_for(model: TrainedModel, data: DataModule) -> FittedBaselines:
    """The training run's, else those of the data's training rows. Raises CheckpointError where there is neither."""
    if model.baselines is None and "val" not in data.windows:
        raise CheckpointError(
            f"{model.path}: its run was not tested, so it holds no baselines and no calibration; give the folder of a "
            "finished run"
        )
    return model.baselines or FittedBaselines.fit(data)
