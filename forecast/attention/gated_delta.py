"""Gated delta rule attention: linear cost, and a memory that finds values again by their keys.

    α_i = σ(w_α·k_i + b_α)      what is kept of older tokens (gate)
    β_i = σ(w_β·k_i + b_β)      how much of the value that the key read before is replaced by the new one (delta)

The memory is that of `delta_rule`, with queries and keys of unit length. The paper computes α and β from the input of
the layer; here each head computes them from its own key, which is a projection of that input, before its length is
divided out. The paper also has a short convolution and a normalisation and gate of the output, which are left out.

    gate and delta        Gated DeltaNet                gate alone      decay as in RetNet, dependent on the key
    delta alone           DeltaNet                      neither         linear attention without a normaliser

The order of the keys matters, in role cross too: they should run from the oldest to the newest, so that newer values
replace older ones. Cost: n·E² time and n·E memory.

Source: Yang et al. 2024, "Gated Delta Networks: Improving Mamba2 with Delta Rule", arXiv 2412.06464.
"""

from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from forecast.attention.base import Attention, Curves, Role
from forecast.attention.delta_rule import delta_rule

SLOWEST, FASTEST = 8.0, 4.0
"""b_α of the first and the last head at the start: they keep their memory for about 3,000 and 55 tokens.

Chosen by validation errors on `recall` (3 seeds), where 400 and 8 tokens were worse. Those of RetNet begin at 32
tokens.
"""


class KeyLogit(nn.Module):
    """w·k + b of each head, in float32 or wider."""

    def __init__(self, weight: Float[Tensor, "heads head_dim"], bias: Float[Tensor, " heads"]) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)

    def forward(self, k: Float[Tensor, "batch heads length head_dim"]) -> Float[Tensor, "batch heads length"]:
        dtype = torch.promote_types(k.dtype, torch.float32)
        with torch.autocast(k.device.type, enabled=False):
            weight, bias = self.weight.to(dtype), self.bias.to(dtype)
            return (k.to(dtype) @ weight[..., None]).squeeze(-1) + bias[:, None]


class GatedDeltaAttention(Attention):
    """A memory of fixed size that fades and is corrected, read from both directions in role self.

    Args:
        gate: older tokens fade; otherwise α = 1.
        delta: a value replaces what its key read before; otherwise it is added to it.

    Raises:
        ValueError: see `Attention`.
    """

    roles: ClassVar[frozenset[Role]] = frozenset({"self", "causal", "cross"})
    independent_queries = True

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        role: str,
        dropout: float = 0.0,
        gate: bool = True,
        delta: bool = True,
    ):
        super().__init__(d_model, n_heads, role=role, dropout=dropout)
        size = (n_heads, self.head_dim)
        self.decay = KeyLogit(torch.zeros(size), torch.linspace(SLOWEST, FASTEST, n_heads)) if gate else None
        self.strength = (
            KeyLogit(torch.randn(size) * self.head_dim**-0.5, torch.zeros(n_heads)) if delta else None
        )

    def memory_gates(
        self, k: Float[Tensor, "batch heads length head_dim"]
    ) -> tuple[Tensor | None, Tensor | None]:
        """Compute log α and β of every key (batch, heads, length); None: the gate or the delta rule is switched off."""
        log_decay = None if self.decay is None else F.logsigmoid(self.decay(k))
        return log_decay, None if self.strength is None else torch.sigmoid(self.strength(k))

    def describe(self, q: Tensor, k: Tensor) -> list[Curves]:
        log_decay, strength = self.memory_gates(k)
        gates = {
            "α, kept of older tokens": None if log_decay is None else log_decay.exp(),
            "β, strength of the replacement": strength,
        }
        caption = (
            "The gates of each key. A token with a small α erases the memory of older tokens; one with a large β "
            "replaces the value that a similar key read before."
        )
        values = {name: gate for name, gate in gates.items() if gate is not None}
        return [Curves("gates", caption, values, "gate")] if values else []

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        log_decay, strength = self.memory_gates(k)
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        return delta_rule(q, k, v, log_decay=log_decay, strength=strength, role=self.role)
