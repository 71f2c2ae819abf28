"""Watch a network forecast one window: what went into the mixing of every attention layer, and what came out."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecast.attention import Attention


@dataclass(frozen=True)
class Call:
    """One use of one attention layer. `name` is its place in the network, such as encoder.layers.0.attention."""

    name: str
    attention: Attention
    q: Float[Tensor, "batch heads query_len head_dim"]
    k: Float[Tensor, "batch heads memory_len head_dim"]
    v: Float[Tensor, "batch heads memory_len head_dim"]
    mixed: Float[Tensor, "batch heads query_len head_dim"]

    def of(self, sequence: int) -> "Call":
        """What it did to one of its sequences."""
        one = slice(sequence, sequence + 1)
        return Call(self.name, self.attention, self.q[one], self.k[one], self.v[one], self.mixed[one])

    @property
    def causal(self) -> bool:
        return self.attention.role == "causal"


@torch.no_grad()
def record(
    network: nn.Module,
    past: Float[Tensor, "batch seq_len n_features"],
    past_time: Float[Tensor, "batch seq_len n_time_features"],
    future_time: Float[Tensor, "batch pred_len n_time_features"],
) -> tuple[Float[Tensor, "batch pred_len outputs"], list[Call]]:
    """The network's own forecast and every attention call behind it, in the order in which they happened."""
    calls: list[Call] = []
    with _watching(network, calls.append):
        forecast = network(past, past_time, future_time)
    return forecast, calls


@contextmanager
def _watching(network: nn.Module, report: Callable[[Call], None]) -> Iterator[None]:
    # A layer that several places share is called at them in turn, first place first.
    places: dict[Attention, list[str]] = defaultdict(list)
    for name, module in network.named_modules(remove_duplicate=False):
        if isinstance(module, Attention):
            places[module].append(name)

    def watch(attention: Attention, names: Iterator[str]) -> None:
        mix = attention.mix

        def watched(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            mixed = mix(q, k, v)
            report(Call(next(names), attention, q, k, v, mixed))
            return mixed

        attention.mix = watched

    try:
        for attention, names in places.items():
            watch(attention, iter(names))
        yield
    finally:
        for attention in places:
            vars(attention).pop("mix", None)  # the class's own again
