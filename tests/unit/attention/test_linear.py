import math

import pytest
import torch
import torch.nn.functional as F

from forecast.attention.linear import linear_attention, orthogonal_directions
from tests.support.attention_types import HEAD_DIM, MEMORY_LEN, heads
from tests.support.golden_answers import golden_tensors

MAPS = ["elu", "relu", "taylor", "favor"]
LENGTH = 150  # more than two chunks, and no multiple of one


@pytest.mark.parametrize("name", ["linear_self", "linear_cross"])
def test_reference(name):
    data = golden_tensors(name)
    out = linear_attention(data["q"], data["k"], data["v"], eps=data["eps"])
    torch.testing.assert_close(out, data["output"], rtol=0, atol=1e-10)


def test_reference_causal():
    data = golden_tensors("linear_self")
    out = linear_attention(data["q"], data["k"], data["v"], causal=True, eps=data["eps"])
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


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_are_the_closed_forms(causal):
    """∇φ(q_i) = S_i g_i, ∇φ(k_j) = R_j v_j, ∇v_j = R_jᵀ φ(k_j), where S sums φ(k)vᵀ up to
    i and R sums φ(q)gᵀ from j on.

    For the numerator; the weight is the same with v = 1, so that the quotient's gradient g is
    g_out / weight for v and −(g_out·out) / weight for the ones.
    """
    q, k, v = heads(LENGTH, LENGTH)
    x, y, z = (t.clone().requires_grad_() for t in (q, k, v))
    out = linear_attention(x, y, z, causal=causal, feature_map="relu", eps=1e-9)
    upstream = torch.randn_like(out)
    out.backward(upstream)

    fq, fk = q.relu(), k.relu()
    mask = torch.ones(LENGTH, LENGTH, dtype=torch.float64)
    mask = mask.tril() if causal else mask
    weight = torch.einsum("bhie,bhje,ij->bhi", fq, fk, mask)[..., None] + 1e-9
    g = torch.cat([upstream, -(upstream * out.detach()).sum(-1, keepdim=True)], -1) / weight
    values = torch.cat([v, torch.ones_like(v[..., :1])], -1)
    past = torch.einsum("bhje,bhjf,ij->bhief", fk, values, mask)
    future = torch.einsum("bhie,bhif,ij->bhjef", fq, g, mask)
    torch.testing.assert_close(x.grad, torch.einsum("bhief,bhif->bhie", past, g) * (q > 0))
    torch.testing.assert_close(y.grad, torch.einsum("bhjef,bhjf->bhje", future, values) * (k > 0))
    torch.testing.assert_close(z.grad, torch.einsum("bhjef,bhje->bhjf", future, fk)[..., :-1])
