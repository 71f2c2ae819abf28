import math

import pytest
import torch

from forecast.attention.full import full_attention
from tests.support.attention_types import MEMORY_LEN, QUERY_LEN, heads
from tests.support.golden_answers import golden_tensors


@pytest.mark.parametrize("name", ["full_self", "full_cross", "full_causal"])
def test_reference(name):
    data = golden_tensors(name)
    out = full_attention(data["q"], data["k"], data["v"], causal=data["causal"])
    torch.testing.assert_close(out, data["output"], rtol=0, atol=1e-10)


@pytest.mark.parametrize("causal", [False, True])
def test_slow_oracle(causal):
    q, k, v = heads(QUERY_LEN, QUERY_LEN if causal else MEMORY_LEN)
    rows = []
    for i in range(QUERY_LEN):
        seen = i + 1 if causal else MEMORY_LEN
        scores = torch.einsum("bhe,bhje->bhj", q[:, :, i], k[:, :, :seen]) / math.sqrt(q.shape[-1])
        rows.append(torch.einsum("bhj,bhje->bhe", scores.softmax(-1), v[:, :, :seen]))
    torch.testing.assert_close(full_attention(q, k, v, causal=causal), torch.stack(rows, 2))
