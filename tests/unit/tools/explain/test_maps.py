"""Measured attention maps against what the layers return, and the numbers of maps against their definitions."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import entropy as entropy_of

from forecast.attention import (
    Attention,
    FastformerAttention,
    FullAttention,
    GatedDeltaAttention,
    LinearAttention,
    NoneAttention,
    NystromAttention,
    ProbSparseAttention,
    UniformAttention,
)
from forecast.attention.nystrom import depthwise_convolution
from forecast.models.base import AttentionLayer, Positions
from forecast.tools.explain.explanation import draw_layer
from forecast.tools.explain.maps import Call, Layer, Timeline, measure_influence, measure_layer, measure_weights
from tests.support.attention_types import CASES, HEADS, MEMORY_LEN, QUERY_LEN, build, heads

SHORT = 7  # below the landmarks and the kept rows of the options: Nyström and ProbSparse are then exact
LENGTH = 8


class Own(Attention):
    """A type of the user's own: each head repeats its values, stronger the higher its number."""

    roles = frozenset({"self"})

    def mix(self, q, k, v):
        strength = torch.arange(1.0, self.n_heads + 1, dtype=v.dtype)[:, None, None]
        return v.flip(2) * strength + v.mean(2, keepdim=True)


class SquaresBefore(Own):
    """A type that is not linear in the values: output i is the square of the value before."""

    def mix(self, q, k, v):
        return v.roll(1, 2).square()


@torch.no_grad()
def call_of(attention: Attention, length: int = QUERY_LEN) -> Call:
    q, k, v = (x[:1] for x in heads(length, MEMORY_LEN if attention.role == "cross" else length))
    attention = attention.double().eval()
    v = q if attention.share_query_value else v
    return Call("encoder.layers.0.attention", attention, q, k, v, attention.mix(q, k, v))


def is_measured(length: int, attention_type: Any, role: Any, options: Any) -> bool:
    """Cross-attention and single options of the gated delta rule take long, and walk no other branch of the map."""
    if attention_type is GatedDeltaAttention and (role == "cross" or len(options) == 1):
        return False
    is_exact_if_short = attention_type in (NystromAttention, ProbSparseAttention)
    return attention_type is not FastformerAttention and (length == QUERY_LEN or is_exact_if_short)


MAPS = [
    pytest.param(*case.values, length, id=f"{case.id}-{length}")
    for case in CASES
    for length in (QUERY_LEN, SHORT)
    if is_measured(length, *case.values)
]


@pytest.mark.parametrize(("attention_type", "role", "options", "length"), [*MAPS, (Own, "self", {}, QUERY_LEN)])
@torch.no_grad()
def test_the_map_times_the_values_is_the_output(attention_type, role, options, length: int) -> None:
    call = call_of(build(attention_type, role, options), length)
    weights = measure_weights(call)
    assert weights is not None
    answer = weights[None] @ call.v
    if isinstance(call.attention, GatedDeltaAttention):
        answer = call.attention.normalise(weights[None] @ call.attention.convolve("v", call.v))
    if isinstance(call.attention, NystromAttention) and call.attention.conv_weight is not None:
        answer = answer + depthwise_convolution(call.v, call.attention.conv_weight)
    torch.testing.assert_close(answer, call.mixed, rtol=0, atol=1e-9)
    if role == "causal":
        assert weights.triu(1).abs().max() == 0
    sums = weights.sum(-1)
    if not isinstance(call.attention, GatedDeltaAttention | Own | NystromAttention):
        assert weights.min() >= 0
        is_zero = (attention_type, role) == (NoneAttention, "cross")
        expected = torch.zeros_like(sums) if is_zero else torch.ones_like(sums)
        if options.get("lazy") == "sum":  # position i gets i + 1 values of the weight 1, or a mean
            sums = sums.where(sums < 1.5, sums / torch.arange(1, length + 1))
        if options.get("feature_map") != "relu":  # whose features may all be zero
            # linear attention adds eps to the sum
            torch.testing.assert_close(sums, expected, rtol=0, atol=1e-4)
    if isinstance(call.attention, FullAttention):
        torch.testing.assert_close(weights, softmax_by_hand(call)[0])


def softmax_by_hand(call: Call) -> torch.Tensor:
    scores = call.q @ call.k.mT / math.sqrt(call.q.shape[-1])
    if call.causal:
        scores += torch.full_like(scores, -math.inf).triu(1)
    return scores.softmax(-1)


@pytest.mark.parametrize("attention_type", [FastformerAttention, SquaresBefore])
def test_a_layer_without_weights_has_influences(attention_type: type[Attention]) -> None:
    call = call_of(build(attention_type, "self", {}))
    assert measure_weights(call) is None
    influence = measure_influence(call, batch=10)
    torch.testing.assert_close(influence.sum(-1), torch.ones(HEADS, QUERY_LEN, dtype=torch.float64))
    if attention_type is SquaresBefore:
        before = torch.eye(QUERY_LEN, dtype=torch.float64).roll(1, 0)  # row i reads position i - 1
        torch.testing.assert_close(influence, before.expand(HEADS, -1, -1))


@pytest.mark.parametrize(
    ("attention_type", "role", "options"), [case for case in CASES if case.values[0] is FastformerAttention]
)
@torch.no_grad()
def test_the_poolings_give_the_output_of_fastformer(attention_type, role, options) -> None:
    """(Σ_j β_j · p_j) ∘ v with p_j = (Σ_i α_i q_i) ∘ k_j, their sum or W [· ; ·]; at the last position if causal."""
    attention = build(attention_type, role, options)
    assert isinstance(attention, FastformerAttention)
    call = call_of(attention)
    (curves,) = attention.describe(call.q, call.k)
    alpha, beta = (weights[:, :, None] for weights in curves.values.values())
    query = (alpha @ call.q).expand_as(call.k)
    if role == "causal":  # p_j has the global query of the prefix of j
        logits = (call.q * attention.query_logit[:, None]).sum(-1) / math.sqrt(call.q.shape[-1])
        prefixes = [logits[..., :j].softmax(-1)[..., None, :] @ call.q[:, :, :j] for j in range(1, QUERY_LEN + 1)]
        query = torch.cat(prefixes, 2)
    if attention.concat_weight is not None:
        pairs = torch.cat([query, call.k], dim=-1) @ attention.concat_weight[0].T
    else:
        pairs = query * call.k if attention.interaction == "product" else query + call.k
    answered = slice(-1, None) if role == "causal" else slice(None)
    answer = ((beta @ pairs) * call.v)[:, :, answered]
    torch.testing.assert_close(answer, call.mixed[:, :, answered], rtol=0, atol=1e-9)
    torch.testing.assert_close((alpha @ call.q), query[:, :, -1:])


@pytest.mark.parametrize("role", ["self", "causal"])
@pytest.mark.parametrize("options", [{}, {"sampling": "per_query"}, {"ranking": "norm"}])
@torch.no_grad()
def test_probsparse_describes_its_selection(role: str, options: dict[str, str]) -> None:
    """The exact measure is the paper's, and the rows of the other queries are uniform."""
    call = call_of(build(ProbSparseAttention, role, {"factor": 2, **options}))  # type: ignore[arg-type]
    (curves,) = call.attention.describe(call.q, call.k)
    exact = curves.values["on all keys (exact)"]
    for i in range(QUERY_LEN):
        keys = call.k[:, :, : i + 1 if call.causal else None]
        scores = (call.q[:, :, i, None] * keys).sum(-1) / call.q.shape[-1] ** 0.5
        torch.testing.assert_close(exact[:, :, i], scores.amax(-1) - scores.mean(-1))
    weights, selected = measure_weights(call), curves.selected
    assert weights is not None
    assert selected is not None
    uniform = torch.ones(QUERY_LEN, QUERY_LEN, dtype=torch.float64)
    uniform = uniform.tril() if call.causal else uniform
    uniform /= uniform.sum(-1, keepdim=True)
    expected = torch.where(selected[0, ..., None], softmax_by_hand(call)[0], uniform)
    torch.testing.assert_close(weights, expected)
    (found,) = curves.fractions.values()
    assert ((found > 0) & (found <= 1)).all()


def layer_of(attention: Attention, scale: float = 1.0) -> Layer:
    torch.manual_seed(0)
    q, k, v = (scale * torch.randn(1, 2, LENGTH, 4) for _ in range(3))
    steps, dates = np.arange(LENGTH), pd.date_range("2024-01-01", periods=LENGTH, freq="h")
    with torch.no_grad():
        call = Call("encoder.layers.0.attention", attention.eval(), q, k, v, attention.mix(q, k, v))
    positions = Timeline(steps, dates, seq_len=LENGTH)
    tokens = Positions(steps)
    place = AttentionLayer(call.name, "encoder", 0, tokens, tokens)
    return Layer(call, place, positions, positions)


def numbers_of(layer: Layer) -> tuple[float, float, float, float]:
    """The entropies of the map and of uniform attention, the part of the map that differs from it, and its rank."""
    entropy, uniform, differs, rank = measure_layer(layer).numbers.values()
    return entropy, uniform, differs, rank


@pytest.mark.parametrize("role", ["self", "causal"])
@pytest.mark.parametrize("kind", [FullAttention, LinearAttention])
def test_the_numbers_by_hand(kind: type[Attention], role: str) -> None:
    layer = layer_of(kind(8, 2, role=role))
    measured = measure_weights(layer.call)
    assert measured is not None
    weights = measured.numpy()
    even = np.tri(LENGTH) if role == "causal" else np.ones((LENGTH, LENGTH))
    even /= even.sum(1, keepdims=True)
    entropy = -np.sum(weights * np.log2(np.where(weights > 0, weights, 1))) / LENGTH / 2
    differs = np.abs(weights - even).sum((1, 2)).mean() / LENGTH / 2
    uniform = np.log2(even.shape[0] if role == "self" else np.arange(1, LENGTH + 1)).mean()
    rank = np.mean([math.exp(entropy_of(np.linalg.svd(one, compute_uv=False))) for one in weights])
    assert numbers_of(layer) == pytest.approx((entropy, uniform, differs, rank), rel=1e-4)


def test_the_numbers_of_the_controls() -> None:
    bits = math.log2(LENGTH)
    even = numbers_of(layer_of(UniformAttention(8, 2, role="self")))
    single = numbers_of(layer_of(NoneAttention(8, 2, role="self")))
    assert even == pytest.approx((bits, bits, 0, 1), abs=1e-6)
    assert single == pytest.approx((0, bits, 1 - 1 / LENGTH, LENGTH), abs=1e-6)
    assert measure_layer(layer_of(NoneAttention(8, 2, role="cross"))).numbers == {}


def test_negative_weights_are_drawn_and_count_as_zero() -> None:
    measured = measure_layer(layer_of(NystromAttention(8, 2, role="self", num_landmarks=2), scale=3))
    assert measured.weights.min() < -0.01
    assert 0 < measured.numbers["attention that differs from uniform"] < 1
    pictures = draw_layer(measured)
    names = ["encoder-layer-0-nystrom", "encoder-layer-0-nystrom-landmarks"]
    assert [picture.name for picture in pictures] == names
    (image,) = pictures[0].figure.axes[1].images
    expected = np.maximum(LENGTH * measured.weights[1].numpy(), image.norm.vmin)  # type: ignore[reportArgumentType, reportCallIssue]
    np.testing.assert_allclose(image.get_array(), expected, rtol=1e-6)  # type: ignore[reportArgumentType, reportCallIssue]
