"""The refusal of a batch that cannot fit: each machine and each GPU holds its part of it."""

from typing import Any
from unittest.mock import Mock

import pytest
import torch

from forecast.cli.compose import compose_config
from forecast.data import DataModule
from forecast.system.errors import ConfigError
from forecast.training import hardware
from forecast.training.hardware import check_memory

GIB = 2**30
DATA: Any = Mock(DataModule, batch_size=2048, n_windows={"train": 10_000}, n_features=7, n_targets=7)
WIDE = ("model=informer", "seq_len=720", "pred_len=720", "model.d_model=512", "model.d_ff=2048")
NEEDED = 4 * (2048 * 1440 * (6 * 512 + 2048) + 720 * 512) / GIB  # 56 GiB of float32


def refusal(*overrides: str) -> str | None:
    try:
        check_memory(compose_config(*WIDE, *overrides), DATA)
    except ConfigError as error:
        return str(error)
    return None


def test_a_batch_of_one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "available", lambda: int(0.9 * NEEDED * GIB))
    said = refusal("trainer.precision=32-true")
    assert said is not None
    assert f"need at least {NEEDED:.1f} GiB" in said
    assert refusal("trainer.precision=bf16-mixed") is None
    assert refusal("trainer.precision=32-true", "trainer.num_nodes=2") is None


def test_a_batch_of_several_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 GPUs hold 32 windows each, which no memory of the machine limits."""
    monkeypatch.setattr(hardware, "available", lambda: 8 * GIB)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 64)
    free = 1.1 * NEEDED / 64
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (int(free * GIB), 80 * GIB))
    assert refusal("trainer.precision=32-true", "trainer.devices=-1") is None
    assert refusal("trainer.precision=32-true", "trainer.devices=32") is not None
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (int(free / 2 * GIB), 80 * GIB))
    assert refusal("trainer.precision=32-true", "trainer.devices=-1") is not None
