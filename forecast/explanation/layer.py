"""One attention layer on one window: what it is called, where its positions lie, how to read its pictures."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

from forecast.errors import ConfigError
from forecast.explanation.drawing import block
from forecast.explanation.measures import Number
from forecast.explanation.record import Call
from forecast.explanation.timeline import Timeline

LARGEST = 8192 * 8192
"""Pairs of positions up to which a map is formed; one head's takes 256 MiB then, and a few stand at once."""
PICTURED_HEADS = 8


@dataclass(frozen=True)
class Picture:
    """A figure, the name of its file and how to read it."""

    name: str
    figure: Figure
    caption: str


@dataclass(frozen=True)
class Explanation:
    """What there is to see and to know of one layer."""

    layer: "Layer"
    pictures: list[Picture]
    numbers: list[Number]


@dataclass(frozen=True)
class Layer:
    """One call of an attention layer. `recent`: steps in the last season of the past (a day of hourly rows)."""

    call: Call
    asks: Timeline
    reads: Timeline
    heads: list[int]
    recent: int

    @property
    def kind(self) -> str:
        return type(self.call.attention).__name__.removesuffix("Attention").lower()

    @property
    def slot(self) -> str:
        if self.call.name.startswith("encoder"):
            return "encoder"
        return "cross" if self.call.name.endswith("cross") else "decoder"

    @property
    def number(self) -> int:
        """Which layer of its encoder or decoder it is."""
        return int(self.call.name.split(".")[-2])

    @property
    def encoder(self) -> int | None:
        """Which encoder of a stack it belongs to."""
        parts = self.call.name.split(".")
        return int(parts[2]) if parts[1] == "encoders" else None

    @property
    def title(self) -> str:
        of = "" if self.encoder is None else f" {self.encoder}"
        return f"{self.slot}{of}, layer {self.number}: {self.kind}"

    @property
    def file(self) -> str:
        of = "" if self.encoder is None else f"-{self.encoder}"
        return f"{self.slot}{of}-layer-{self.number}-{self.kind}"

    @property
    def pictured(self) -> list[int]:
        return self.heads[:PICTURED_HEADS]

    def each_head(self) -> Iterator[tuple[int, Tensor, Tensor, Tensor, Tensor]]:
        """The head, and its q, k, v and answer, (1, 1, length, head_dim)."""
        call = self.call
        for head in self.heads:
            q, k, v, mixed = (x[:, head : head + 1] for x in (call.q, call.k, call.v, call.mixed))
            yield head, q, k, v, mixed

    def check_size(self) -> None:
        """Raises ConfigError where the map would be too large to form."""
        if len(self.asks) * len(self.reads) > LARGEST:
            raise ConfigError(
                f"{self.title}: a map of {len(self.asks):,} × {len(self.reads):,} positions is too large to draw "
                f"(up to {LARGEST:,} pairs): choose another slot= or layer="
            )

    @property
    def recent_steps(self) -> str:
        return f"the last {self.recent} steps of history"

    def recent_positions(self) -> np.ndarray | None:
        """Which positions that are read lie in the last season; None where that says nothing."""
        recent = self.reads.within_last(self.recent)
        return recent if 0 < recent.sum() < len(recent) else None

    def where(self, *, a_map: bool = True) -> str:
        """In words: what a position is, what the lines mean, what was averaged for the screen."""
        notes = [self._positions()]
        if self.call.causal and a_map:
            notes.append("Grey: later steps, which a causal layer does not read.")
        if self.reads.origin is not None:
            enters = "zeros" if self.reads.patch_len is None else "the linear map's forecast and the calendar"
            notes.append(
                f"The dashed line is the forecast's origin: behind it lies the horizon, which enters as {enters}."
            )
        if len(self.reads.stretches) > 1 and a_map:
            parts = "the outputs of the stack's encoders" if self.reads.patch_len is None else "the variables"
            notes.append(f"The solid lines part {parts}, one after the other.")
        sizes = (block(len(self.asks)), block(len(self.reads)))
        if max(sizes) > 1 and a_map:
            notes.append(f"A pixel is the mean over {sizes[0]} × {sizes[1]} positions.")
        if len(self.heads) > len(self.pictured):
            notes.append(
                f"Pictured are {len(self.pictured)} of {len(self.heads)} heads; head=N shows any other."
            )
        return " ".join(notes)

    def _positions(self) -> str:
        if self.reads.patch_len is not None:
            return self._patches(self.reads.patch_len)
        wide = sorted(set(self.reads.widths))
        if self.slot == "encoder":
            if wide == [1]:
                return "A position is one step of the past."
            return (
                f"Distilling left every {_ordinal(wide[0])} position: each stands for about {wide[0]} steps, dated at "
                "their middle."
            )
        if self.slot == "decoder":
            return "A position is one step: first the history that the decoder sees again, then the horizon."
        widths = " and ".join(str(w) for w in wide)
        steps = "step" if wide == [1] else "steps"
        return f"Steps of the decoder read the encoder's output, whose positions stand for {widths} {steps} each."

    def _patches(self, steps: int) -> str:
        if self.slot == "cross":
            return f"Patches of the horizon read the encoder's output, a patch of {steps} steps at each position."
        patch = f"A position is a patch of {steps} steps, dated at its middle"
        if self.slot == "encoder":
            return f"{patch}."
        return f"{patch}: first the history that the decoder sees again, then the horizon."


def _ordinal(number: int) -> str:
    return {2: "second", 4: "fourth", 8: "eighth"}.get(number, f"{number}th")
