"""Epochs of a Lightning trainer: resumed within one, the remaining batches follow, in order; the table of epochs."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning as L
import pandas as pd
import pytest
import torch
from torch.utils.data import DataLoader

from forecast.data import csv_data
from forecast.training.callbacks import EpochTable
from forecast.training.module import LightningData
from tests.support.csv_files import numbers

SIZES = {"name": "mine", "seq_len": 20, "pred_len": 6, "split": [0.7, 0.1, 0.2]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    numbers(500).to_csv(tmp_path / "a.csv", index=False)
    return tmp_path / "a.csv"


class Recorder(L.LightningModule):
    """Records the windows of each training step, by epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.seen: list[tuple[int, list[int]]] = []

    def training_step(self, batch, batch_idx: int):
        self.seen.append((self.current_epoch, batch.index.tolist()))
        return (batch.past.mean() * self.weight + batch.future.mean()).abs()

    def validation_step(self, batch, batch_idx: int):
        return None

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def make_trainer(folder: Path, **options) -> L.Trainer:
    saving = L.pytorch.callbacks.ModelCheckpoint(
        folder, save_top_k=-1, every_n_train_steps=1, filename="{step}"
    )
    return L.Trainer(
        max_epochs=3, logger=False, callbacks=[saving], enable_progress_bar=False, enable_model_summary=False,
        accelerator="cpu", num_sanity_val_steps=1, **options,
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_training_stopped_within_an_epoch_continues_with_the_remaining_batches(path: Path, tmp_path: Path):
    def data() -> LightningData:
        return LightningData(csv_data(path=path, batch_size=65, **SIZES))  # five batches an epoch

    unbroken = Recorder()
    make_trainer(tmp_path / "unbroken").fit(unbroken, data())
    assert [epoch for epoch, _ in unbroken.seen] == [0] * 5 + [1] * 5 + [2] * 5

    for step in (3, 5, 14):  # in an epoch, at the end of one, and in the last one
        resumed, state = Recorder(), str(tmp_path / "unbroken" / f"step={step}.ckpt")
        make_trainer(tmp_path / f"resumed{step}").fit(resumed, data(), ckpt_path=state)
        assert resumed.seen == unbroken.seen[step:]
        assert torch.equal(resumed.weight, unbroken.weight)


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
