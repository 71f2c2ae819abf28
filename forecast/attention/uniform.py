"""Uniform attention: a control in which every position reads the mean of the values.

    out_i = (1/m) Σ_j v_j             (causal: the mean over j <= i)

It is softmax attention whose scores are all equal, so a comparison with it measures what the choice of positions by
their content is worth. Queries and keys are not projected, because the output does not depend on them. Cost: n·E time
and memory.
"""

from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from forecast.attention.base import Attention, Role, check_causal_lengths
from forecast.attention.prefix_sums import running_mean


def uniform_attention(
    q: Float[Tensor, "batch heads query_len head_dim"],
    k: Float[Tensor, "batch heads memory_len head_dim"],
    v: Float[Tensor, "batch heads memory_len head_dim"],
    *,
    causal: bool = False,
) -> Float[Tensor, "batch heads query_len head_dim"]:
    """Compute the mean of the values for each query; causal: the running mean. Only the lengths of q and k count."""
    if causal:
        check_causal_lengths(q, k)
        return running_mean(v)
    return v.mean(2, keepdim=True).expand(-1, -1, q.shape[2], -1)


class UniformAttention(Attention):
    """The mean of the values that a position may read."""

    roles: ClassVar[frozenset[Role]] = frozenset({"self", "causal", "cross"})
    independent_queries = True
    only_values = True

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return uniform_attention(q, k, v, causal=self.role == "causal")
