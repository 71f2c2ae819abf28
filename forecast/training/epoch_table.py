"""The table of epochs, `metrics.csv`."""

import csv
import math
import time
from pathlib import Path
from typing import Any

import lightning as L
import pandas as pd
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor

from forecast.system.files import atomic_file
from forecast.training.processes import gather


class EpochTable(Callback):
    """Write `metrics.csv`, one row per epoch; the file is whole after every epoch, and a resumed run appends to it.

    This callback also logs the epoch's training loss, the mean over its windows, and its learning rate. Checkpoints
    hold both, so that a resumed epoch logs the same values.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.lr = math.nan  # before the first epoch
        self._restored: list[Tensor] = []  # sums of each process, from a checkpoint

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        is_same_run = len(self._restored) == trainer.world_size
        sums = self._restored[trainer.global_rank] if is_same_run else torch.zeros(2)
        self._sums = sums.to(module.device)  # loss times windows, and windows
        self.rows = [row for row in read_rows(self.path) if row["epoch"] < trainer.current_epoch]
        self.started = time.perf_counter() - (self.rows[-1]["seconds"] if self.rows else 0)

    def on_train_epoch_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        # not at the epoch's end: by then the schedule has set the next epoch's rate
        self.lr = trainer.optimizers[0].param_groups[0]["lr"]
        self._sums = torch.zeros(2, device=module.device)

    def on_train_batch_end(
        self, trainer: L.Trainer, module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        windows = torch.tensor(float(len(batch.index)), device=module.device)
        self._sums += torch.stack([outputs["loss"].detach().float() * windows, windows])

    def on_train_epoch_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        loss, windows = torch.stack(gather(trainer, self._sums.cpu())).sum(0)
        module.log("train/loss", loss / windows, rank_zero_only=True)
        module.log("lr", self.lr, rank_zero_only=True)
        if trainer.is_global_zero:
            metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
            seconds = time.perf_counter() - self.started
            self.rows.append({"epoch": trainer.current_epoch, "seconds": seconds, **metrics})
            with atomic_file(self.path) as temporary:
                pd.DataFrame(self.rows).to_csv(temporary, index=False)

    def on_save_checkpoint(self, trainer: L.Trainer, module: L.LightningModule, checkpoint: dict) -> None:
        checkpoint["epoch_table"] = {"lr": self.lr, "sums": gather(trainer, self._sums.cpu())}

    def on_load_checkpoint(self, trainer: L.Trainer, module: L.LightningModule, checkpoint: dict) -> None:
        if "epoch_table" in checkpoint:  # not with callbacks.epochs=null
            self.lr, self._restored = checkpoint["epoch_table"]["lr"], checkpoint["epoch_table"]["sums"]


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read the rows exactly as written: not every version of pandas reads floats to the last digit."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        rows = [{name: float(text) for name, text in row.items() if text} for row in csv.DictReader(file)]
    return [{**row, "epoch": int(row["epoch"])} for row in rows]
