"""Short softmax attention, formed by hand for training on the CPU, against the fused kernel."""

import pytest
import torch
import torch.nn.functional as F

from forecast.attention.full import full_attention, short_softmax_attention


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


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("length", "dtype", "tolerance"),
    [
        (96, torch.float32, 1e-5),
        (97, torch.float32, 1e-5),
        (256, torch.bfloat16, 0.02),
        (257, torch.bfloat16, 0.02),
    ],
)
def test_full_attention_is_close_on_both_sides_of_its_limits(length, dtype, tolerance, causal):
    torch.manual_seed(0)
    exact = [torch.randn(1, 2, length, 8, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    rounded = [x.detach().to(dtype).requires_grad_() for x in exact]
    gradient = torch.randn(1, 2, length, 8, dtype=torch.float64)
    expected, got = full_attention(*exact, causal=causal), full_attention(*rounded, causal=causal)
    assert got.dtype == dtype
    for mine, reference in zip(
        (got, *torch.autograd.grad(got, rounded, gradient.to(dtype))),
        (expected, *torch.autograd.grad(expected, exact, gradient)),
        strict=True,
    ):
        assert (mine.double() - reference).norm() < tolerance * reference.norm()
