"""Sliding-window attention against softmax over all pairs with those outside of the window masked."""

import math

import pytest
import torch

from forecast.attention.full import full_attention
from forecast.attention.sliding_window import sliding_window_attention
from tests.support.attention_types import heads

LENGTH = 101  # no multiple of a block


def masked_softmax(q, k, v, window: int, *, causal: bool) -> torch.Tensor:
    ahead = torch.arange(k.shape[2]) - torch.arange(q.shape[2])[:, None]
    is_seen = (ahead >= -window) & (ahead <= (0 if causal else window))
    scores = (q @ k.mT / math.sqrt(q.shape[3])).masked_fill(~is_seen, -math.inf)
    return scores.softmax(-1) @ v


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("length", "window"), [(1, 1), (2, 7), (48, 1), (48, 60), (LENGTH, 7), (LENGTH, 17), (LENGTH, LENGTH)]
)
def test_outputs_and_gradients_are_those_of_the_masked_softmax(
    length: int, window: int, causal: bool
) -> None:
    inputs = [x[:1, :2].requires_grad_() for x in heads(length, length)]
    exact = masked_softmax(*inputs, window=window, causal=causal)
    gradient = torch.linspace(-1, 2, exact.numel(), dtype=exact.dtype).view_as(exact)
    wanted = (exact, *torch.autograd.grad(exact, inputs, gradient))
    out = sliding_window_attention(*inputs, attention_window=window, causal=causal)
    for found, expected in zip((out, *torch.autograd.grad(out, inputs, gradient)), wanted, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    with torch.no_grad():  # by the fused kernel
        out = sliding_window_attention(*inputs, attention_window=window, causal=causal)
    torch.testing.assert_close(out, exact, rtol=0, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
def test_a_window_over_all_tokens_is_full_attention(causal: bool) -> None:
    inputs = heads(LENGTH, LENGTH)
    out = sliding_window_attention(*inputs, attention_window=LENGTH - 1, causal=causal)
    torch.testing.assert_close(out, full_attention(*inputs, causal=causal), rtol=0, atol=0)
