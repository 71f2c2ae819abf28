"""The maps against what the layers return: map · v is the mixing, of every attention type and role."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from forecast.attention import Attention, FastformerAttention, GatedDeltaAttention, NystromAttention
from forecast.attention.depthwise_convolution import depthwise_convolution
from forecast.attention.nystrom import segment_means
from forecast.attention.probsparse import sparsity_measure
from forecast.tools.explain import maps
from forecast.tools.explain.implied_map import (
    NoMapError,
    fastformer_poolings,
    head_map,
    implied_map,
    measure_map,
)
from forecast.tools.explain.measures import negative_part
from tests.support.attention_reference import fastformer_answer
from tests.support.attention_types import CASES, HEADS, MEMORY_LEN, QUERY_LEN, build, heads

SHORT = 7
"""Below the landmarks and the kept rows of the options: Nyström and ProbSparse are then exact."""


class Own(Attention):
    """A type without a function for its map: each head repeats its values, stronger the higher its number."""

    roles = frozenset({"self"})

    def mix(self, q, k, v):
        return v.flip(2) * torch.arange(1.0, self.n_heads + 1, dtype=v.dtype)[:, None, None] + v.mean(
            2, keepdim=True
        )


class Squares(Own):
    """A type that is not linear in the values."""

    def mix(self, q, k, v):
        return v.square()


def has_map(attention_type: Any) -> bool:
    return implied_map.dispatch(attention_type) is not implied_map.dispatch(Attention)


def mixed_by(attention: Attention, role: str, length: int = QUERY_LEN):
    q, k, v = heads(length, MEMORY_LEN if role == "cross" else length)
    attention = attention.double().eval()
    if attention.share_query_value:
        v = q
    with torch.no_grad():
        return q, k, v, attention.mix(q, k, v)


@pytest.mark.parametrize("length", [QUERY_LEN, SHORT])
@pytest.mark.parametrize(
    ("attention_type", "role", "options"), [case for case in CASES if case.values[0] is FastformerAttention]
)
def test_the_poolings_give_the_layers_answer(attention_type, role, options, length: int) -> None:
    attention = build(attention_type, role, options)
    assert isinstance(attention, FastformerAttention)
    q, k, v, mixed = mixed_by(attention, role, length)
    for head in range(HEADS):
        one = slice(head, head + 1)
        alpha, beta = fastformer_poolings(attention, head, q[:, one], k[:, one])
        found = fastformer_answer(attention, head, q[:, one], k[:, one], v[:, one], alpha, beta)
        torch.testing.assert_close(found, mixed[:, one], rtol=0, atol=1e-9)
        torch.testing.assert_close(beta.sum(-1), torch.ones_like(beta.sum(-1)))


@pytest.mark.parametrize("length", [QUERY_LEN, SHORT])
@pytest.mark.parametrize(
    ("attention_type", "role", "options"), [case for case in CASES if has_map(case.values[0])]
)
def test_the_implied_map_gives_the_layers_answer(attention_type, role, options, length: int) -> None:
    attention = build(attention_type, role, options)
    q, k, v, mixed = mixed_by(attention, role, length)
    found = implied_map(attention, q, k)
    for head in range(HEADS):
        one = slice(head, head + 1)
        torch.testing.assert_close(head_map(attention, head, q[:, one], k[:, one]), found[:, one])
    answer = found @ v
    if isinstance(attention, NystromAttention) and attention.conv_weight is not None:
        answer = answer + depthwise_convolution(v, attention.conv_weight.detach())
    torch.testing.assert_close(answer, mixed, rtol=0, atol=1e-9)
    if not isinstance(attention, NystromAttention | GatedDeltaAttention):
        assert found.min() >= 0
    if role == "causal":
        assert found.triu(1).abs().max() == 0


@pytest.mark.parametrize("length", [QUERY_LEN, SHORT])
@pytest.mark.parametrize(
    ("attention_type", "role", "options"), [case for case in CASES if has_map(case.values[0])]
)
def test_the_measured_map_is_the_implied_map(attention_type, role, options, length: int) -> None:
    """A type of the user's own has no function, so its map is measured."""
    attention = build(attention_type, role, options)
    q, k, _, _ = mixed_by(attention, role, length)
    expected = implied_map(attention, q, k)
    if isinstance(attention, NystromAttention) and attention.conv_weight is not None:
        units = torch.eye(k.shape[2], dtype=k.dtype)[None, None].expand(*k.shape[:2], -1, -1)
        expected = expected + depthwise_convolution(units, attention.conv_weight.detach())
    torch.testing.assert_close(measure_map(attention, q, k), expected, rtol=0, atol=1e-9)


def test_each_head_of_a_type_of_the_users_own_has_its_map() -> None:
    q, k, v = heads(QUERY_LEN, QUERY_LEN)
    attention = Own(HEADS * q.shape[-1], HEADS, role="self")
    mixed = attention.mix(q, k, v)
    for head in range(HEADS):
        one = slice(head, head + 1)
        found = head_map(attention, head, q[:, one], k[:, one])
        torch.testing.assert_close(found @ v[:, one], mixed[:, one], rtol=0, atol=1e-9)


@pytest.mark.parametrize("attention_type", [FastformerAttention, Squares])
def test_a_type_that_mixes_without_weights_has_no_map(attention_type: type[Attention]) -> None:
    q, k, _ = heads(QUERY_LEN, QUERY_LEN)
    with pytest.raises(NoMapError):
        measure_map(attention_type(HEADS * q.shape[-1], HEADS, role="self").double(), q, k)


def test_the_convolution_looks_where_the_picture_says() -> None:
    """Tap j of the kernel multiplies the value j − half positions after the one that asks."""
    v = torch.randn(1, 1, 40, 3, dtype=torch.float64)
    weight = torch.zeros(1, 1, 5, 1, dtype=torch.float64)
    weight[0, 0, 4] = 1  # two positions after
    moved = depthwise_convolution(v, weight)
    torch.testing.assert_close(moved[:, :, :-2], v[:, :, 2:])


def test_the_landmarks_segments() -> None:
    for length, segments in ((79, 9), (12, 4), (13, 13)):
        starts = maps.segment_starts(length, segments).tolist()
        x = torch.arange(length, dtype=torch.float64)[None, None, :, None]
        means = [x[0, 0, a:b].mean() for a, b in zip(starts, [*starts[1:], length], strict=True)]
        torch.testing.assert_close(torch.stack(means), segment_means(x, segments)[0, 0, :, 0])


def test_the_negative_part() -> None:
    assert negative_part(torch.tensor([[0.5, -0.1], [0.3, 0.1]])) == pytest.approx(0.1)
    assert negative_part(torch.rand(3, 4)) == 0


@pytest.mark.parametrize("causal", [False, True])
def test_the_measure_is_the_papers(causal: bool) -> None:
    """Query by query, and equal to the sampled one where the sample is every key."""
    q, k, _ = heads(19, 19)
    exact = maps.exact_measure(q, k, causal=causal)
    for i in range(19):
        scores = (q[:, :, i, None] * k[:, :, : i + 1 if causal else None]).sum(-1) / q.shape[-1] ** 0.5
        torch.testing.assert_close(exact[:, :, i], scores.amax(-1) - scores.mean(-1))
    every = sparsity_measure(q, k, causal=causal, sample_index=torch.arange(19)) * q.shape[-1] ** -0.5
    torch.testing.assert_close(exact, every)


def test_softmax_is_pytorchs() -> None:
    q, k, v = heads()
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(maps.softmax_map(q, k, causal=True) @ v, expected)
