"""The controls `none` and `uniform` against what they stand for: an identity, a mean, equal scores."""

import pytest
import torch
import torch.nn.functional as F

from forecast.attention import FullAttention, NoneAttention, UniformAttention
from tests.support.attention_types import D_MODEL, QUERY_LEN, build, inputs


@pytest.mark.parametrize("role", ["self", "causal", "cross"])
def test_uniform_is_softmax_of_equal_scores(role) -> None:
    layer, full = build(UniformAttention, role, {}).double(), build(FullAttention, role, {}).double()
    with torch.no_grad():
        full.in_projection.weight[: 2 * D_MODEL] = 0
        full.in_projection.bias[: 2 * D_MODEL] = 0
        full.in_projection.weight[2 * D_MODEL :] = layer.in_projection.weight
        full.in_projection.bias[2 * D_MODEL :] = layer.in_projection.bias
    full.out_projection.load_state_dict(layer.out_projection.state_dict())
    query, memory = inputs(role)
    torch.testing.assert_close(layer(query, memory), full(query, memory))


@pytest.mark.parametrize("role", ["self", "causal"])
def test_no_position_reads_another_without_mixing(role) -> None:
    layer = build(NoneAttention, role, {}).double()
    query, _ = inputs(role)
    together = layer(query, query)
    for position in (0, 30, QUERY_LEN - 1):
        alone = query[:, position : position + 1]
        torch.testing.assert_close(together[:, position : position + 1], layer(alone, alone))
    expected = F.linear(query, layer.in_projection.weight, layer.in_projection.bias)
    torch.testing.assert_close(together, layer.out_projection(expected))


def test_without_mixing_the_memory_gives_nothing_to_the_query() -> None:
    layer = build(NoneAttention, "cross", {}).double()
    query, memory = (x.requires_grad_() for x in inputs("cross"))
    out = layer(query, memory)
    torch.testing.assert_close(out, layer.out_projection.bias.expand_as(out))
    out.sum().backward()
    assert memory.grad is not None
    assert memory.grad.abs().max() == 0
    assert all(parameter.grad is not None for parameter in layer.parameters())  # what DDP asks for
