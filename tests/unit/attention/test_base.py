import pytest
import torch

from forecast.attention import FastformerAttention, FullAttention
from tests.support.attention_types import D_MODEL, build, inputs


@pytest.mark.parametrize("role", ["self", "causal", "cross"])
def test_one_packed_product_equals_separate_ones(role):
    layer = build(FullAttention, role, {}).double()
    query, _ = inputs(role)
    torch.testing.assert_close(layer(query, query), layer(query, query.clone()))


def test_value_can_share_the_projection_of_the_query():
    layer = build(FastformerAttention, "self", {})
    assert layer.in_projection.out_features == 2 * D_MODEL
    assert build(FullAttention, "self", {}).in_projection.out_features == 3 * D_MODEL
