import math

import pytest
import torch
import torch.nn.functional as F

from forecast.attention import LinearAttention
from forecast.attention.full import full_attention
from forecast.attention.linear import linear_attention, orthogonal_directions
from forecast.attention.prefix_sums import running_mean, running_softmax_pool
from tests.support.attention_types import HEAD_DIM, HEADS, MEMORY_LEN, QUERY_LEN, heads
from tests.support.golden_answers import golden_tensors

MAPS = ["elu", "relu", "taylor", "favor"]
LENGTH = 150  # more than two chunks, and no multiple of one


@pytest.mark.parametrize("name", ["linear_self", "linear_cross"])
def test_reference(name):
    data = golden_tensors(name)
    given = data["q"], data["k"], data["v"]
    torch.testing.assert_close(linear_attention(*given, eps=data["eps"]), data["output"], rtol=0, atol=1e-10)
    if name == "linear_self":
        out = linear_attention(*given, causal=True, eps=data["eps"])
        torch.testing.assert_close(out, data["output_causal"], rtol=0, atol=1e-10)


def directions(feature_map):
    torch.manual_seed(4)
    return orthogonal_directions(7, HEAD_DIM).double() if feature_map == "favor" else None


def kernel(q, k, feature_map, projection):
    """φ(q_i)·φ(k_j) for all pairs, each from its definition."""
    if feature_map == "elu":
        return (F.elu(q) + 1) @ (F.elu(k) + 1).mT
    if feature_map == "relu":
        return q.relu() @ k.relu().mT
    s = q @ k.mT / math.sqrt(HEAD_DIM)
    if feature_map == "taylor":
        return 1 + s + s.square() / 2

    def features(x):
        x = x / HEAD_DIM**0.25
        return torch.exp(x @ projection.T - x.square().sum(-1, keepdim=True) / 2)

    return features(q) @ features(k).mT / len(projection)


@pytest.mark.parametrize("feature_map", MAPS)
@pytest.mark.parametrize("causal", [False, True])
def test_masked_quadratic_form(feature_map, causal):
    q, k, v = heads(LENGTH, LENGTH if causal else MEMORY_LEN)
    projection = directions(feature_map)
    pairs = kernel(q, k, feature_map, projection)
    pairs = pairs.tril() if causal else pairs
    expected = pairs @ v / (pairs.sum(-1, keepdim=True) + 1e-12)
    out = linear_attention(q, k, v, causal=causal, feature_map=feature_map, projection=projection, eps=1e-12)
    torch.testing.assert_close(out, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.slow
def test_favor_tends_to_softmax():
    q, k, v = heads(QUERY_LEN, MEMORY_LEN)
    q, k = q / 2, k / 2
    errors = []
    for features in (64, 4096):
        torch.manual_seed(0)
        projection = orthogonal_directions(features, HEAD_DIM).double()
        for causal in (False, True):
            keys, values = (k[:, :, :QUERY_LEN], v[:, :, :QUERY_LEN]) if causal else (k, v)
            out = linear_attention(q, keys, values, causal=causal, feature_map="favor", projection=projection)
            errors.append((out - full_attention(q, keys, values, causal=causal)).square().mean().sqrt())
    assert errors[2] < errors[0] / 2
    assert errors[3] < errors[1] / 2
    assert errors[2] < 0.03


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("feature_map", ["elu", "taylor", "favor"])
def test_the_weights_of_a_row_sum_to_one(feature_map, causal):
    """Far from the origin too, where favor's exponentials fall below any eps."""
    torch.manual_seed(0)
    q, k = (3 * torch.randn(1, 2, 64, 32) for _ in range(2))
    projection = orthogonal_directions(80, 32) if feature_map == "favor" else None
    given = {"feature_map": feature_map, "projection": projection, "causal": causal}
    out = linear_attention(q, k, torch.ones_like(k), **given)
    torch.testing.assert_close(out, torch.ones_like(out), rtol=1e-4, atol=1e-4)


def test_favor_directions_are_orthogonal_and_kept():
    rows = orthogonal_directions(10, 4).double()
    products = rows[:4] @ rows[:4].T
    torch.testing.assert_close(products, products.diag().diag(), rtol=0, atol=1e-5)
    layer = LinearAttention(20, 5, role="self", feature_map="favor")
    other = LinearAttention(20, 5, role="self", feature_map="favor")
    other.load_state_dict(layer.state_dict())
    x = torch.randn(2, 9, 20)
    torch.testing.assert_close(other(x, x), layer(x, x))
    assert "projection" not in LinearAttention(20, 5, role="self").state_dict()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("causal", [False, True])
def test_sums_accumulate_in_float32(dtype, causal):
    """4,096 equal keys: a bfloat16 sum stands still at 256, a float16 sum at 2,048."""
    x = torch.full((1, 1, 4096, 4), 0.5, dtype=dtype)
    v = torch.ones(1, 1, 4096, 4, dtype=dtype)
    v[:, :, 2048:] = 3
    with torch.autocast("cpu", dtype=dtype):
        out = linear_attention(x, x, v, causal=causal)
    assert out.dtype == dtype
    assert out[0, 0, -1, 0] == 2


@pytest.mark.parametrize(("length", "scale"), [(1, 1.0), (63, 1.0), (64, 1e3), (65, 1.0), (331, 1e3)])
def test_running_means(length, scale):
    x = heads(length)[0]
    logit = scale * torch.randn(HEADS, HEAD_DIM, dtype=torch.float64)
    logits = torch.einsum("bhie,he->bhi", x, logit) * HEAD_DIM**-0.5
    rows = [torch.einsum("bhj,bhje->bhe", logits[..., : i + 1].softmax(-1), x[:, :, : i + 1]) for i in range(length)]
    torch.testing.assert_close(running_softmax_pool(x, logit), torch.stack(rows, 2))
    torch.testing.assert_close(running_mean(x), x.cumsum(2) / torch.arange(1, length + 1)[:, None])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_running_means_in_float32(dtype):
    x = torch.ones(1, 1, 5000, 3, dtype=dtype)
    x[:, :, 2500:] = 3
    with torch.autocast("cpu", dtype=dtype):
        assert running_mean(x)[0, 0, -1].tolist() == [2, 2, 2]
        assert running_softmax_pool(x, torch.zeros(1, 3))[0, 0, -1].tolist() == [2, 2, 2]
