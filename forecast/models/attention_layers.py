"""Attention layers of a model, and the time steps that their tokens stand for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Int

from forecast.models.layers import Decoder, Distil, Encoder

Slot = Literal["encoder", "decoder", "cross", "variables"]
Steps = Int[np.ndarray, " length"]


@dataclass(frozen=True, eq=False)
class AttentionLayer:
    """One attention layer of a model.

    Steps number the window: 0 is the first of the past, seq_len the first of the horizon. A token of several steps
    has the step at its centre. A layer may answer fewer queries than `query_steps` names: the last ones.

    Attributes:
        name: the layer's path in the model, as in `named_modules`.
        slot: part of the model; variables: a layer of the encoder whose positions are the variables of one patch.
        number: position among the layers of its encoder or decoder.
        encoder: position of its encoder in a stack of encoders; None: the model has one encoder.
    """

    name: str
    slot: Slot
    number: int
    query_steps: Int[np.ndarray, " query_len"]
    memory_steps: Int[np.ndarray, " memory_len"]
    encoder: int | None = None


def encoder_attention(
    encoder: Encoder, steps: Steps, *, name: str = "encoder", encoder_number: int | None = None
) -> list[AttentionLayer]:
    """List the self-attention layers of an encoder that reads `steps`.

    `name` is the encoder's path in the model, `encoder_number` its position in a stack of encoders.

    A distilling block keeps every second token: token j is the maximum over tokens 2j − 1 … 2j + 1 before the block,
    each mixed with its two neighbours, so its centre is that of token 2j.
    """
    layers = []
    for i in range(len(encoder.layers)):
        if i > 0 and isinstance(encoder.distils[i - 1], Distil):
            steps = steps[::2]
        layers.append(
            AttentionLayer(f"{name}.layers.{i}.attention", "encoder", i, steps, steps, encoder_number)
        )
    return layers


def decoder_attention(
    decoder: Decoder, steps: Steps, encoder_layers: Sequence[AttentionLayer]
) -> list[AttentionLayer]:
    """List the self-attention and cross-attention layers of a decoder that reads `steps`.

    Its memory is the concatenated outputs of all encoders, so its steps are those of the last layer of each encoder.
    """
    last_layers = {layer.encoder: layer for layer in encoder_layers}  # a later layer replaces an earlier one
    memory = np.concatenate([layer.query_steps for layer in last_layers.values()])
    return [
        layer
        for i in range(len(decoder))
        for layer in (
            AttentionLayer(f"decoder.{i}.attention", "decoder", i, steps, steps),
            AttentionLayer(f"decoder.{i}.cross", "cross", i, steps, memory),
        )
    ]
