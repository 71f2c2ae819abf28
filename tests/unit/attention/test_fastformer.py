import math

import pytest
import torch

from forecast.attention import FastformerAttention
from forecast.attention.fastformer import additive_attention
from tests.support.attention_types import HEAD_DIM, HEADS, heads
from tests.support.golden_answers import golden_tensors

LENGTH = 131  # more than two chunks, and no multiple of one


def test_reference():
    data = golden_tensors("fastformer_self")
    n_heads, x = data["n_heads"], data["x"]
    layer = FastformerAttention(x.shape[-1], n_heads, role="self").double()
    with torch.no_grad():
        layer.in_projection.weight.copy_(torch.cat([data["w_query"], data["w_key"]]))
        layer.in_projection.bias.copy_(torch.cat([data["b_query"], data["b_key"]]))
        layer.out_projection.weight.copy_(data["w_transform"])
        layer.out_projection.bias.copy_(data["b_transform"])
        layer.query_logit.copy_(data["query_logit"])
        layer.key_logit.copy_(data["key_logit"])
    torch.testing.assert_close(layer(x, x), data["output"], rtol=0, atol=1e-10)


def pool(x, logit):
    """softmax(w·x_i/√E)-weighted sum over i."""
    weights = (torch.einsum("bhie,he->bhi", x, logit) / math.sqrt(x.shape[-1])).softmax(-1)
    return torch.einsum("bhi,bhie->bhe", weights, x)


def slow_oracle(q, k, v, w_q, w_k, interaction, concat_weight, causal):
    length, rows, pairs = q.shape[2], [], []
    for i in range(length):
        g = pool(q[:, :, : i + 1] if causal else q, w_q)
        if interaction == "product":
            pairs.append(g * k[:, :, i])
        elif interaction == "add":
            pairs.append(g + k[:, :, i])
        else:
            pairs.append(torch.einsum("hef,bhf->bhe", concat_weight, torch.cat([g, k[:, :, i]], -1)))
    p = torch.stack(pairs, 2)
    for i in range(length):
        rows.append(pool(p[:, :, : i + 1] if causal else p, w_k) * v[:, :, i])
    return torch.stack(rows, 2)


@pytest.mark.slow
@pytest.mark.parametrize("interaction", ["product", "add", "concat"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_slow_oracle(interaction, causal, scale):
    q, k, v = heads(LENGTH, LENGTH)
    w_q, w_k = scale * torch.randn(2, HEADS, HEAD_DIM, dtype=torch.float64)
    weight = torch.randn(HEADS, HEAD_DIM, 2 * HEAD_DIM, dtype=torch.float64)
    concat = weight if interaction == "concat" else None
    options = {"causal": causal, "interaction": interaction, "concat_weight": concat}
    out = additive_attention(q, k, v, query_logit=w_q, key_logit=w_k, **options)
    expected = slow_oracle(q, k, v, w_q, w_k, interaction, concat, causal)
    torch.testing.assert_close(out, expected)
