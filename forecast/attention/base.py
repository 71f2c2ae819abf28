"""What every attention kind shares: roles, projections, heads.

A kind implements `mix` on `(batch, heads, length, head_dim)`, the layout of
`torch.nn.functional.scaled_dot_product_attention`, and where its output needs more than one product, `project_out`.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, Literal, get_args

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from forecast.attention.dropout import dropout

Role = Literal["self", "causal", "cross"]
ROLES: tuple[Role, ...] = get_args(Role)


def check_choice(what: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{what} must be one of {', '.join(choices)}, not {value!r}")


def check_count(what: str, value: int) -> None:
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"{what} must be a whole number of at least 1, not {value!r}")


class Attention(nn.Module, ABC):
    """Mix `memory` into every position of `query`.

    self: `memory` is `query`, every position sees every other; causal: position i sees positions <= i;
    cross: `memory` is another sequence, of any length. The role is fixed at construction, because causality
    belongs to the slot a layer sits in.

    Dropout acts on the mixed values, channel by channel, and not on the attention weights: the efficient
    kinds never form the n×n weights, and dropping them in softmax attention leaves the fused kernel (measured
    on CPU at length 2,048, forward and backward: 6.6 times slower, and n² memory). So it means the same in
    all kinds.

    Args:
        share_query_value: V is Q's projection, as in Fastformer (Wu et al. 2021); one product less.

    Raises:
        ValueError: for a role that the kind does not serve, heads that do not divide `d_model`, dropout outside
            [0, 1); in `forward`, for two lengths in a role that mixes one sequence with itself.
    """

    roles: ClassVar[frozenset[Role]]
    each_query_alone: ClassVar[bool] = False  # in role cross: unwanted queries may then be left out

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        role: str,
        dropout: float = 0.0,
        share_query_value: bool = False,
    ):
        super().__init__()
        kind = type(self).__name__.removesuffix("Attention").lower()
        check_choice("attention role", role, ROLES)
        if role not in self.roles:
            served = ", ".join(known for known in ROLES if known in self.roles)
            raise ValueError(f"{kind} attention cannot serve role {role!r}; it serves {served}")
        if d_model < 1 or n_heads < 1 or d_model % n_heads:
            raise ValueError(f"d_model {d_model} is not divisible by n_heads {n_heads} into whole heads")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be in [0, 1), not {dropout}")
        self.d_model, self.n_heads, self.role, self.dropout = d_model, n_heads, role, dropout
        self.head_dim = d_model // n_heads
        self.share_query_value = share_query_value
        # Rows: query, key, value (no value rows where V shares Q's projection).
        self.in_projection = nn.Linear(d_model, (2 if share_query_value else 3) * d_model)
        self.out_projection = nn.Linear(d_model, d_model)

    def forward(
        self,
        query: Float[Tensor, "batch query_len d_model"],
        memory: Float[Tensor, "batch memory_len d_model"],
    ) -> Float[Tensor, "batch query_len d_model"]:
        if self.role != "cross" and query.shape[1] != memory.shape[1]:
            raise ValueError(
                f"role {self.role!r} mixes one sequence with itself, "
                f"but query has {query.shape[1]} steps and memory {memory.shape[1]}"
            )
        q, k, v = self._project(query, memory)
        mixed = self.mix(q, k, v).transpose(1, 2).flatten(2)  # (batch, query_len, d_model)
        return self.project_out(dropout(mixed, self.dropout, self.training), q)

    @abstractmethod
    def mix(
        self,
        q: Float[Tensor, "batch heads query_len head_dim"],
        k: Float[Tensor, "batch heads memory_len head_dim"],
        v: Float[Tensor, "batch heads memory_len head_dim"],
    ) -> Float[Tensor, "batch heads query_len head_dim"]:
        """The mechanism itself, one answer for each query."""

    def project_out(
        self,
        mixed: Float[Tensor, "batch query_len d_model"],
        query: Float[Tensor, "batch heads query_len head_dim"],
    ) -> Float[Tensor, "batch query_len d_model"]:
        """From mixed heads to the layer's output; `query` is the projected query, in heads still."""
        return self.out_projection(mixed)

    def extra_repr(self) -> str:
        return f"role={self.role}, n_heads={self.n_heads}, dropout={self.dropout}"

    def _project(self, query: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Heads of q, k and v, (batch, heads, length, head_dim), each one block of memory."""
        if memory is query:  # one product
            q, k, *v = self._split_heads(self.in_projection(query))
        else:  # the query's rows apart from the memory's
            weight, bias, d = self.in_projection.weight, self.in_projection.bias, self.d_model
            (q,) = self._split_heads(F.linear(query, weight[:d], bias[:d]))
            k, *v = self._split_heads(F.linear(memory, weight[d:], bias[d:]))
        return q, k, q if self.share_query_value else v[0]

    def _split_heads(self, x: Tensor) -> tuple[Tensor, ...]:
        """(batch, length, parts · d_model) -> as many (batch, heads, length, head_dim)."""
        parts = x.unflatten(-1, (-1, self.n_heads, self.head_dim))
        return parts.permute(2, 0, 3, 1, 4).contiguous().unbind()
