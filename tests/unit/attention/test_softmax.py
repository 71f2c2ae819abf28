"""Short softmax attention, formed by hand for training on the CPU, against the fused kernel."""

import pytest
import torch
import torch.nn.functional as F

from forecast.attention.full import short_softmax_attention


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("query_len", "memory_len"), [(1, 13), (5, 9), (9, 2), (3, 16), (3, 20)])
def test_output_and_gradients_are_the_fused_kernels(query_len, memory_len, masked):
    torch.manual_seed(0)
    q, k, v = (
        torch.randn(2, 3, n, 4, dtype=torch.float64, requires_grad=True)
        for n in (query_len, memory_len, memory_len)
    )
    seen = None
    if masked:
        seen = torch.rand(2, 3, query_len, memory_len) < 0.5
        seen[..., 0] = True
    ours = short_softmax_attention(q, k, v, seen)
    fused = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
    torch.testing.assert_close(ours, fused)
    gradient = torch.randn_like(fused)
    for mine, reference in zip(
        torch.autograd.grad(ours, (q, k, v), gradient),
        torch.autograd.grad(fused, (q, k, v), gradient),
        strict=True,
    ):
        torch.testing.assert_close(mine, reference)
