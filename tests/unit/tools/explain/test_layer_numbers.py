"""Numbers of attention layers against their definitions in NumPy."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.attention import (
    Attention,
    FastformerAttention,
    FullAttention,
    LinearAttention,
    NoneAttention,
    NystromAttention,
    UniformAttention,
)
from forecast.models.attention_layers import AttentionLayer
from forecast.tools.explain.implied_map import implied_map
from forecast.tools.explain.layer import Layer
from forecast.tools.explain.layer_numbers import measure_layer
from forecast.tools.explain.record_calls import Call
from forecast.tools.explain.timeline import Timeline

LENGTH, RECENT = 8, 3


def make_layer(attention: Attention, scale: float = 1.0) -> Layer:
    torch.manual_seed(0)
    q, k, v = (scale * torch.randn(1, 2, LENGTH, 4) for _ in range(3))
    steps, dates = np.arange(LENGTH), pd.date_range("2024-01-01", periods=LENGTH, freq="h")
    call = Call("encoder.layers.0.attention", attention.eval(), q, k, v, v)
    positions = Timeline(steps, dates, seq_len=LENGTH)
    place = AttentionLayer(call.name, "encoder", 0, steps, steps)
    return Layer(call, place, positions, positions, [0, 1], recent=RECENT)


def measured(layer: Layer) -> dict[tuple[str, str], tuple[float, float]]:
    return {(number.map, number.name): (number.value, number.uniform) for number in measure_layer(layer)}


@torch.no_grad()
@pytest.mark.parametrize("role", ["self", "causal"])
@pytest.mark.parametrize("kind", [FullAttention, LinearAttention])
def test_the_numbers_by_hand(kind: type[Attention], role: str) -> None:
    layer = make_layer(kind(8, 2, role=role))  # type: ignore[call-arg]
    found = measured(layer)
    weights = implied_map(layer.call.attention, layer.call.q, layer.call.k)[0].double().numpy()
    softmax = implied_map(FullAttention(8, 2, role=role), layer.call.q, layer.call.k)[0].double().numpy()  # type: ignore[arg-type]
    even = np.tri(LENGTH) if role == "causal" else np.ones((LENGTH, LENGTH))
    even /= even.sum(1, keepdims=True)

    def entropy(rows: np.ndarray) -> float:
        return float(-np.sum(rows * np.log(np.where(rows > 0, rows, 1))) / LENGTH)

    v = layer.call.v[0].double().numpy()
    distances = [
        np.linalg.norm((m - s) @ x) / np.linalg.norm(s @ x)
        for m, s, x in zip(weights, softmax, v, strict=True)
    ]
    late, uniform_late = weights[:, :, -RECENT:].sum((1, 2)) / LENGTH, even[:, -RECENT:].sum() / LENGTH
    expected = {
        "entropy": (np.mean([entropy(one) for one in weights]) / entropy(even), 1.0),
        "from_uniform": (np.abs(weights - even).sum((1, 2)).mean() / LENGTH / 2, 0.0),
        "from_softmax": (np.mean(distances), math.nan),
        "last_season": (late.mean(), uniform_late),
    }
    assert {name for _, name in found} == set(expected)
    for name, values in expected.items():
        assert found["", name] == pytest.approx(values, rel=1e-4, abs=1e-6, nan_ok=True), name


@torch.no_grad()
def test_uniform_attention_is_even() -> None:
    found = measured(make_layer(UniformAttention(8, 2, role="self")))
    assert found["", "entropy"][0] == pytest.approx(1)
    assert found["", "from_uniform"][0] == pytest.approx(0, abs=1e-6)
    assert found["", "last_season"] == pytest.approx((RECENT / LENGTH, RECENT / LENGTH))


@torch.no_grad()
def test_a_map_of_single_keys_is_as_far_from_uniform_as_possible() -> None:
    found = measured(make_layer(NoneAttention(8, 2, role="self")))
    assert found["", "entropy"][0] == pytest.approx(0, abs=1e-6)
    assert found["", "from_uniform"][0] == pytest.approx(1 - 1 / LENGTH)


@torch.no_grad()
def test_a_map_of_zeros_has_no_numbers() -> None:
    assert measure_layer(make_layer(NoneAttention(8, 2, role="cross"))) == []


@torch.no_grad()
@pytest.mark.parametrize("role", ["self", "causal"])
def test_fastformer_has_two_poolings(role: str) -> None:
    found = measured(make_layer(FastformerAttention(8, 2, role=role), scale=3))  # type: ignore[arg-type]
    assert {name for name, _ in found} == {"α", "β"}
    assert ("α", "from_softmax") not in found
    for name in "αβ":
        assert 0 < found[name, "entropy"][0] < 1
        assert 0 < found[name, "from_uniform"][0] < 1


@torch.no_grad()
def test_shares_stay_shares_with_negative_weights() -> None:
    layer = make_layer(NystromAttention(8, 2, role="self", num_landmarks=2), scale=3)
    assert implied_map(layer.call.attention, layer.call.q, layer.call.k).min() < 0
    for (_, name), (value, _) in measured(layer).items():
        assert value >= 0
        assert value <= 1 or name == "from_softmax"
