"""Resuming a Lightning trainer within an epoch: the remaining batches, in order, with the same scaler."""

from pathlib import Path

import lightning as L
import pytest
import torch

from forecast.data import csv_data
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
