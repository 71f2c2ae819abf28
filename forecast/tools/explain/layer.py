"""One attention layer on one window: its name, the positions it attends to, and how to read its pictures."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

from forecast.models.attention_layers import AttentionLayer
from forecast.system.errors import ConfigError
from forecast.tools.explain.downsampling import block_size
from forecast.tools.explain.measures import Number
from forecast.tools.explain.record_calls import Call
from forecast.tools.explain.timeline import Timeline

MAX_PAIRS = 8192 * 8192
"""Largest number of query-key pairs of a map. The map of one head then takes 256 MiB; a few exist at a time."""
MAX_HEADS = 8


@dataclass(frozen=True)
class Picture:
    """A figure, the name of its file and its caption."""

    name: str
    figure: Figure
    caption: str


@dataclass(frozen=True)
class Explanation:
    """The pictures and numbers of one layer."""

    layer: "Layer"
    pictures: list[Picture]
    numbers: list[Number]


@dataclass(frozen=True)
class Layer:
    """One call of an attention layer.

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
    def slot(self) -> str:
        return self.place.slot

    @property
    def number(self) -> int:
        """The number of the layer within its encoder or decoder."""
        return self.place.number

    @property
    def encoder(self) -> int | None:
        """The number of the encoder within a stack; None without a stack."""
        return self.place.encoder

    @property
    def place_name(self) -> str:
        encoder = "" if self.encoder is None else f" {self.encoder}"
        return f"{self.slot}{encoder}, layer {self.number}"

    @property
    def title(self) -> str:
        return f"{self.place_name}: {self.attention_type}"

    @property
    def figure_title(self) -> str:
        return f"{self.title}, series {self.series}" if self.series else self.title

    @property
    def file(self) -> str:
        encoder = "" if self.encoder is None else f"-{self.encoder}"
        return f"{self.slot}{encoder}-layer-{self.number}-{self.attention_type}"

    @property
    def pictured(self) -> list[int]:
        return self.heads[:MAX_HEADS]

    def each_head(self) -> Iterator[tuple[int, Tensor, Tensor, Tensor, Tensor]]:
        """Each head, with its q, k, v and output (1, 1, length, head_dim)."""
        call = self.call
        for head in self.heads:
            q, k, v, mixed = (x[:, head : head + 1] for x in (call.q, call.k, call.v, call.mixed))
            yield head, q, k, v, mixed

    def check_size(self) -> None:
        """Raise ConfigError if the attention map has more than `MAX_PAIRS` entries."""
        if len(self.queries) * len(self.keys) > MAX_PAIRS:
            raise ConfigError(
                f"{self.title}: a map of {len(self.queries):,} × {len(self.keys):,} positions is too large to draw "
                f"(limit: {MAX_PAIRS:,} pairs): choose another slot= or layer="
            )

    @property
    def recent_steps(self) -> str:
        return f"the last {self.recent} steps of history"

    def recent_positions(self) -> np.ndarray | None:
        """Which keys lie in the last season of the past; None if all or none of them do."""
        recent = self.keys.within_last(self.recent)
        return recent if 0 < recent.sum() < len(recent) else None

    def notes(self, *, is_map: bool = True) -> str:
        """Notes for a caption: what a position is, what the lines mean, what was averaged or left out."""
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
        sizes = (block_size(len(self.queries)), block_size(len(self.keys)))
        if max(sizes) > 1 and is_map:
            notes.append(f"A pixel is the mean over {sizes[0]} × {sizes[1]} positions.")
        if len(self.heads) > len(self.pictured):
            notes.append(
                f"The picture shows {len(self.pictured)} of {len(self.heads)} heads; head=N shows another one."
            )
        return " ".join(notes)

    def _describe_positions(self) -> str:
        if self.keys.patch_len is not None:
            return self._describe_patches(self.keys.patch_len)
        widths = sorted(set(self.keys.widths))
        if self.slot == "encoder":
            if widths == [1]:
                return "A position is one step of the past."
            return f"After distilling, a position represents about {widths[0]} steps, dated at their middle."
        if self.slot == "decoder":
            return "A position is one step: first the history that the decoder reads, then the horizon."
        listed = " and ".join(str(width) for width in widths)
        steps = "one step" if widths == [1] else f"{listed} steps"
        return f"Steps of the decoder attend to the encoder's output, whose positions represent {steps} each."

    def _describe_patches(self, steps: int) -> str:
        if self.slot == "cross":
            return (
                f"Patches of the horizon attend to the encoder's output, which has patches of {steps} steps."
            )
        if self.slot == "variables":
            return f"A position is the last patch, of {steps} steps, of one variable."
        patch = f"A position is a patch of {steps} steps; its date is that of their middle"
        if self.slot == "encoder":
            return f"{patch}."
        return f"{patch}. The history that the decoder reads comes first, then the horizon."
