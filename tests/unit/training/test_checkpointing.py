"""The score that selects the best epoch."""

import math
from pathlib import Path

import lightning as L
import pytest
import torch
from lightning.pytorch.trainer.states import TrainerFn

from forecast.training.checkpointing import Checkpointing


class Module(L.LightningModule):
    validation_metric = "val/mse"
    data = None


@pytest.mark.parametrize(("scores", "best"), [((math.nan, 0.5, 0.7), 1), ((0.5, math.nan, 0.4), 2)])
def test_an_epoch_without_a_finite_score_is_not_the_best(
    scores: tuple[float, ...], best: int, tmp_path: Path
) -> None:
    """float16 can overflow in validation."""
    checkpointing, module = Checkpointing(str(tmp_path)), Module()
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
