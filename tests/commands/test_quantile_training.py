"""Training with `loss=quantile`: the quantile loss selects the best epoch."""

import json
from pathlib import Path

import pandas as pd
import pytest

from forecast.checkpoints.contents import completed_epochs
from forecast.checkpoints.file import load_checkpoint
from tests.support.commands import only, train_here, workplace

EPOCHS = ("logger=[]", "loss=quantile", "trainer.max_epochs=4", "callbacks.early_stopping.patience=9")


@pytest.mark.parametrize("options", [(), ("schedule=plateau", "data.transform=asinh")])
def test_the_best_epoch_has_the_lowest_quantile_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    """Of a model without a warm start. The loss is that of the forecasts of the checkpoint, in scaled values."""
    folder = workplace(tmp_path)
    assert train_here(monkeypatch, folder, *EPOCHS, "features=S", "data.target=load", *options) == 0
    run = only(folder, "runs/*")
    losses = pd.read_csv(run / "metrics.csv")["val/quantile_loss"]
    best = load_checkpoint(run / "checkpoints" / "best.ckpt")
    assert completed_epochs(best) == 1 + losses.argmin()
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["best_epoch"] == 1 + losses.argmin()


def test_training_stops_early_by_the_quantile_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = workplace(tmp_path)
    asked = (
        "logger=[]",
        "loss=quantile",
        "trainer.max_epochs=30",
        "callbacks.early_stopping.patience=2",
        "optimizer.lr=0.05",
    )
    assert train_here(monkeypatch, folder, *asked) == 0
    losses = pd.read_csv(only(folder, "runs/*") / "metrics.csv")["val/quantile_loss"]
    assert len(losses) < 30
    assert losses.argmin() == len(losses) - 3
