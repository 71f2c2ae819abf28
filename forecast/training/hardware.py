"""What depends on the hardware: precision, compilation, and a check that a model fits into memory."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from torch import nn

from forecast.data import DataModule
from forecast.system.errors import ConfigError
from forecast.system.memory import available
from forecast.training.create_model import model_class
from forecast.training.preparation import AUTO, is_float16

MIN_D_MODEL = 128
"""d_model from which bfloat16 products save more time than its casts cost (docs/performance.md)."""

BYTES_PER_PARAMETER = 16
"""float32 weight and gradient, and the two moments of Adam."""

# Of the settings that `estimate_size` reads, those that a message names: a property of the estimate, not of the keys.
OF_PARAMETERS = ("model.d_model", "model.d_ff", "model.encoder_layers")
OF_ACTIVATIONS = ("data.batch_size", "model.seq_len", "model.pred_len", "model.d_model")


@contextmanager
def computing(network: nn.Module, precision: object, device: torch.device) -> Iterator[torch.dtype]:
    """Move a network to a device and compute there in a precision without gradients; see `computing_in`."""
    with computing_in(precision, device) as dtype:
        network.to(device, dtype)
        with torch.inference_mode():
            yield dtype


@contextmanager
def computing_in(precision: object, device: torch.device) -> Iterator[torch.dtype]:
    """Compute in a precision, as Lightning's trainer does. Yields the type of the numbers that a network reads."""
    mixed = {"bf16": torch.bfloat16, "16": torch.float16}.get(str(precision).partition("-")[0])
    dtype = torch.float64 if str(precision).startswith("64") else torch.float32
    default = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.autocast(device.type, dtype=mixed, enabled=mixed is not None, cache_enabled=False):
            yield dtype
    finally:
        torch.set_default_dtype(default)


def has_gpu(accelerator: str = AUTO) -> bool:
    """Whether an accelerator of a trainer is a GPU with CUDA."""
    return accelerator in (AUTO, "gpu", "cuda") and torch.cuda.is_available()


def keep_precision(saved: Any, otherwise: str = "32-true", accelerator: str = AUTO) -> Any:
    """Return the precision of a checkpoint, or `otherwise` for float16 without a GPU, which float16 needs."""
    return otherwise if is_float16(saved) and not has_gpu(accelerator) else saved


def best_precision(accelerator: str, width: int) -> str:
    """Return bf16-mixed for wide models on hardware with bfloat16 matrix units, else 32-true.

    Float16 is never chosen: it needs a scaled loss, and its range loses gradients.
    """
    if has_gpu(accelerator):
        multiplies_bfloat16 = torch.cuda.get_device_capability() >= (8, 0)
    else:
        runs_on_cpu = accelerator == "cpu" or (accelerator == AUTO and not torch.backends.mps.is_available())
        multiplies_bfloat16 = runs_on_cpu and "amx_bf16" in cpu_flags()
    return "bf16-mixed" if multiplies_bfloat16 and width >= MIN_D_MODEL else "32-true"


def cpu_flags() -> set[str]:
    """Return the processor's features as Linux names them; an empty set on other systems."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((set(line.split(":")[1].split()) for line in lines if line.startswith("flags")), set())


def check_memory(config: DictConfig, data: DataModule) -> None:
    """Raise ConfigError if the model or a batch of the data needs more memory, by a lower bound, than is free."""
    batch = min(data.batch_size, data.n_windows.get("train", 1))
    check_size(config, n_features=data.n_features, n_targets=data.n_targets, batch=batch)


def check_size(config: DictConfig, *, n_features: int, n_targets: int, batch: int) -> None:
    """Raise ConfigError if the model or a batch needs more memory, by a lower bound, than is free.

    The model is constructed in the memory of the machine. A batch is divided among machines and GPUs; the processes of
    a machine without GPUs share its memory.
    """
    size = model_class(config.model).estimate_size(config.model, n_features=n_features, n_targets=n_targets)
    trainer, in_machine = config.trainer, available()
    share, at_work = batch / trainer.num_nodes, in_machine
    if has_gpu(trainer.accelerator):  # each device holds its part of the batch
        share, at_work = share / most_gpus(trainer.devices), torch.cuda.mem_get_info()[0]
    bytes_per_activation = 2 if "16" in str(trainer.precision) else 4
    for needed, free, keys in (
        (BYTES_PER_PARAMETER * size.parameters, in_machine, OF_PARAMETERS),
        (bytes_per_activation * share * size.activations + 4 * size.tables, at_work, OF_ACTIVATIONS),
    ):
        if needed > free:
            values = {key: OmegaConf.select(config, key) for key in keys}
            asked = ", ".join(f"{key}={value}" for key, value in values.items() if value is not None)
            raise ConfigError(
                f"{asked} need at least {needed / 2**30:,.1f} GiB of memory, and {free / 2**30:,.1f} GiB are free: "
                "choose smaller values"
            )


def most_gpus(devices: object) -> int:
    """The largest number of GPUs that the setting `trainer.devices` can mean on this machine."""
    count = torch.cuda.device_count()
    return min(devices, count) if isinstance(devices, int) and devices > 0 else count


def compile_where_possible(model: nn.Module, device: torch.device) -> None:
    """Compile the model's forward pass for `device`, in place; without a compiler, warn and leave it as it is.

    PyTorch notices a missing C++ compiler, Triton or setuptools only at the first step. Therefore an addition is
    compiled first, which costs no time that the model would not cost.
    """
    try:
        torch.compile(lambda x: x + 1)(torch.zeros(2, device=device))
    except RuntimeError as error:  # the base class of PyTorch's compiler errors
        reason = str(getattr(error, "inner_exception", error)).strip().splitlines()[0]
        warnings.warn(
            f"compile=true: no working compiler here ({reason}); training continues uncompiled", stacklevel=2
        )
    else:
        model.compile()
