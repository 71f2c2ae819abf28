"""Where the positions of every attention layer lie in time.

The encoder's first layer has one position a step of the past (a stack's encoders: of its last half, quarter …). A
distilling block keeps every second position: position j is the maximum over positions 2j − 1 … 2j + 1 before it, each
mixed with its two neighbours, so that it is centred on 2j and stands for two of them. The decoder's positions are the
last label_len steps of the past and the horizon. Cross-attention reads the encoders' outputs, one after the other.
"""

from dataclasses import dataclass
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
    stretch for each encoder.
    """

    steps: Int[np.ndarray, " length"]
    dates: pd.DatetimeIndex
    seq_len: int

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def when(self) -> pd.DatetimeIndex:
        return self.dates[self.steps]

    @property
    def stretches(self) -> list[range]:
        """The positions of each stretch of increasing steps."""
        starts = [0, *(np.flatnonzero(np.diff(self.steps) < 0) + 1).tolist(), len(self)]
        return [range(first, stop) for first, stop in pairwise(starts)]

    @property
    def widths(self) -> list[int]:
        """Steps that a position stands for, of each stretch."""
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
    network: Informer | ResidualInformer, dates: pd.DatetimeIndex, query_lens: dict[str, int]
) -> dict[str, tuple[Timeline, Timeline]]:
    """The positions that ask and the positions that are read, of every attention layer by its name.

    `query_lens` holds each layer's number of queries: the last cross-attention may answer the horizon alone.
    """
    label_len, pred_len = network.label_len, network.pred_len
    seq_len = len(dates) - pred_len
    if isinstance(network, ResidualInformer):
        return _of_patches(network, dates, query_lens)

    def timeline(steps: np.ndarray) -> Timeline:
        return Timeline(steps, dates, seq_len)

    found: dict[str, tuple[Timeline, Timeline]] = {}
    memory = []
    for name, encoder, reads in _encoders(network.encoder, seq_len):
        steps = np.arange(seq_len - reads, seq_len)
        for i, distil in enumerate([nn.Identity(), *encoder.distils]):
            if isinstance(distil, Distil):
                steps = steps[::2]
            found[f"{name}.layers.{i}.attention"] = timeline(steps), timeline(steps)
        memory.append(steps)
    decoded = np.arange(seq_len - label_len, seq_len + pred_len)
    for i in range(len(network.decoder)):
        found[f"decoder.{i}.attention"] = timeline(decoded), timeline(decoded)
        asking = decoded[len(decoded) - query_lens[f"decoder.{i}.cross"] :]
        found[f"decoder.{i}.cross"] = timeline(asking), timeline(np.concatenate(memory))
    return found


def _of_patches(
    network: ResidualInformer, dates: pd.DatetimeIndex, query_lens: dict[str, int]
) -> dict[str, tuple[Timeline, Timeline]]:
    """The same where a position is a patch: it is centred on its middle step, the horizon's last on one within it."""
    seq_len, patch_len = len(dates) - network.pred_len, network.patch_len
    middle = patch_len // 2
    past = seq_len - patch_len * np.arange(network.past_tokens, 0, -1) + middle
    future = seq_len + patch_len * np.arange(network.future_tokens) + middle
    future = np.minimum(future, len(dates) - 1)
    decoded = np.concatenate([past[len(past) - network.label_tokens :], future])

    def timeline(steps: np.ndarray) -> Timeline:
        return Timeline(steps, dates, seq_len)

    found: dict[str, tuple[Timeline, Timeline]] = {}
    for i in range(len(network.encoder.layers)):
        found[f"encoder.layers.{i}.attention"] = timeline(past), timeline(past)
    for i in range(len(network.decoder)):
        found[f"decoder.{i}.attention"] = timeline(decoded), timeline(decoded)
        asking = decoded[len(decoded) - query_lens[f"decoder.{i}.cross"] :]
        found[f"decoder.{i}.cross"] = timeline(asking), timeline(past)
    return found


def _encoders(encoder: nn.Module, seq_len: int) -> list[tuple[str, Encoder, int]]:
    """Every encoder's name and the steps it reads."""
    if isinstance(encoder, EncoderStack):
        return [
            (f"encoder.encoders.{i}", one, seq_len // 2**i)  # type: ignore[misc]
            for i, one in enumerate(encoder.encoders)
        ]
    assert isinstance(encoder, Encoder)
    return [("encoder", encoder, seq_len)]
