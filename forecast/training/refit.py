"""`refit=full`: after the test, train the same model again on all rows."""

from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import Callback
from omegaconf import DictConfig

from forecast.checkpoints.contents import completed_epochs, is_finished
from forecast.checkpoints.file import load_newest
from forecast.data import DataModule
from forecast.evaluation.baselines import FittedBaselines
from forecast.evaluation.conformal import Calibration
from forecast.system import signals
from forecast.system.formatting import plural
from forecast.training.build import count_epochs, make_forecaster, make_trainer
from forecast.training.checkpointing import Checkpointing, preload_checkpoint, save_weights
from forecast.training.hardware import compile_where_possible
from forecast.training.losses import saved_shrinkage, set_shrinkage
from forecast.training.module import LightningData

STATE = "refit-last"
"""Name of the checkpoint from which an interrupted refit resumes."""


class StopAfter(Callback):
    """End training after a number of epochs, fewer than those that the schedule was made for."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def on_train_epoch_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        trainer.should_stop = trainer.current_epoch + 1 >= self.epochs


def refit(
    config: DictConfig, data: DataModule, fitted: FittedBaselines, best: Path, tested: dict[str, Any]
) -> dict[str, Any]:
    """Train from the start on all rows, for as many epochs as the tested model's best took; save `refit.ckpt`.

    The scaler and the linear baseline are fitted on all rows too. Scaled errors stay in the units of the tested model.
    No windows are left to test or to calibrate this model. Its intervals are those of the tested model, equally wide
    in original units (with many series, on the scale of each series).

    Args:
        best: path of the tested checkpoint, beside which `refit.ckpt` is written.
        tested: its content, with the calibration and the baselines.

    Returns:
        What metrics.json says of the refit.
    """
    signals.exit_if_received(" before the refit")
    whole, epochs = data.with_all_rows_in_training(), completed_epochs(tested)
    L.seed_everything(config.seed, workers=True, verbose=False)
    forecaster = make_forecaster(config, whole, fitted, chosen_on=data)
    trainer = refit_trainer(config, best.parent, epochs)
    if config.compile:
        compile_where_possible(forecaster.model, trainer.strategy.root_device)
    facts = describe_refit(whole, best, tested)
    if trainer.is_global_zero:
        untrained = f"of the {forecaster.model.warm_start_name} alone, as it was tested"
        how = plural(epochs, "epoch") if epochs else untrained
        print(f"refit      on all {facts['rows']:,} rows, to {facts['last_date']}, {how}; it is not tested")
    state = load_newest(best.parent.parent, STATE) if config.resume == "auto" else None
    if state is not None and is_finished(state[1]):
        # no epoch is left; Lightning would train up to the schedule's number of epochs
        trainer.fit_loop.max_epochs = epochs
    path = None
    if state is not None:
        path, content = state
        preload_checkpoint(trainer, path, content)
        del content
    del state  # as large as the model and its optimizer
    with signals.deferred():
        trainer.fit(forecaster, datamodule=LightningData(whole), ckpt_path=path, weights_only=True)
    set_shrinkage(forecaster, facts["shrinkage_weight"])
    save_refit(trainer, best, tested, facts, fitted.refit(whole), data, whole)
    return facts


def save_refit(
    trainer: L.Trainer,
    best: Path,
    tested: dict[str, Any],
    facts: dict[str, Any],
    baselines: FittedBaselines,
    data: DataModule,
    whole: DataModule,
) -> None:
    """Save `refit.ckpt` beside the tested checkpoint, with its test and its intervals; remove the states.

    Args:
        facts: see `describe_refit`.
        baselines: those of the refit.
        data, whole: the data of the tested model and of the refit; intervals keep their width in original units.
    """

    def rescaled(state: dict[str, Any]) -> dict[str, Any]:
        calibration = Calibration.from_state_dict(state)
        return calibration.rescaled(data.target_scaler, whole.target_scaler).state_dict()

    save_weights(
        trainer,
        best.with_name("refit.ckpt"),
        refitted=facts,
        calibration=rescaled(tested["calibration"]),
        baselines=baselines.state_dict(),
        baseline_calibrations={n: rescaled(state) for n, state in tested["baseline_calibrations"].items()},
        test=tested["test"],
    )
    if trainer.is_global_zero:
        for name in (STATE, f"{STATE}-1"):
            best.with_name(f"{name}.ckpt").unlink(missing_ok=True)


def refit_trainer(config: DictConfig, folder: Path, epochs: int) -> L.Trainer:
    """Create a trainer without validation and loggers that saves its state to `folder` and stops after `epochs`."""
    every_minutes = config.callbacks.checkpoint.every_minutes
    return make_trainer(
        config,
        StopAfter(epochs),
        Checkpointing(str(folder), name=STATE, keep_best=False, every_minutes=every_minutes),
        names=("progress", "finite", "random_state"),
        logger=False,
        limit_val_batches=0,
        # no epoch if the best model was the one before the first step
        max_epochs=count_epochs(config) if epochs else 0,
    )


def describe_refit(whole: DataModule, best: Path, tested: dict[str, Any]) -> dict[str, Any]:
    """Return the refit's entry in metrics.json and in its checkpoint."""
    panel = whole.panel
    return {
        "checkpoint": "checkpoints/refit.ckpt",
        "epochs": completed_epochs(tested),
        "shrinkage_weight": saved_shrinkage(tested),
        "rows": panel.n_rows,
        "first_date": str(panel.first_date),
        "last_date": str(panel.last_date),
        "scores_are_of": f"checkpoints/{best.name}",
    }
