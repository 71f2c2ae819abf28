"""Where an attention type says that it equals softmax, its output is that of full attention with the same weights."""

import pytest
import torch

from forecast.attention import (
    Attention,
    FullAttention,
    LinearAttention,
    NystromAttention,
    ProbSparseAttention,
    SlidingWindowAttention,
)


@pytest.mark.parametrize("length", [4, 11, 12, 40])
@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (ProbSparseAttention, {"factor": 2}),
        (NystromAttention, {"num_landmarks": 11, "conv_kernel": None}),
        (SlidingWindowAttention, {"attention_window": 10}),
    ],
)
def test_a_type_that_says_so_equals_full_attention(length: int, cls: type[Attention], options: dict) -> None:
    torch.manual_seed(0)
    attention = cls(8, 2, role="self", **options).eval()
    full = FullAttention(8, 2, role="self").eval()
    full.load_state_dict(attention.state_dict())
    x = torch.randn(3, length, 8)
    is_equal = torch.allclose(attention(x, x), full(x, x), atol=1e-5)
    assert (attention.why_equal_to_softmax(length, length) is not None) == is_equal


def test_a_convolution_is_said() -> None:
    reason = NystromAttention(8, 2, role="self").why_equal_to_softmax(14, 14)
    assert reason is not None
    assert reason.endswith("its convolution is added")
    assert LinearAttention(8, 2, role="self").why_equal_to_softmax(4, 4) is None
