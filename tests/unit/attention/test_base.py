import pytest
import torch
from torch import nn

from forecast.attention import (
    Attention,
    FullAttention,
)
from tests.support.attention_types import (
    BATCH,
    D_MODEL,
    HEAD_DIM,
    HEADS,
    build,
    inputs,
)


@pytest.mark.parametrize("role", ["self", "causal", "cross"])
def test_one_packed_product_equals_separate_ones(role):
    layer = build(FullAttention, role, {}).double()
    query, _ = inputs(role)
    torch.testing.assert_close(layer(query, query), layer(query, query.clone()))


def test_heads_are_slices_of_the_projection():
    """Head h of step t is channels h·E..(h+1)·E of step t's projection, and goes back there."""

    class Recording(Attention):
        roles = frozenset({"cross"})

        def mix(self, q, k, v):
            self.seen = q, k, v
            return q

    torch.manual_seed(0)
    layer = Recording(D_MODEL, HEADS, role="cross")
    layer.out_projection = nn.Identity()  # pyright: ignore[reportAttributeAccessIssue]
    query, memory = inputs("cross", torch.float32)
    out = layer(query, memory)
    weight, bias = layer.in_projection.weight.split(D_MODEL), layer.in_projection.bias.split(D_MODEL)
    for got, x, w, b in zip(layer.seen, (query, memory, memory), weight, bias, strict=True):
        expected = (x @ w.T + b).reshape(BATCH, x.shape[1], HEADS, HEAD_DIM)
        for head in range(HEADS):
            torch.testing.assert_close(got[:, head], expected[:, :, head])
    torch.testing.assert_close(out, query @ weight[0].T + bias[0])
