"""The base class of all attention types: roles, projections and heads.

An attention type implements `mix` on `(batch, heads, length, head_dim)`, the layout of
`torch.nn.functional.scaled_dot_product_attention`. It overrides `project_out` if its output needs more than one
product.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from forecast.attention.dropout import check_dropout, dropout

Role = Literal["self", "causal", "cross"]
ROLES: tuple[Role, ...] = get_args(Role)
SLOT_ROLES: dict[str, Role] = {"encoder": "self", "decoder": "causal", "cross": "cross", "variables": "self"}
"""The role of each slot of a model."""

Queries = Float[Tensor, "batch heads query_len head_dim"]
Memory = Float[Tensor, "batch heads memory_len head_dim"]
Tokens = Float[Tensor, "batch heads length head_dim"]
"""Queries; keys or values; queries, keys or values of one sequence."""


def check_choice(what: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise ValueError for a value that is not among the choices."""
    if value not in choices:
        raise ValueError(f"{what} must be one of {', '.join(choices)}, not {value!r}")


def check_sizes(**sizes: int) -> None:
    """Raise ValueError for the first size that is not a whole number of at least 1."""
    for name, size in sizes.items():
        if not isinstance(size, int) or size < 1:
            raise ValueError(f"{name}={size!r} must be a whole number of at least 1")


def check_causal_lengths(q: Tensor, k: Tensor) -> None:
    """Raise ValueError if queries and keys of one sequence, split into heads, have different lengths."""
    if q.shape[2] != k.shape[2]:
        raise ValueError(f"self and causal attention need one length, not {q.shape[2]} queries and {k.shape[2]} keys")


@dataclass(frozen=True)
class Curves:
    """Quantities of an attention type over its positions, which `forecast.explain` draws beside the attention map.

    `fractions`: other numbers of each head, by name.
    """

    name: str  # heading of the picture
    caption: str  # how to read it
    values: Mapping[str, Float[Tensor, "batch heads length"]]  # by name, at most two
    unit: str = ""  # label of the vertical axis; empty: the values are weights, whose sum over the positions is one
    over: Literal["query", "memory"] = "memory"  # the positions: those of the queries or those of the memory
    selected: Bool[Tensor, "batch heads length"] | None = None  # positions to shade
    fractions: Mapping[str, Float[Tensor, "batch heads"]] = field(default_factory=dict)


class Attention(nn.Module, ABC):
    """Mix `memory` into every position of `query`.

    The role is fixed at construction, because causality belongs to the slot of a layer:

    - self: `memory` is `query`; every position reads every other
    - causal: `memory` is `query`; position i reads positions <= i
    - cross: `memory` is another sequence, of any length

    Dropout acts on the channels of the mixed values and not on the attention weights. Efficient attention types never
    form the n×n weights, and dropout of the weights would rule out the fused kernel of softmax attention: on CPU at
    length 2,048, forward and backward take 6.6 times as long, and n² memory. Dropout thus means the same in all types.
    `models.Informer` sets `drop_weights` and `mix_heads`.

    Args:
        d_model, n_heads: width of a position, number of heads that divide it.
        role: self, causal or cross.
        dropout: probability in [0, 1).
        share_query_value: use the projection of Q for V, as Fastformer does (Wu et al. 2021).

    Raises ValueError: the type cannot serve the role, the heads do not divide `d_model`, or dropout is outside [0, 1).
    `forward` raises it for two lengths in a role that mixes one sequence with itself.
    """

    roles: ClassVar[frozenset[Role]]
    independent_queries: ClassVar[bool] = False  # in role cross, no query influences the output of another
    uses_only_values: ClassVar[bool] = False  # queries and keys have no influence and are not projected
    ranks_queries: ClassVar[bool] = False  # some queries are treated exactly, chosen by a ranking
    drop_weights: bool = False  # softmax attention drops weights, and no type drops mixed values
    mix_heads: bool = False  # (heads, query_len, head_dim) of a window are read as (query_len, d_model)

    def __init__(self, d_model: int, n_heads: int, *, role: str, dropout: float = 0.0, share_query_value: bool = False):
        super().__init__()
        self.check_role(role)
        if d_model < 1 or n_heads < 1 or d_model % n_heads:
            raise ValueError(f"d_model {d_model} is not divisible by n_heads {n_heads} into whole heads")
        check_dropout(dropout)
        self.d_model, self.n_heads, self.role, self.dropout = d_model, n_heads, role, dropout
        self.head_dim = d_model // n_heads
        self.share_query_value = share_query_value
        # Rows: query, key, value (no value rows where V shares Q's projection); or value alone.
        projections = 1 if self.uses_only_values else 2 if share_query_value else 3
        self.in_projection = nn.Linear(d_model, projections * d_model)
        self.out_projection = nn.Linear(d_model, d_model)

    @classmethod
    def role_in(cls, slot: str) -> Role:
        """Return the role in a slot of a model: encoder, decoder, cross or variables.

        A type without a causal form mixes the whole input of the decoder. That leaks no target, because the input holds
        only what is known in advance of the horizon.

        Raises ValueError: the type cannot serve the slot.
        """
        role = SLOT_ROLES[slot]
        if role == "causal" and role not in cls.roles:
            role = "self"
        cls.check_role(role)
        return role

    @classmethod
    def check_role(cls, role: str) -> None:
        """Raise ValueError for a role that the type cannot serve."""
        check_choice("attention role", role, ROLES)
        if role not in cls.roles:
            served = ", ".join(known for known in ROLES if known in cls.roles)
            name = cls.type_name().lower()
            raise ValueError(f"{name} attention cannot serve role {role!r}; it serves {served}")

    @classmethod
    def type_name(cls) -> str:
        """The name of the class without `Attention`, such as `ProbSparse`."""
        return cls.__name__.removesuffix("Attention")

    def forward(
        self, query: Float[Tensor, "batch query_len d_model"], memory: Float[Tensor, "batch memory_len d_model"]
    ) -> Float[Tensor, "batch query_len d_model"]:
        if self.role != "cross" and query.shape[1] != memory.shape[1]:
            raise ValueError(
                f"role {self.role!r} mixes one sequence with itself, "
                f"but query has {query.shape[1]} steps and memory {memory.shape[1]}"
            )
        q, k, v = self._project(query, memory)
        mixed = self.mix(q, k, v)  # (batch, heads, query_len, head_dim)
        mixed = (mixed if self.mix_heads else mixed.transpose(1, 2)).reshape(query.shape)
        dropped = 0.0 if self.drop_weights else self.dropout
        return self.project_out(dropout(mixed, dropped, self.training), q)

    @abstractmethod
    def mix(self, q: Queries, k: Memory, v: Memory) -> Queries:
        """Compute one output for each query."""

    def mix_by_content(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Compute the part of `mix` whose weights depend on queries and keys; `forecast.explain` draws its map.

        A type that adds a part with constant weights to its output, such as a convolution, leaves it out here.
        """
        return self.mix(q, k, v)

    def describe(self, q: Queries, k: Memory) -> list[Curves]:
        """Compute quantities of this type that its attention map does not show; none by default."""
        return []

    def why_equal_to_softmax(self, query_len: int, memory_len: int) -> str | None:
        """Explain why an efficient type computes exact softmax attention at these lengths.

        Returns:
            The reason, as a predicate such as `keeps every one of 7 queries`. None: the type does not compute softmax
            attention at these lengths, or it computes it at all lengths.
        """
        return None

    def project_out(
        self, mixed: Float[Tensor, "batch query_len d_model"], query: Queries
    ) -> Float[Tensor, "batch query_len d_model"]:
        """Map the mixed values to the layer's output; `query` is the projected query, split into heads."""
        return self.out_projection(mixed)

    def extra_repr(self) -> str:
        return f"role={self.role}, n_heads={self.n_heads}, dropout={self.dropout}"

    def _project(self, query: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Project to the heads of q, k and v, each a contiguous (batch, heads, length, head_dim).

        With `uses_only_values`, q and k are the unprojected query and memory, of which only the lengths are used.
        """
        if self.uses_only_values:
            q, k = (x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for x in (query, memory))
            return q, k, self._split_heads(self.in_projection(memory))[0]
        if memory is query:  # one packed product
            q, k, *v = self._split_heads(self.in_projection(query))
        else:  # separate rows of the weight for query and memory
            weight, bias, d = self.in_projection.weight, self.in_projection.bias, self.d_model
            (q,) = self._split_heads(F.linear(query, weight[:d], bias[:d]))
            k, *v = self._split_heads(F.linear(memory, weight[d:], bias[d:]))
        return q, k, q if self.share_query_value else v[0]

    def _split_heads(self, x: Tensor) -> tuple[Tensor, ...]:
        """Split (batch, length, parts · d_model) into one (batch, heads, length, head_dim) for each part."""
        parts = x.unflatten(-1, (-1, self.n_heads, self.head_dim))
        return parts.permute(2, 0, 3, 1, 4).contiguous().unbind()
