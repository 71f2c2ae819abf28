"""Attention layers on one window: their recorded inputs and outputs, and the time of their positions."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from forecast.attention import Attention
from forecast.models import ForecastModel
from forecast.models.base import AttentionLayer

MAX_HEADS = 8
"""Largest number of heads of a picture."""


@dataclass(frozen=True)
class Call:
    """One call of an attention layer. `name` is its place in the network, such as encoder.layers.0.attention."""

    name: str
    attention: Attention
    q: Float[Tensor, "batch heads query_len head_dim"]
    k: Float[Tensor, "batch heads memory_len head_dim"]
    v: Float[Tensor, "batch heads memory_len head_dim"]
    mixed: Float[Tensor, "batch heads query_len head_dim"]

    def select_sequence(self, number: int) -> "Call":
        """The call for one sequence of the batch."""
        one = slice(number, number + 1)
        return Call(self.name, self.attention, self.q[one], self.k[one], self.v[one], self.mixed[one])

    @property
    def causal(self) -> bool:
        return self.attention.role == "causal"


@torch.no_grad()
def record_calls(
    network: nn.Module,
    past: Float[Tensor, "batch seq_len n_features"],
    past_time: Float[Tensor, "batch seq_len n_time_features"],
    future_time: Float[Tensor, "batch pred_len n_time_features"],
) -> tuple[Float[Tensor, "batch pred_len outputs"], list[Call]]:
    """The output of the network, and the attention calls in the order in which they happened."""
    calls: list[Call] = []
    with _recording(network, calls.append):
        output = network(past, past_time, future_time)
    return output, calls


@contextmanager
def _recording(network: nn.Module, report: Callable[[Call], None]) -> Iterator[None]:
    # A layer that is used at several places is called at them in turn.
    places: dict[Attention, list[str]] = defaultdict(list)
    for name, module in network.named_modules(remove_duplicate=False):
        if isinstance(module, Attention):
            places[module].append(name)

    def replace_mix(attention: Attention, names: Iterator[str]) -> None:
        mix = attention.mix

        def recorded_mix(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            mixed = mix(q, k, v)
            report(Call(next(names), attention, q, k, v, mixed))
            return mixed

        attention.mix = recorded_mix

    try:
        for attention, names in places.items():
            replace_mix(attention, iter(names))
        yield
    finally:
        for attention in places:
            vars(attention).pop("mix", None)  # the method of the class again


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
        if len(set(self.variables)) < 2:
            return []
        return [self.variables[stretch.start] for stretch in self.stretches]

    @property
    def widths(self) -> list[int]:
        """Of each stretch, the steps that a position represents; for positions that are not patches."""
        gaps = np.diff(self.steps)
        return [int(gaps[s.start]) if len(s) > 1 else 1 for s in self.stretches]

    @property
    def in_horizon(self) -> Bool[np.ndarray, " length"]:
        """Whether each position lies in the horizon."""
        return self.steps >= self.seq_len

    @property
    def origin(self) -> float | None:
        """The position of the border between past and horizon; None if all positions are on one side."""
        first = int(self.in_horizon.argmax())
        return first - 0.5 if first > 0 else None

    def within_last(self, steps: int) -> Bool[np.ndarray, " length"]:
        """Whether each position lies in the last `steps` of the past."""
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


@dataclass(frozen=True)
class Layer:
    """One call of an attention layer, of one sequence.

    Attributes:
        call: the recorded queries, keys, values and outputs.
        place: what the model says about the layer.
        queries, keys: where their positions lie in time.
        heads: numbers of the heads to explain.
        recent: number of steps in a season, such as 24 for hourly data.
        series: id of the series; empty if the data have no ids.
        horizon_input: what the decoder reads in place of the horizon, in words.
    """

    call: Call
    place: AttentionLayer
    queries: Timeline
    keys: Timeline
    heads: list[int]
    recent: int
    series: str = ""
    horizon_input: str = "zeros"

    @property
    def attention_type(self) -> str:
        return self.call.attention.type_name().lower()

    @property
    def title(self) -> str:
        encoder = "" if self.place.encoder is None else f" {self.place.encoder}"
        return f"{self.place.slot}{encoder}, layer {self.place.number}: {self.attention_type}"

    @property
    def figure_title(self) -> str:
        return f"{self.title}, series {self.series}" if self.series else self.title

    @property
    def file(self) -> str:
        encoder = "" if self.place.encoder is None else f"-{self.place.encoder}"
        return f"{self.place.slot}{encoder}-layer-{self.place.number}-{self.attention_type}"

    @property
    def pictured(self) -> list[int]:
        return self.heads[:MAX_HEADS]

    def recent_positions(self) -> Bool[np.ndarray, " memory_len"] | None:
        """Which keys lie in the last season of the past; None if all or none of them do."""
        recent = self.keys.within_last(self.recent)
        return recent if 0 < recent.sum() < len(recent) else None

    def notes(self, *, is_map: bool = True) -> str:
        """Notes for a caption: what a position is, what the lines mean, what was left out."""
        notes = [self._describe_positions()]
        if self.call.causal and is_map:
            notes.append("Grey: later steps, which a causal layer does not read.")
        if self.keys.origin is not None:
            notes.append(
                "The dashed line is the origin of the forecast; the horizon after it enters as "
                f"{self.horizon_input}."
            )
        if len(self.keys.stretches) > 1 and is_map:
            parts = "the outputs of the encoders" if self.keys.patch_len is None else "the variables"
            notes.append(f"Solid lines separate {parts}.")
        if len(self.heads) > len(self.pictured):
            notes.append(
                f"The picture shows {len(self.pictured)} of {len(self.heads)} heads; head=N shows another one."
            )
        return " ".join(notes)

    def _describe_positions(self) -> str:
        slot, patch_len = self.place.slot, self.keys.patch_len
        if patch_len is not None:
            if slot == "cross":
                return (
                    "Patches of the horizon attend to the encoder's output, which has patches of "
                    f"{patch_len} steps."
                )
            if slot == "variables":
                return f"A position is the last patch, of {patch_len} steps, of one variable."
            patch = f"A position is a patch of {patch_len} steps; its date is that of their middle."
            decoder = " The history that the decoder reads comes first, then the horizon."
            return patch if slot == "encoder" else patch + decoder
        widths = sorted(set(self.keys.widths))
        if slot == "encoder":
            if widths == [1]:
                return "A position is one step of the past."
            return f"After distilling, a position represents about {widths[0]} steps, dated at their middle."
        if slot == "decoder":
            return "A position is one step: first the history that the decoder reads, then the horizon."
        steps = "one step" if widths == [1] else f"{' and '.join(map(str, widths))} steps"
        return f"Steps of the decoder attend to the encoder's output, whose positions represent {steps} each."
