"""The score that selects the best epoch, across a resumed run."""

from pathlib import Path

import lightning as L
import pytest

from forecast.system.errors import CheckpointError
from forecast.training.checkpointing import Checkpointing


class QuantileModule(L.LightningModule):
    validation_metric = "val/quantile_loss"


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
