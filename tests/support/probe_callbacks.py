"""Callbacks that tests add to runs by name: one records what each process does, one fails, one sends a signal."""

import hashlib
import json
import os
import signal
from pathlib import Path

import lightning as L
import torch


def fingerprint(module: L.LightningModule) -> str:
    parts = [parameter.detach().numpy().tobytes() for parameter in module.parameters()]
    return hashlib.sha256(b"".join(parts)).hexdigest()


class Witness(L.Callback):
    """Save hashes of the initial and final weights of this process, its next random number and its windows."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.seen: dict = {"windows": []}

    def setup(self, trainer: L.Trainer, module: L.LightningModule, stage: str) -> None:
        if stage == "fit":  # before the processes share weights
            self.seen["initial"] = fingerprint(module)

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        self.seen["random"] = torch.rand(1, generator=torch.default_generator.clone_state()).item()

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx) -> None:
        if trainer.current_epoch == 0:
            self.seen["windows"] += batch.index.tolist()

    def on_train_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        self.seen["final"] = fingerprint(module)
        self.folder.mkdir(exist_ok=True)
        (self.folder / f"{trainer.global_rank}.json").write_text(json.dumps(self.seen))


class Failure(L.Callback):
    """Fail in the second epoch, in one process only."""

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def on_train_epoch_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        if trainer.current_epoch == 1 and trainer.global_rank == self.rank:
            raise ValueError(f"process {self.rank} broke")


class TellToStop(L.Callback):
    """Send this process SIGTERM at every call of a hook in an epoch of one of the trainer's functions."""

    def __init__(self, hook: str, epoch: int, function: str = "fit") -> None:
        def tell(trainer: L.Trainer, module: L.LightningModule) -> None:
            if trainer.current_epoch == epoch and trainer.state.fn == function:
                os.kill(os.getpid(), signal.SIGTERM)

        setattr(self, hook, tell)
