"""Attention layers on one window: their recorded calls, their measured maps, and the numbers of the maps.

A map is measured from the outputs of the layer, in the same way for every attention type. A layer that mixes values
with weights has the map of these weights: row i holds the weights of the values in output i.

    map · v = output of the mixing      (without parts of constant weights, see `Attention.mix_by_content`)

The map of any other layer holds influences: how much output i changes if the token j is replaced by the mean token.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from forecast.attention import Attention, Curves
from forecast.attention.base import Memory, Queries
from forecast.models import ForecastModel
from forecast.models.base import AttentionLayer, Positions
from forecast.models.linear_model import FutureTime, Outputs, Past, PastTime
from forecast.system.errors import ConfigError

MAX_WEIGHTS = 2**27  # of all heads of a map, which then take 512 MiB; a few such tensors exist at a time
TOLERANCE = 1e-3  # relative difference between a map times values and the output of the layer

Map = Float[Tensor, "heads query_len memory_len"]
Mix = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Call:
    name: str  # its place in the network, such as encoder.layers.0.attention
    attention: Attention
    q: Queries
    k: Memory
    v: Memory
    mixed: Queries

    def select_sequence(self, number: int) -> "Call":
        tensors = (each[number : number + 1] for each in (self.q, self.k, self.v, self.mixed))
        return Call(self.name, self.attention, *tensors)

    @property
    def causal(self) -> bool:
        return self.attention.role == "causal"


@torch.no_grad()
def record_calls(
    network: nn.Module, past: Past, past_time: PastTime, future_time: FutureTime
) -> tuple[Outputs, list[Call]]:
    """The output of the network, and the attention calls in the order in which they happened."""
    calls: list[Call] = []
    # a layer that is used at several places is called at them in turn
    places: dict[Attention, list[str]] = defaultdict(list)
    for name, module in network.named_modules(remove_duplicate=False):
        if isinstance(module, Attention):
            places[module].append(name)

    def record(attention: Attention, mix: Mix, names: Iterator[str], q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        calls.append(Call(next(names), attention, q, k, v, mix(q, k, v)))
        return calls[-1].mixed

    try:
        for attention, names in places.items():
            attention.mix = partial(record, attention, attention.mix, iter(names))
        return network(past, past_time, future_time), calls
    finally:
        for attention in places:
            vars(attention).pop("mix", None)  # the method of the class again


@dataclass(frozen=True)
class Timeline:
    """The time of each position of a sequence.

    Steps increase within a stretch. The memory of a stack has one stretch per encoder; a sequence of several variables
    has one stretch per variable, or two in a decoder that reads the history of all of them before their horizons.
    """

    steps: Int[np.ndarray, " length"]  # that each position is centred on; seq_len is the first of the horizon
    dates: pd.DatetimeIndex  # of all steps (seq_len + pred_len)
    seq_len: int  # steps of the past
    patch_len: int | None = None  # steps per position if positions are patches
    variables: tuple[str, ...] = ()  # that of each position, in a sequence of several variables; else empty

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
    def origin(self) -> float | None:
        """The position of the border between past and horizon; None if all positions are on one side."""
        first = int((self.steps >= self.seq_len).argmax())
        return first - 0.5 if first > 0 else None


@dataclass(frozen=True)
class Layer:
    """One call of an attention layer, of one sequence."""

    call: Call
    place: AttentionLayer  # what the model says about the layer
    queries: Timeline
    keys: Timeline
    horizon_input: str = "zeros"  # what the decoder reads in place of the horizon, in words

    @property
    def attention_type(self) -> str:
        return self.call.attention.type_name().lower()

    @property
    def title(self) -> str:
        encoder = "" if self.place.encoder is None else f" {self.place.encoder}"
        return f"{self.place.slot}{encoder}, layer {self.place.number}: {self.attention_type}"

    @property
    def file(self) -> str:
        return self.title.replace(", ", "-").replace(": ", "-").replace(" ", "-")


def list_layers(
    network: ForecastModel, calls: Sequence[Call], dates: pd.DatetimeIndex, seq_len: int, columns: Sequence[str]
) -> list[Layer]:
    """The layers that the model names, with the time of their positions; `columns` are those that it reads."""
    names = (*columns, *network.further_variables)

    def timeline(tokens: Positions) -> Timeline:
        variables = () if tokens.variables is None else tuple(names[number] for number in tokens.variables)
        return Timeline(tokens.steps, dates, seq_len, network.patch_len, variables)

    places = {place.name: place for place in network.attention_layers()}
    return [
        Layer(call, place, timeline(place.queries), timeline(place.memory), network.horizon_input)
        for call in calls
        if (place := places.get(call.name)) is not None
    ]


@dataclass(frozen=True)
class LayerMap:
    """The measured map of a layer, its numbers by name, and the quantities that the attention type adds."""

    layer: Layer
    weights: Map
    is_influence: bool
    numbers: dict[str, float]
    curves: Sequence[Curves]


@torch.no_grad()
def measure_layer(layer: Layer) -> LayerMap:
    """Measure the map of a layer and its numbers, which are means over the heads.

    Raises ConfigError if the map is too large.
    """
    call, heads = layer.call, layer.call.q.shape[1]
    if heads * len(layer.queries) * len(layer.keys) > MAX_WEIGHTS:
        raise ConfigError(
            f"{layer.title}: {heads} maps of {len(layer.queries):,} × {len(layer.keys):,} positions are too "
            f"large to draw (limit: {MAX_WEIGHTS:,} weights): choose another slot="
        )
    exact = measure_weights(call)
    is_influence, weights = exact is None, measure_influence(call) if exact is None else exact
    numbers = {}
    if weights.any():
        uniform = torch.ones(weights.shape[1:])
        uniform = shares(uniform.tril() if call.causal else uniform)
        what = "influence" if is_influence else "attention"
        numbers = {
            "entropy of a row (bits)": row_entropy(weights),
            "entropy of uniform attention (bits)": row_entropy(uniform),
            f"{what} that differs from uniform": float((shares(weights) - uniform).abs().sum(-1).mean()) / 2,
            "effective rank": effective_rank(weights),
        }
    curves = call.attention.describe(call.q, call.k)
    for each in curves:
        numbers |= {name: float(fraction[0].mean()) for name, fraction in each.fractions.items()}
    return LayerMap(layer, weights, is_influence, numbers, curves)


def measure_weights(call: Call) -> Map | None:
    """The weights of the values, from the outputs for values that are one at one position and zero elsewhere.

    Each channel of the values stands for another position, so one call measures `head_dim` columns of the map. Returns
    None if the layer does not mix values with weights: the map times other values is not its output.
    """
    attention, q, k = call.attention, call.q, call.k
    columns = []
    for unit in torch.eye(k.shape[2], dtype=k.dtype, device=k.device).split(k.shape[3], dim=1):
        values = F.pad(unit, (0, k.shape[3] - unit.shape[1])).expand(*k.shape[:2], -1, -1)
        columns.append(attention.mix_by_content(q, k, values.contiguous())[0, :, :, : unit.shape[1]])
    weights = torch.cat(columns, -1)
    values = torch.randn(k.shape, generator=torch.Generator().manual_seed(0)).to(k)
    expected = attention.mix_by_content(q, k, values)[0]
    is_linear = torch.dist(weights @ values[0], expected) <= TOLERANCE * expected.norm()
    return weights if is_linear else None


def measure_influence(call: Call, batch: int = 64) -> Map:
    """The norm of the change of output i if the token j is replaced by the mean token; each row sums to one.

    The token enters as key and value, and as query in a layer of one sequence. `batch` tokens are replaced in one call.
    """
    attention = call.attention
    replaced = (attention.role != "cross", True, True)
    rows = []
    for positions in torch.arange(call.k.shape[2]).split(batch):
        inputs = []
        for x, is_replaced in zip((call.q, call.k, call.v), replaced, strict=True):
            tokens = x.expand(len(positions), -1, -1, -1).clone()  # (positions, heads, length, head_dim)
            if is_replaced:
                tokens[torch.arange(len(positions)), :, positions] = x.mean(2)
            inputs.append(tokens)
        rows.append((attention.mix(*inputs) - call.mixed).norm(dim=-1))
    return shares(torch.cat(rows).permute(1, 2, 0))


def shares(weights: Float[Tensor, "*rows memory_len"]) -> Float[Tensor, "*rows memory_len"]:
    """Divide the positive part of each row by its sum."""
    positive = weights.clamp(min=0)
    return positive / positive.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)


def row_entropy(weights: Float[Tensor, "... rows memory_len"]) -> float:
    """Mean entropy of the rows in bits, of their positive part; uniform attention to n positions has log2(n)."""
    return float(torch.special.entr(shares(weights)).sum(-1).mean()) / math.log(2)


def effective_rank(weights: Float[Tensor, "heads rows memory_len"]) -> float:
    """Mean over the heads of the exponential of the entropy of the singular values (Roy and Vetterli 2007).

    It is 1 if every row is the same, and the number of positions if each position reads another one.
    """
    entropy = torch.special.entr(shares(torch.linalg.svdvals(weights.double()))).sum(-1)
    return float(entropy.exp().mean())
