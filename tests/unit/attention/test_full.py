import pytest
import torch

from forecast.attention.full import full_attention
from tests.support.golden_answers import golden_tensors


@pytest.mark.parametrize("name", ["full_self", "full_cross", "full_causal"])
def test_reference(name):
    data = golden_tensors(name)
    out = full_attention(data["q"], data["k"], data["v"], causal=data["causal"])
    torch.testing.assert_close(out, data["output"], rtol=0, atol=1e-10)
