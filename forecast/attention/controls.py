"""Controls without attention: none, whose output is zero, and uniform, whose output is a mean of values.

None: a control whose positions read nothing but themselves.

    out_i = v_i                       (self and causal: the attention map is the identity)
    out_i = 0                         (cross: the attention map is zero)

A layer keeps the projection of the values, the output projection and the dropout of the other attention types, so that
a comparison with it measures the mixing and nothing else. An output of zero in roles self and causal would remove these
projections too. In role cross, queries and memory share no position, so the output is zero before the output
projection. The decoder then receives only the bias of that projection and its own residual.

Queries and keys only choose what is read, so they are not projected. Cost: no time or memory beyond the projections.

Uniform attention: a control in which every position reads the mean of the values.

    out_i = (1/m) Σ_j v_j             (causal: the mean over j <= i)

It is softmax attention whose scores are all equal. A comparison with it measures the benefit of weights that depend on
the content. Queries and keys are not projected, because the output does not depend on them. Cost: n·E time
and memory.
"""

from typing import ClassVar

from torch import Tensor

from forecast.attention.base import Attention, Role, check_causal_lengths
from forecast.attention.prefix_sums import running_mean


class NoneAttention(Attention):
    """The value of each position itself; zero in role cross. See the module for the reasons."""

    roles: ClassVar[frozenset[Role]] = frozenset({"self", "causal", "cross"})
    independent_queries = True
    uses_only_values = True

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.role != "cross":
            return v
        # The sum over no position: zero, and part of the graph, because DDP needs a gradient of every parameter.
        return v[:, :, :0].sum(2, keepdim=True).expand(-1, -1, q.shape[2], -1)


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
