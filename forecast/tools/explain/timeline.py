"""The position in time of the tokens of attention layers, for axes and captions.

The model gives the step that each position is centred on (`ForecastModel.attention_layers`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
from jaxtyping import Int

from forecast.models import ForecastModel


@dataclass(frozen=True)
class Timeline:
    """The time of each position of a sequence.

    Steps increase within a stretch. The memory of a stack has one stretch per encoder; a sequence of several variables
    has one stretch per variable, or two in a decoder that reads the history of all of them before their horizons.

    Attributes:
        steps: the step that each position is centred on; 0 is the first of the past, seq_len the first of the horizon.
        dates: of all steps (seq_len + pred_len).
        seq_len: steps of the past.
        patch_len: steps per position if positions are patches, else None.
        variables: the variable of each position, in a sequence of several variables; else empty.
    """

    steps: Int[np.ndarray, " length"]
    dates: pd.DatetimeIndex
    seq_len: int
    patch_len: int | None = None
    variables: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def when(self) -> pd.DatetimeIndex:
        return self.dates[self.steps]

    @property
    def stretches(self) -> list[range]:
        """The positions of each stretch of increasing steps of one variable."""
        begins = np.diff(self.steps) <= 0
        if self.variables:
            begins |= np.array([one != other for one, other in pairwise(self.variables)], dtype=bool)
        starts = [0, *(np.flatnonzero(begins) + 1).tolist(), len(self)]
        return [range(first, stop) for first, stop in pairwise(starts)]

    @property
    def names(self) -> list[str]:
        """The variable of each stretch; empty if the sequence does not hold several variables."""
        return (
            [self.variables[stretch.start] for stretch in self.stretches]
            if len(set(self.variables)) > 1
            else []
        )

    @property
    def widths(self) -> list[int]:
        """Of each stretch, the steps that a position represents; for positions that are not patches."""
        gaps = np.diff(self.steps)
        return [int(gaps[s.start]) if len(s) > 1 else 1 for s in self.stretches]

    @property
    def in_horizon(self) -> np.ndarray:
        """Whether each position lies in the horizon (length)."""
        return self.steps >= self.seq_len

    @property
    def origin(self) -> float | None:
        """The position of the border between past and horizon; None if all positions are on one side."""
        first = int(self.in_horizon.argmax())
        return first - 0.5 if first > 0 else None

    def within_last(self, steps: int) -> np.ndarray:
        """Whether each position lies in the last `steps` of the past (length)."""
        return (self.steps >= self.seq_len - steps) & ~self.in_horizon


def timelines(
    network: ForecastModel,
    dates: pd.DatetimeIndex,
    seq_len: int,
    columns: Sequence[str] = (),
) -> dict[str, tuple[Timeline, Timeline]]:
    """Give the query positions and the memory positions of every attention layer, by the layer's name.

    `dates` are those of the past and the horizon; `columns` are those that the network reads.
    """
    names = (*columns, *network.further_variables)

    def timeline(steps: Int[np.ndarray, " length"], numbers: Int[np.ndarray, " length"] | None) -> Timeline:
        variables = () if numbers is None else tuple(names[number] for number in numbers)
        return Timeline(steps, dates, seq_len, network.patch_len, variables)

    return {
        layer.name: (
            timeline(layer.query_steps, layer.query_variables),
            timeline(layer.memory_steps, layer.memory_variables),
        )
        for layer in network.attention_layers()
    }
