"""What depends on the hardware: values `auto`, and the refusal of a batch that cannot fit, on simulated machines."""

from typing import Any
from unittest.mock import Mock

import pytest
import torch

from forecast.cli.compose import compose_config
from forecast.data import DataModule
from forecast.system.errors import ConfigError
from forecast.system.keys import STATE, first_difference, identity
from forecast.training import hardware
from tests.support.configurations import composed_once, with_values


@pytest.fixture
def machine(monkeypatch):
    """Simulate the flags of a CPU, and the compute capability of a GPU or none."""

    def pretend(flags: set[str], capability: tuple[int, int] | None = None) -> None:
        monkeypatch.setattr(hardware, "cpu_flags", lambda: flags)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: capability is not None)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)

    return pretend


@pytest.mark.parametrize(
    ("flags", "capability", "accelerator", "d_model", "expected"),
    [
        ({"amx_bf16"}, None, "auto", 512, "bf16-mixed"),
        ({"amx_bf16"}, None, "cpu", 128, "bf16-mixed"),
        ({"amx_bf16"}, None, "auto", 64, "32-true"),
        ({"avx512f"}, None, "auto", 512, "32-true"),
        (set(), (9, 0), "auto", 512, "bf16-mixed"),
        (set(), (8, 0), "gpu", 512, "bf16-mixed"),
        (set(), (7, 5), "gpu", 512, "32-true"),
        (set(), (9, 0), "cpu", 512, "32-true"),
        ({"amx_bf16"}, None, "mps", 512, "32-true"),
    ],
)
def test_precision_follows_the_device_and_the_width(
    machine, flags, capability, accelerator, d_model, expected
):
    machine(flags, capability)
    config = with_values(composed_once(), f"trainer.accelerator={accelerator}", f"model.d_model={d_model}")
    hardware.resolve_auto(config, None)
    assert config.trainer.precision == expected
    assert config.optimizer.fused is True


def test_given_values_are_kept(machine):
    machine({"amx_bf16"})
    config = with_values(
        composed_once(), "trainer.precision=32-true", "model.d_model=512", "optimizer.fused=false"
    )
    hardware.resolve_auto(config, None)
    assert config.trainer.precision == "32-true"
    assert config.optimizer.fused is False


def test_a_continued_run_keeps_its_precision(machine):
    machine({"amx_bf16"})
    config = with_values(composed_once(), "model.d_model=512")
    hardware.resolve_auto(config, {"hyper_parameters": {"trainer": {"precision": "32-true"}}})
    assert config.trainer.precision == "32-true"


def test_float16_does_not_follow_to_a_machine_without_a_gpu(machine):
    machine({"amx_bf16"})
    config = with_values(composed_once(), "model.d_model=512")
    hardware.resolve_auto(config, {"hyper_parameters": {"trainer": {"precision": "16-mixed"}}})
    assert config.trainer.precision == "bf16-mixed"
    assert hardware.keep_precision("16-mixed") == "32-true"
    machine({"amx_bf16"}, (9, 0))
    assert hardware.keep_precision("16-mixed") == "16-mixed"
    assert hardware.keep_precision("16-mixed", accelerator="cpu") == "32-true"


def test_fused_is_turned_off_where_it_is_not_supported():
    config = with_values(composed_once(), "trainer.precision=16-mixed")
    hardware.resolve_auto(config, None)
    assert config.optimizer.fused is False
    config = with_values(composed_once(), "optimizer._target_=torch.optim.RMSprop")
    hardware.resolve_auto(config, None)
    assert "fused" not in config.optimizer


def test_the_fused_form_is_no_difference_to_a_checkpoint():
    old, new, other = (
        identity({"optimizer": {"fused": fused, "lr": lr}}, [STATE])
        for fused, lr in ((True, 1.0), (False, 1.0), (False, 2.0))
    )
    assert first_difference(old, new) is None
    assert first_difference(old, other) == ("optimizer.lr", 1.0, 2.0)


def test_the_first_processors_flags_are_read(monkeypatch, tmp_path):
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nflags\t\t: fpu avx512f amx_bf16\nbugs\t\t: none\n")
    monkeypatch.setattr(hardware, "Path", lambda _: tmp_path / "cpuinfo")
    assert hardware.cpu_flags() == {"fpu", "avx512f", "amx_bf16"}
    monkeypatch.setattr(hardware, "Path", lambda _: tmp_path / "none")
    assert hardware.cpu_flags() == set()


GIB = 2**30
DATA: Any = Mock(DataModule, batch_size=2048, n_windows={"train": 10_000}, n_features=7, n_targets=7)
WIDE = ("model=informer", "seq_len=720", "pred_len=720", "model.d_model=512", "model.d_ff=2048")
NEEDED = 4 * (2048 * 1440 * (6 * 512 + 2048) + 720 * 512) / GIB  # 56 GiB of float32


def refusal(*overrides: str) -> str | None:
    try:
        hardware.check_memory(compose_config(*WIDE, *overrides), DATA)
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
