"""Whether a model and a batch can fit into memory at all, asked before any of it is taken."""

from omegaconf import DictConfig, OmegaConf

from forecast.data import ForecastData
from forecast.errors import ConfigError
from forecast.memory import available

_STATE = 16
"""Bytes a parameter: float32 weight and gradient, and Adam's two moments."""


def check_sizes(config: DictConfig, data: ForecastData) -> None:
    """Raises ConfigError for sizes whose least need of memory is more than there is.

    Counted are the products of attention and feed-forward, and one layer's activations of a training batch: what a
    run takes is more. Sizes that are no whole numbers are the model's to refuse.
    """
    model = config.model
    sizes = [
        model.get(key)
        for key in ("d_model", "d_ff", "encoder_layers", "decoder_layers", "seq_len", "pred_len")
    ]
    sizes.append(model.get("patch_len", 1))
    if not all(type(size) is int and size > 0 for size in sizes):
        return
    width, inner, encoder_layers, decoder_layers, past, future, patch = sizes
    columns = data.n_features + data.n_targets
    layers = encoder_layers + decoder_layers
    attentions = 1 if model.get("share_layers") else layers
    parameters = attentions * 2 * width**2 + layers * 2 * width * inner + width * columns
    batch = min(config.data.batch_size, data.n_windows.get("train", 1))
    tokens = (past + future) // patch
    if model.get("tokens", "mixed") != "mixed":
        tokens *= data.n_features if model.tokens == "joint" else data.n_targets
    activations = 4 * batch * tokens * (6 * width + inner)
    free = available()
    for needed, keys in (
        (_STATE * parameters, ("model.d_model", "model.d_ff", "model.encoder_layers")),
        (
            activations + 4 * past * width,
            ("data.batch_size", "model.seq_len", "model.pred_len", "model.d_model"),
        ),
    ):
        if needed > free:
            asked = ", ".join(f"{key}={OmegaConf.select(config, key)}" for key in keys)
            raise ConfigError(
                f"{asked} need at least {needed / 2**30:,.1f} GiB of memory, and {free / 2**30:,.1f} GiB are free: "
                "choose smaller ones"
            )
