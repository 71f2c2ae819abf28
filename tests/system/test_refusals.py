"""Damaged checkpoints, with the text of each message."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from forecast.checkpoints.file import load_newest, save_checkpoint
from forecast.system.errors import CheckpointError
from tests.support.refusals import Refusal


def damaged(change: Callable[[bytes], bytes], *names: str) -> Callable[[Path], None]:
    """The two checkpoints of a run, of which these are damaged."""

    def call(folder: Path) -> None:
        for name in ("last", "last-1"):
            path = folder / "checkpoints" / f"{name}.ckpt"
            parts = {"hyper_parameters": {}, "LightningData": {}, "loops": {}}
            state = {"weights": torch.randn(1000)}
            save_checkpoint({"forecast_version": "1", "state_dict": state, **parts}, path)
            if name in names:
                path.write_bytes(change(path.read_bytes()))
        load_newest(folder)

    return call


def flip(content: bytes) -> bytes:
    """Change a bit of the weights, in the middle of the file."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def cut_short(content: bytes) -> bytes:
    return content[:-30]


REFUSED = [
    Refusal("a changed bit in every checkpoint", "checkpoints/last-1.ckpt: the file is damaged, or it is not a checkpoint", CheckpointError, damaged(flip, "last", "last-1")),
    Refusal("every checkpoint cut short", "checkpoints/last-1.ckpt: the file is damaged, or it is not a checkpoint", CheckpointError, damaged(cut_short, "last", "last-1")),
    Refusal("the newest checkpoint cut short", "checkpoints/last.ckpt: the file is damaged, or it is not a checkpoint; resuming from last-1.ckpt instead", UserWarning, damaged(cut_short, "last")),
]  # fmt: skip


@pytest.mark.parametrize("refusal", REFUSED, ids=lambda refusal: refusal.what)
def test_what_is_refused(refusal: Refusal, tmp_path: Path) -> None:
    refusal.check(tmp_path)
