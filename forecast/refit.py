"""`refit=full`: once the scores are known, train the same model again on every row there is."""

import os
from pathlib import Path
from typing import Any

import lightning as L
from hydra.utils import instantiate
from lightning.pytorch.callbacks import Callback
from omegaconf import DictConfig

from forecast import preemption
from forecast.baselines import FittedBaselines
from forecast.build import make_forecaster, make_trainer
from forecast.checkpoint import add_to_checkpoint, epochs_done, load_checkpoint, newest_state
from forecast.compiler import compile_where_possible
from forecast.conformal import Calibration
from forecast.data import ForecastData
from forecast.errors import ConfigError
from forecast.keeping import KeepCheckpoints
from forecast.share import set_share

STATE = "refit-last"
"""The name of the state that an interrupted refit goes on from."""


class StopAfter(Callback):
    """End training after so many epochs of those that the schedule was made for."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def on_train_epoch_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        trainer.should_stop = trainer.current_epoch + 1 >= self.epochs


def check_refit(config: DictConfig) -> None:
    """Raises ConfigError for a word that is not known, or a schedule that needs validation windows."""
    if config.refit not in (None, "full"):
        raise ConfigError(f"refit={config.refit}: only refit=full is known")
    if config.refit and config.schedule._target_.endswith("plateau"):
        raise ConfigError(
            "refit=full leaves no validation windows for schedule=plateau to watch: use another schedule"
        )


def refit(config: DictConfig, data: ForecastData, fitted: FittedBaselines, best: Path) -> dict[str, Any]:
    """Train from the start on all rows, for as many epochs as the tested model's best took; keep `refit.ckpt`.

    The scaler is fitted on all rows too. There are no windows left to test this model on, nor to calibrate it: its
    intervals are as wide as the tested model's, in the data's units (of many series: on each one's scale). Gives what
    metrics.json says of it.
    """
    tested = load_checkpoint(best)
    epochs = epochs_done(tested)
    whole = data.resplit("train")
    L.seed_everything(config.seed, workers=True, verbose=False)
    forecaster = make_forecaster(config, whole, fitted, chosen_on=data)
    callbacks = instantiate({name: config.callbacks[name] for name in ("progress", "finite", "random_state")})
    keep = KeepCheckpoints(
        str(best.parent), name=STATE, keep_best=False, every_minutes=config.callbacks.checkpoint.every_minutes
    )
    trainer = make_trainer(
        config,
        [*callbacks.values(), StopAfter(epochs), keep],
        logger=False,
        limit_val_batches=0,
        # no epoch where the best was the model before its first step
        max_epochs=config.trainer.max_epochs if epochs else 0,
    )
    if config.compile:
        compile_where_possible(forecaster.model, trainer.strategy.root_device)
    rows, first_date, last_date = whole.extent()
    share = float(tested["state_dict"].get("model.share", 1))
    facts = {
        "checkpoint": "checkpoints/refit.ckpt",
        "epochs": epochs,
        "share": share,
        "rows": rows,
        "first_date": str(first_date),
        "last_date": str(last_date),
        "scores_are_of": f"checkpoints/{best.name}",
    }
    if trainer.is_global_zero:
        print(f"refit      again on all {rows:,} rows, to {last_date}, {epochs} epochs; no scores of its own")
    state = newest_state(best.parent.parent, STATE) if config.resume == "auto" else None
    if state is not None and state[1]["callbacks"]["KeepCheckpoints"]["is_finished"]:
        # none is left, and Lightning does not know that these were to be the last
        trainer.fit_loop.max_epochs = epochs
    with preemption.deferred():
        trainer.fit(forecaster, datamodule=whole, ckpt_path=state and state[0], weights_only=True)
    set_share(forecaster, share)
    partial = best.with_name(".refit.ckpt")
    trainer.save_checkpoint(partial, weights_only=True)
    if trainer.is_global_zero:
        calibration = Calibration.from_state_dict(tested["calibration"])
        calibration = calibration.rescaled(data.target_scaler, whole.target_scaler)
        add_to_checkpoint(
            partial, refitted=facts, calibration=calibration.state_dict(), baselines=tested["baselines"]
        )
        os.replace(partial, best.with_name("refit.ckpt"))
        for name in (STATE, f"{STATE}-1"):
            best.with_name(f"{name}.ckpt").unlink(missing_ok=True)
    return facts
