"""Lower bounds of a model's size, estimated from its settings before anything is allocated."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ModelSize:
    """Lower bounds of a model's size; 0: unknown.

    Attributes:
        n_layers: layers with parameters of their own.
        width: width of the largest matrix products (`d_model`).
        parameters: trainable numbers.
        activations: numbers that one window holds while one layer runs.
        tables: numbers in fixed tables, such as sinusoidal positions.
    """

    n_layers: int = 0
    width: int = 0
    parameters: int = 0
    activations: int = 0
    tables: int = 0


def estimate_informer_size(settings: Mapping[str, Any], *, n_features: int, n_targets: int) -> ModelSize:
    """Estimate the size of a model with Informer encoder layers.

    Counts the matrix products of attention and feed-forward and the activations of one layer: a run takes more.
    Settings that are not positive whole numbers give an unknown size; the model's constructor refuses them.
    """
    layers = _counts(settings, *(name for name in ("encoder_layers", "decoder_layers") if name in settings))
    sizes = _counts({"patch_len": 1, **settings}, "d_model", "d_ff", "seq_len", "pred_len", "patch_len")
    if not layers or not sizes:
        return ModelSize(n_layers=max(layers, default=0))
    width, inner, past, future, patch = sizes
    attentions = 1 if settings.get("share_layers") else sum(layers)
    tokens = (past + future) // patch
    if settings.get("tokens", "mixed") != "mixed":
        tokens *= n_features if settings["tokens"] in ("joint", "axes") else n_targets
    return ModelSize(
        n_layers=max(layers),
        width=width,
        parameters=attentions * 2 * width**2
        + sum(layers) * 2 * width * inner
        + width * (n_features + n_targets),
        activations=tokens * (6 * width + inner),
        tables=past // patch * width,
    )


def _counts(settings: Mapping[str, Any], *names: str) -> list[int]:
    """Return the named settings; an empty list if one of them is not a positive whole number."""
    values = [settings.get(name) for name in names]
    return [value for value in values if value] if all(type(v) is int and v > 0 for v in values) else []
