"""Record the inputs and outputs of every attention layer while a network forecasts one window."""

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
