"""The score that selects the best epoch, across a resumed run."""

import math
from pathlib import Path

import lightning as L
import pytest
import torch
from lightning.pytorch.trainer.states import TrainerFn

from forecast.system.errors import CheckpointError
from forecast.training.checkpointing import Checkpointing


class QuantileModule(L.LightningModule):
    validation_metric = "val/quantile_loss"
    data = None


def test_a_run_that_selected_its_epochs_by_another_score_is_not_resumed(tmp_path: Path) -> None:
    (tmp_path / "best.ckpt").touch()
    older = {
        "best_score": 0.3,
        "untrained_losses": None,
    }  # as written before quantiles had a score of their own
    checkpointing = Checkpointing(str(tmp_path))
    checkpointing.load_state_dict(older)
    with pytest.raises(
        CheckpointError, match="selected its epochs by val/mse, now val/quantile_loss: train again"
    ):
        checkpointing.on_train_start(L.Trainer(logger=False, enable_checkpointing=False), QuantileModule())


@pytest.mark.parametrize(("scores", "best"), [((math.nan, 0.5, 0.7), 1), ((0.5, math.nan, 0.4), 2)])
def test_an_epoch_without_a_finite_score_is_not_the_best(
    scores: tuple[float, ...], best: int, tmp_path: Path
) -> None:
    """float16 can overflow in validation."""
    checkpointing, module = Checkpointing(str(tmp_path)), QuantileModule()
    trainer = L.Trainer(logger=False, enable_checkpointing=False)
    trainer.state.fn = TrainerFn.FITTING
    chosen = -1
    for epoch, score in enumerate(scores):
        trainer.callback_metrics[module.validation_metric] = torch.tensor(score)
        checkpointing.on_validation_end(trainer, module)
        if checkpointing._is_best:
            chosen = epoch
            (tmp_path / "best.ckpt").touch()
    assert chosen == best
