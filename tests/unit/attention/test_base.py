import pytest
import torch
from torch import nn

from forecast.attention import (
    Attention,
    FastformerAttention,
    FullAttention,
    LinearAttention,
    NystromAttention,
    ProbSparseAttention,
)
from tests.support.attention_types import (
    BATCH,
    D_MODEL,
    HEAD_DIM,
    HEADS,
    MEMORY_LEN,
    QUERY_LEN,
    build,
    inputs,
)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FullAttention(20, 5, role="both"), "role must be one of self, causal, cross, not 'both'"),
        (
            lambda: NystromAttention(20, 5, role="causal"),
            "nystrom attention cannot serve role 'causal'; it serves self, cross",
        ),
        (
            lambda: FastformerAttention(20, 5, role="cross"),
            "fastformer attention cannot serve role 'cross'; it serves self, causal",
        ),
        (lambda: FullAttention(20, 3, role="self"), "d_model 20 is not divisible by n_heads 3"),
        (lambda: FullAttention(20, 0, role="self"), "d_model 20 is not divisible by n_heads 0"),
        (
            lambda: FullAttention(20, 5, role="self", dropout=1.0),
            "dropout=1.0 must be at least 0 and below 1",
        ),
        (
            lambda: ProbSparseAttention(20, 5, role="self", factor=0),
            "factor must be a whole number of at least 1, not 0",
        ),
        (
            lambda: ProbSparseAttention(20, 5, role="self", sampling="some"),
            "sampling must be one of shared, per_query, not 'some'",
        ),
        (
            lambda: LinearAttention(20, 5, role="self", feature_map="exp"),
            "feature_map must be one of elu, relu, taylor, favor, not 'exp'",
        ),
        (
            lambda: LinearAttention(20, 5, role="self", num_features=8),
            "feature_map with num_features must be one of favor, not 'elu'",
        ),
        (lambda: LinearAttention(20, 5, role="self", eps=0.0), "eps must be positive, not 0"),
        (
            lambda: NystromAttention(20, 5, role="self", num_landmarks=0),
            "num_landmarks must be a whole number of at least 1, not 0",
        ),
        (
            lambda: NystromAttention(20, 5, role="self", pinv_iterations=0),
            "pinv_iterations must be a whole number of at least 1, not 0",
        ),
        (
            lambda: NystromAttention(20, 5, role="cross", conv_kernel=33),
            "conv_kernel must be null in role 'cross'",
        ),
        (lambda: NystromAttention(20, 5, role="self", conv_kernel=32), "odd number, not 32"),
        (
            lambda: FastformerAttention(20, 5, role="self", interaction="sum"),
            "interaction must be one of product, add, concat, not 'sum'",
        ),
    ],
)
def test_refusals_are_one_clear_line(make, message):
    with pytest.raises(ValueError, match=message) as refusal:
        make()
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("role", ["self", "causal"])
def test_one_sequence_roles_refuse_two_lengths(role):
    query, memory = inputs("cross", torch.float32)
    with pytest.raises(ValueError, match=f"{QUERY_LEN} steps and memory {MEMORY_LEN}"):
        build(FullAttention, role, {})(query, memory)


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


def test_value_can_share_the_projection_of_the_query():
    layer = build(FastformerAttention, "self", {})
    assert layer.in_projection.out_features == 2 * D_MODEL
    assert build(FullAttention, "self", {}).in_projection.out_features == 3 * D_MODEL
