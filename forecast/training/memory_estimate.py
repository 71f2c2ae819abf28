"""A check, before a model is constructed, that the model and a batch can fit into memory."""

import torch
from omegaconf import DictConfig, OmegaConf

from forecast.data import DataModule
from forecast.system.errors import ConfigError
from forecast.system.memory import available
from forecast.training.create_model import model_class
from forecast.training.precision import has_gpu

BYTES_PER_PARAMETER = 16
"""float32 weight and gradient, and the two moments of Adam."""

# Of the settings that `estimate_size` reads, those that a message names: a property of the estimate, not of the keys.
OF_PARAMETERS = ("model.d_model", "model.d_ff", "model.encoder_layers")
OF_ACTIVATIONS = ("data.batch_size", "model.seq_len", "model.pred_len", "model.d_model")


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
