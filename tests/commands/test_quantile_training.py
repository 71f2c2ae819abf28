"""Training with `loss=quantile`: the quantile loss selects the best epoch."""

import json
from pathlib import Path

import pandas as pd
import pytest

from forecast.checkpoints.contents import completed_epochs
from forecast.checkpoints.file import load_checkpoint
from tests.support.commands import only, train_here, workplace


def test_the_quantile_loss_stops_training_and_selects_the_best_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a model without a warm start. The loss is that of the forecasts of the checkpoint, in scaled values."""
    asked = ("logger=[]", "loss=quantile", "trainer.max_epochs=30", "callbacks.early_stopping.patience=2")
    more = ("optimizer.lr=0.05", "schedule=plateau", "data.transform=asinh", "features=S", "data.target=load")
    assert train_here(monkeypatch, workplace(tmp_path), *asked, *more) == 0
    run = only(tmp_path, "runs/*")
    losses = pd.read_csv(run / "metrics.csv")["val/quantile_loss"]
    assert losses.argmin() == len(losses) - 3 < 27
    assert completed_epochs(load_checkpoint(run / "checkpoints" / "best.ckpt")) == 1 + losses.argmin()
    assert json.loads((run / "metrics.json").read_text())["best_epoch"] == 1 + losses.argmin()
