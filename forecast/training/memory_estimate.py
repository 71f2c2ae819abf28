"""A check, before a model is constructed, that the model and a batch can fit into memory."""

from omegaconf import DictConfig, OmegaConf

from forecast.data import DataModule
from forecast.system.errors import ConfigError
from forecast.system.memory import available
from forecast.training.create_model import model_class

BYTES_PER_PARAMETER = 16
"""float32 weight and gradient, and the two moments of Adam."""

# Of the settings that `estimate_size` reads, those that a message names: a property of the estimate, not of the keys.
OF_PARAMETERS = ("model.d_model", "model.d_ff", "model.encoder_layers")
OF_ACTIVATIONS = ("data.batch_size", "model.seq_len", "model.pred_len", "model.d_model")


def check_memory(config: DictConfig, data: DataModule) -> None:
    """Raise ConfigError if the model or a batch needs more memory, by a lower bound, than is free."""
    size = model_class(config.model).estimate_size(
        config.model, n_features=data.n_features, n_targets=data.n_targets
    )
    batch = min(data.batch_size, data.n_windows.get("train", 1))
    free = available()
    for needed, keys in (
        (BYTES_PER_PARAMETER * size.parameters, OF_PARAMETERS),
        (4 * (batch * size.activations + size.tables), OF_ACTIVATIONS),
    ):
        if needed > free:
            values = {key: OmegaConf.select(config, key) for key in keys}
            asked = ", ".join(f"{key}={value}" for key, value in values.items() if value is not None)
            raise ConfigError(
                f"{asked} need at least {needed / 2**30:,.1f} GiB of memory, and {free / 2**30:,.1f} GiB are free: "
                "choose smaller values"
            )
