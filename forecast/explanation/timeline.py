"""Where the positions of every attention layer lie in time.

The encoder's first layer has one position a step of the past (a stack's encoders: of its last half, quarter …). A
distilling block keeps every second position: position j is the maximum over positions 2j − 1 … 2j + 1 before it, each
mixed with its two neighbours, so that it is centred on 2j and stands for two of them. The decoder's positions are the
last label_len steps of the past and the horizon. Cross-attention reads the encoders' outputs, one after the other.

Where positions are patches of steps, those of several variables follow one another if they are attended together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
from jaxtyping import Int
from torch import nn

from forecast.model import Informer, ResidualInformer
from forecast.model.informer import EncoderStack
from forecast.model.layers import Distil, Encoder


@dataclass(frozen=True)
class Timeline:
    """The step that each position is centred on: 0 is the first of the past, seq_len the first of the horizon.

    `dates` are those of all steps, (seq_len + pred_len). Steps increase within a stretch; a stack's memory has one
    stretch for each encoder, a sequence of several variables one for each of them.
    """

    steps: Int[np.ndarray, " length"]
    dates: pd.DatetimeIndex
    seq_len: int
    patch_len: int | None = None  # steps a position holds, where positions are patches
    variables: tuple[str, ...] = ()  # whose positions follow one another

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def when(self) -> pd.DatetimeIndex:
        return self.dates[self.steps]

    @property
    def stretches(self) -> list[range]:
        """The positions of each stretch of increasing steps."""
        starts = [0, *(np.flatnonzero(np.diff(self.steps) <= 0) + 1).tolist(), len(self)]
        return [range(first, stop) for first, stop in pairwise(starts)]

    @property
    def widths(self) -> list[int]:
        """Steps that a position stands for, of each stretch of a network that reads single steps."""
        gaps = np.diff(self.steps)
        return [int(gaps[s.start]) if len(s) > 1 else 1 for s in self.stretches]

    @property
    def in_horizon(self) -> np.ndarray:
        """Whether each position is a step that the model forecasts (length)."""
        return self.steps >= self.seq_len

    @property
    def origin(self) -> float | None:
        """The place, in positions, of the line between past and horizon; None where all lie on one side."""
        first = int(self.in_horizon.argmax())
        return first - 0.5 if first > 0 else None

    def within_last(self, steps: int) -> np.ndarray:
        """Whether each position lies in the last `steps` of the past (length)."""
        return (self.steps >= self.seq_len - steps) & ~self.in_horizon


def timelines(
    network: Informer | ResidualInformer,
    dates: pd.DatetimeIndex,
    query_lens: dict[str, int],
    variables: Sequence[str] = (),
) -> dict[str, tuple[Timeline, Timeline]]:
    """The positions that ask and the positions that are read, of every attention layer by its name.

    `query_lens` holds each layer's number of queries: the last cross-attention may answer the horizon alone;
    `variables` are those that the network reads.
    """
    seq_len = len(dates) - network.pred_len
    encoded, decoded, memory = (
        _of_patches(network, seq_len)
        if isinstance(network, ResidualInformer)
        else _of_steps(network, seq_len)
    )
    found = {name: (steps, steps) for name, steps in encoded.items()}
    for i in range(len(network.decoder)):
        found[f"decoder.{i}.attention"] = decoded, decoded
        found[f"decoder.{i}.cross"] = decoded[len(decoded) - query_lens[f"decoder.{i}.cross"] :], memory
    timeline = partial(Timeline, dates=dates, seq_len=seq_len)
    if isinstance(network, ResidualInformer):
        names = tuple(variables) if network.variables.joint else ()
        timeline = partial(timeline, patch_len=network.patch_len, variables=names)
    return {name: (timeline(asking), timeline(read)) for name, (asking, read) in found.items()}


def _of_steps(network: Informer, seq_len: int) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """The steps that encoder layers see, by the layer's name; those that decoder layers see; those remembered."""
    encoded: dict[str, np.ndarray] = {}
    memory = []
    for name, encoder, reads in _encoders(network.encoder, seq_len):
        steps = np.arange(seq_len - reads, seq_len)
        for i, distil in enumerate([nn.Identity(), *encoder.distils]):
            if isinstance(distil, Distil):
                steps = steps[::2]
            encoded[f"{name}.layers.{i}.attention"] = steps
        memory.append(steps)
    decoded = np.arange(seq_len - network.label_len, seq_len + network.pred_len)
    return encoded, decoded, np.concatenate(memory)


def _of_patches(
    network: ResidualInformer, seq_len: int
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """The same where a position is a patch: it is centred on its middle step, the horizon's last on one within it.

    Joint tokens: the past of all variables; of those forecast, first the ends of the past and then the horizons.
    """
    middle = network.patch_len // 2
    past = seq_len - network.patch_len * np.arange(network.past_tokens, 0, -1) + middle
    future = seq_len + network.patch_len * np.arange(network.future_tokens) + middle
    future = np.minimum(future, seq_len + network.pred_len - 1)
    read, asked = (
        (len(network.variables.names), len(network.targets))
        if network.variables.names is not None
        else (1, 1)
    )
    labels = past[len(past) - network.label_tokens :]
    decoded = np.concatenate([np.tile(labels, asked), np.tile(future, asked)])
    past = np.tile(past, read)
    return {f"encoder.layers.{i}.attention": past for i in range(len(network.encoder.layers))}, decoded, past


def _encoders(encoder: nn.Module, seq_len: int) -> list[tuple[str, Encoder, int]]:
    """Every encoder's name and the steps it reads."""
    if isinstance(encoder, EncoderStack):
        return [
            (f"encoder.encoders.{i}", one, seq_len // 2**i)  # type: ignore[misc]
            for i, one in enumerate(encoder.encoders)
        ]
    assert isinstance(encoder, Encoder)
    return [("encoder", encoder, seq_len)]
