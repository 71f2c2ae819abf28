"""Uniform attention: a control in which every position reads the mean of the values.

    out_i = (1/m) Σ_j v_j             (causal: the mean over j <= i)

It is softmax attention whose scores are all equal. A comparison with it measures the benefit of weights that depend on
the content. Queries and keys are not projected, because the output does not depend on them. Cost: n·E time
and memory.
"""

from typing import ClassVar

from torch import Tensor

from forecast.attention.base import Attention, Role, check_causal_lengths
from forecast.attention.prefix_sums import running_mean


class UniformAttention(Attention):
    """The mean of the values that a position may read."""

    roles: ClassVar[frozenset[Role]] = frozenset({"self", "causal", "cross"})
    independent_queries = True
    uses_only_values = True

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.role == "causal":
            check_causal_lengths(q, k)
            return running_mean(v)
        return v.mean(2, keepdim=True).expand(-1, -1, q.shape[2], -1)
