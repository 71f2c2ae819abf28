"""The table of epochs: losses are means over windows, and gradients over steps."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning as L
import pandas as pd
import pytest
import torch
from torch.utils.data import DataLoader

from forecast.training.callbacks import EpochTable


class Slope(L.LightningModule):
    """A loss w · x, whose gradient is x."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        return self.weight @ batch.slope

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.0)


def test_losses_are_means_over_windows_and_gradients_over_steps(tmp_path: Path) -> None:
    batches = [
        SimpleNamespace(slope=torch.tensor([3.0, 4.0]), index=range(1)),
        SimpleNamespace(slope=torch.tensor([0.0, 1.0]), index=range(3)),
    ]
    trainer = L.Trainer(
        max_epochs=1, accelerator="cpu", gradient_clip_val=0.1, logger=False, enable_progress_bar=False,
        enable_checkpointing=False, enable_model_summary=False, callbacks=[EpochTable(str(tmp_path / "metrics.csv"))],
    )  # fmt: skip
    trainer.fit(Slope(), DataLoader(batches, batch_size=None))  # type: ignore[arg-type]
    found = pd.read_csv(tmp_path / "metrics.csv").iloc[0]
    assert found["train/loss"] == pytest.approx((7 + 3 * 1) / 4)
    assert found["train/grad_norm"] == pytest.approx((5 + 1) / 2)
