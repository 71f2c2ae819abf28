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
    has the step at its centre.

    Attributes:
        name: the layer's path in the model, as in `named_modules`.
        slot: part of the model; variables: a layer of the encoder whose positions are the variables of one patch.
        number: position among the layers of its encoder or decoder.
        query_steps, memory_steps: the step of each query, and of each token that is read.
        query_variables, memory_variables: the number of the variable of each of these tokens, in a sequence that holds
            several variables; else None.
        encoder: position of its encoder in a stack of encoders; None: the model has one encoder.
    """

    name: str
    slot: Slot
    number: int
    query_steps: Int[np.ndarray, " query_len"]
    memory_steps: Int[np.ndarray, " memory_len"]
    encoder: int | None = None
    query_variables: Int[np.ndarray, " query_len"] | None = None
    memory_variables: Int[np.ndarray, " memory_len"] | None = None


def encoder_attention(
    encoder: Encoder,
    steps: Steps,
    variables: Steps | None = None,
    *,
    name: str = "encoder",
    encoder_number: int | None = None,
) -> list[AttentionLayer]:
    """List the self-attention layers of an encoder that reads `steps`, of `variables` if it reads several together.

    `name` is the encoder's path in the model, `encoder_number` its position in a stack of encoders.

    A distilling block keeps every second token: token j is the maximum over tokens 2j − 1 … 2j + 1 before the block,
    each mixed with its two neighbours, so its centre is that of token 2j.
    """
    layers = []
    for i in range(len(encoder.layers)):
        if i > 0 and isinstance(encoder.distils[i - 1], Distil):
            steps, variables = steps[::2], None if variables is None else variables[::2]
        path = f"{name}.layers.{i}.attention"
        layers.append(AttentionLayer(path, "encoder", i, steps, steps, encoder_number, variables, variables))
    return layers


def decoder_attention(
    decoder: Decoder,
    steps: Steps,
    encoder_layers: Sequence[AttentionLayer],
    *,
    last: int,
    variables: Steps | None = None,
) -> list[AttentionLayer]:
    """List the self-attention and cross-attention layers of a decoder.

    Its memory is the concatenated outputs of all encoders, so its steps are those of the last layer of each encoder.

    Args:
        decoder: the decoder.
        steps: the steps that it reads.
        encoder_layers: the layers of its encoders.
        last: number of positions of the output. The last cross-attention answers only these if its queries are
            independent.
        variables: of `steps`, and then of the encoder layers too, in a sequence of several variables.
    """
    # a later layer replaces an earlier one
    last_layers = {layer.encoder: layer for layer in encoder_layers}.values()
    memory = np.concatenate([layer.query_steps for layer in last_layers])
    read = [layer.query_variables for layer in last_layers if layer.query_variables is not None]
    memory_variables = np.concatenate(read) if read else None
    layers = []
    for i, layer in enumerate(decoder):
        is_cut = i == len(decoder) - 1 and layer.cross.independent_queries  # type: ignore[union-attr]
        asked = slice(len(steps) - last if is_cut else 0, None)
        asked_variables = None if variables is None else variables[asked]
        layers += [
            AttentionLayer(
                f"decoder.{i}.attention", "decoder", i, steps, steps,
                query_variables=variables, memory_variables=variables,
            ),
            AttentionLayer(
                f"decoder.{i}.cross", "cross", i, steps[asked], memory,
                query_variables=asked_variables, memory_variables=memory_variables,
            ),
        ]  # fmt: skip
    return layers
