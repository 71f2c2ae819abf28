"""Controls: no mixing of positions (none), and the mean of the values at every position (uniform).

    none      out_i = v_i              (cross: 0, because queries and memory share no position)
    uniform   out_i = (1/m) Σ_j v_j    (causal: the mean over j <= i), softmax attention whose scores are all equal

Both keep the projection of the values, the output projection and the dropout of the other attention types, so that a
comparison with them measures the mixing, or weights that depend on the content, and nothing else. Queries and keys
are not projected, because the output does not depend on them. Cost: n·E time and memory.
"""

from torch import Tensor

from forecast.attention.base import Attention, check_causal_lengths
from forecast.attention.prefix_sums import running_mean


class NoneAttention(Attention):
    """The value of each position itself; zero in role cross."""

    roles = frozenset({"self", "causal", "cross"})
    independent_queries = True
    uses_only_values = True

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.role != "cross":
            return v
        # The sum over no position: zero, and part of the graph, because DDP needs a gradient of every parameter.
        return v[:, :, :0].sum(2, keepdim=True).expand(-1, -1, q.shape[2], -1)


class UniformAttention(Attention):
    """The mean of the values that a position may read."""

    roles = frozenset({"self", "causal", "cross"})
    independent_queries = True
    uses_only_values = True

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.role == "causal":
            check_causal_lengths(q, k)
            return running_mean(v)
        return v.mean(2, keepdim=True).expand(-1, -1, q.shape[2], -1)
