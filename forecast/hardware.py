"""What a run leaves to the hardware (`auto`): the precision, and the optimizer's fused form."""

import inspect
from pathlib import Path
from typing import Any

import torch
from hydra.utils import get_class
from omegaconf import DictConfig

from forecast.errors import ConfigError

AUTO = "auto"
WIDE = 128
"""d_model from which bfloat16's products save more than its casts cost (docs/performance.md)."""


def settle(config: DictConfig, checkpoint: dict[str, Any] | None) -> None:
    """Replace `trainer.precision=auto` and `optimizer.fused=auto` by what this machine does well.

    A run that goes on from a checkpoint keeps that one's precision, unless it was float16, which needs a GPU.
    """
    if config.trainer.precision == AUTO:
        config.trainer.precision = best_precision(config.trainer.accelerator, config.model.d_model)
        if checkpoint is not None:
            saved = checkpoint["hyper_parameters"]["trainer"]["precision"]
            if not str(saved).startswith("16"):
                config.trainer.precision = saved
    if config.optimizer.get("fused") not in (None, AUTO, True, False):
        raise ConfigError(f"optimizer.fused={config.optimizer.fused} must be {AUTO}, true or false")
    if config.optimizer.get("fused") == AUTO:
        if "fused" in inspect.signature(get_class(config.optimizer._target_)).parameters:
            # Lightning cannot clip gradients that a fused optimizer unscales.
            config.optimizer.fused = not str(config.trainer.precision).startswith("16")
        else:
            del config.optimizer.fused


def best_precision(accelerator: str, d_model: int) -> str:
    """bf16-mixed on wide models where the device multiplies bfloat16 in hardware tiles, else 32-true.

    Float16 is never chosen: it needs a scaled loss, and its range loses gradients.
    """
    has_gpu = accelerator in (AUTO, "gpu", "cuda") and torch.cuda.is_available()
    if has_gpu:
        multiplies_bfloat16 = torch.cuda.get_device_capability() >= (8, 0)
    else:
        runs_on_cpu = accelerator == "cpu" or (accelerator == AUTO and not torch.backends.mps.is_available())
        multiplies_bfloat16 = runs_on_cpu and "amx_bf16" in cpu_flags()
    return "bf16-mixed" if multiplies_bfloat16 and d_model >= WIDE else "32-true"


def cpu_flags() -> set[str]:
    """What the processor can do, in Linux's words; empty elsewhere."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((set(line.split(":")[1].split()) for line in lines if line.startswith("flags")), set())
