"""Evaluation of a trained model on one split, as in the test of its run."""

import copy
from typing import Any

import lightning as L

from forecast.data import DataModule
from forecast.evaluation.fitted_baselines import FittedBaselines
from forecast.evaluation.names import MODEL
from forecast.evaluation.results import Results
from forecast.inference.model import TrainedModel
from forecast.system.errors import CheckpointError, ConfigError
from forecast.training.callbacks import ProgressBar
from forecast.training.lightning_data import LightningData
from forecast.training.module import Forecaster
from forecast.training.precision import has_gpu, keep_precision
from forecast.training.safe_points import SafePoints


def evaluate(
    model: TrainedModel, data: DataModule, split: str = "test", *, progress: bool = True
) -> tuple[dict[str, Any], Results]:
    """Score every window of a split, on the best available device and in the precision of training.

    The baselines, the denominator of MASE and the calibration come from the training run.

    Returns:
        The scores in the layout of metrics.json, and the results that they come from.

    Raises:
        ConfigError: `data` does not have the split.
        CheckpointError: the run was not tested and the data have no validation rows.
    """
    if split not in data.windows:
        raise ConfigError(f"split={split} is not one of {', '.join(data.windows)}")
    fitted = baselines_for(model, data)
    forecaster = Forecaster(
        # With gradients as in the run's test: without them, kernels round differently.
        copy.deepcopy(model.network).requires_grad_(True),
        loss=model.loss,
        levels=model.config["levels"],
        fitted=fitted,
        config=model.config,
    )
    forecaster.calibration = model.calibration
    forecaster.baseline_calibrations = {n: c for n, c in model.calibrations.items() if n != MODEL}
    data.tested_split = split
    trainer = make_test_trainer(model, progress=progress)
    served = LightningData(data)
    if forecaster.calibration is None:
        trainer.validate(forecaster, datamodule=served, verbose=False)  # calibrates
    trainer.test(forecaster, datamodule=served, verbose=False)
    results = forecaster.results
    facts = {
        "checkpoint": str(model.path),
        "data": data.name,
        "split": split,
        "n_windows": data.n_windows[split],
    }
    return {**facts, **results.content()}, results


def make_test_trainer(model: TrainedModel, *, progress: bool) -> L.Trainer:
    """Create a trainer on the best available device, in the precision of training, that only measures."""
    return L.Trainer(
        accelerator="gpu" if has_gpu() else "cpu",
        devices=1,
        precision=keep_precision(model.config["trainer"]["precision"]),
        callbacks=[SafePoints(), *([ProgressBar()] if progress else [])],
        enable_progress_bar=progress,
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )


def baselines_for(model: TrainedModel, data: DataModule) -> FittedBaselines:
    """Return the baselines of the run, or fit them to `data`. Raises CheckpointError if neither is possible."""
    if model.baselines is None and "val" not in data.windows:
        raise CheckpointError(
            f"{model.path}: its run was not tested, so it holds no baselines and no calibration; give the folder of a "
            "finished run"
        )
    return model.baselines or FittedBaselines.fit(data)
