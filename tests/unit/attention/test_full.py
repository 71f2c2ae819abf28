import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from forecast.attention import (
    Attention,
    FullAttention,
    LinearAttention,
    NoneAttention,
    NystromAttention,
    ProbSparseAttention,
    SlidingWindowAttention,
    UniformAttention,
)
from forecast.attention.fastformer import additive_attention
from forecast.attention.full import full_attention, short_softmax_attention
from forecast.attention.nystrom import nystrom_attention
from forecast.attention.probsparse import probsparse_attention
from forecast.attention.sliding_window import sliding_window_attention
from tests.support.attention_types import D_MODEL, QUERY_LEN, build, heads, inputs
from tests.support.golden_answers import golden_tensors


@pytest.mark.parametrize("name", ["full_self", "full_cross", "full_causal"])
def test_reference(name):
    data = golden_tensors(name)
    out = full_attention(data["q"], data["k"], data["v"], causal=data["causal"])
    torch.testing.assert_close(out, data["output"], rtol=0, atol=1e-10)


# ---- training on the CPU, beside the fused kernel


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("query_len", "memory_len"), [(1, 13), (5, 9), (9, 2), (3, 16), (3, 20)])
def test_output_and_gradients_are_the_fused_kernels(query_len, memory_len, masked):
    torch.manual_seed(0)
    lengths = (query_len, memory_len, memory_len)
    q, k, v = (torch.randn(2, 3, n, 4, dtype=torch.float64, requires_grad=True) for n in lengths)
    seen = None
    if masked:
        seen = torch.rand(2, 3, query_len, memory_len) < 0.5
        seen[..., 0] = True
    ours = short_softmax_attention(q, k, v, seen)
    fused = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
    torch.testing.assert_close(ours, fused)
    gradient = torch.randn_like(fused)
    found, wanted = (torch.autograd.grad(each, (q, k, v), gradient) for each in (ours, fused))
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("length", "dtype", "tolerance"),
    [(96, torch.float32, 1e-5), (97, torch.float32, 1e-5), (256, torch.bfloat16, 0.02), (257, torch.bfloat16, 0.02)],
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


@pytest.mark.parametrize("name", ["full", "causal", "probsparse", "nystrom", "fastformer"])
def test_training_in_bfloat16_is_as_exact_as_the_fused_kernel(name: str) -> None:
    """At large logits, where rounded scores would change the weights; compared with float64 of the same numbers."""
    torch.manual_seed(0)
    q, k, v, logit = (torch.randn(2, 4, length, 32).bfloat16() for length in (128, 128, 128, 1))

    def mix(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if name == "probsparse":
            return probsparse_attention(q, k, v, factor=99)
        if name == "nystrom":
            return nystrom_attention(q, k, v, num_landmarks=32)
        if name == "fastformer":
            pool = 8 * logit[0, :, 0].to(q.dtype)
            return additive_attention(q, k, v, query_logit=pool, key_logit=pool)
        return full_attention(q, k, v, causal=name == "causal")

    inputs = (8 * q, k, v)
    truth = mix(*(x.double() for x in inputs))
    trained = mix(*(x.clone().requires_grad_() for x in inputs))
    with torch.no_grad():
        evaluated = mix(*inputs)
    errors = [((out.double() - truth).norm() / truth.norm()).item() for out in (trained, evaluated)]
    assert errors[0] < 1.3 * errors[1] < 0.02


# ---- types that equal softmax


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


@pytest.mark.parametrize("role", ["self", "causal", "cross"])
def test_uniform_is_softmax_of_equal_scores(role) -> None:
    layer, full = build(UniformAttention, role, {}).double(), build(FullAttention, role, {}).double()
    with torch.no_grad():
        full.in_projection.weight[: 2 * D_MODEL] = 0
        full.in_projection.bias[: 2 * D_MODEL] = 0
        full.in_projection.weight[2 * D_MODEL :] = layer.in_projection.weight
        full.in_projection.bias[2 * D_MODEL :] = layer.in_projection.bias
    full.out_projection.load_state_dict(layer.out_projection.state_dict())
    query, memory = inputs(role)
    torch.testing.assert_close(layer(query, memory), full(query, memory))


@pytest.mark.parametrize("role", ["self", "causal"])
def test_no_position_reads_another_without_mixing(role) -> None:
    layer = build(NoneAttention, role, {}).double()
    query, _ = inputs(role)
    together = layer(query, query)
    for position in (0, 30, QUERY_LEN - 1):
        alone = query[:, position : position + 1]
        torch.testing.assert_close(together[:, position : position + 1], layer(alone, alone))
    expected = F.linear(query, layer.in_projection.weight, layer.in_projection.bias)
    torch.testing.assert_close(together, layer.out_projection(expected))


def test_without_mixing_the_memory_gives_nothing_to_the_query() -> None:
    layer = build(NoneAttention, "cross", {}).double()
    query, memory = (x.requires_grad_() for x in inputs("cross"))
    out = layer(query, memory)
    torch.testing.assert_close(out, layer.out_projection.bias.expand_as(out))
    out.sum().backward()
    assert memory.grad is not None
    assert memory.grad.abs().max() == 0
    assert all(parameter.grad is not None for parameter in layer.parameters())  # what DDP asks for


# ---- a sliding window, beside softmax with the other pairs masked

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
def test_outputs_and_gradients_are_those_of_the_masked_softmax(length: int, window: int, causal: bool) -> None:
    inputs = [x[:1, :2].requires_grad_() for x in heads(length, length)]
    exact = masked_softmax(*inputs, window=window, causal=causal)
    gradient = torch.linspace(-1, 2, exact.numel(), dtype=exact.dtype).view_as(exact)
    wanted = (exact, *torch.autograd.grad(exact, inputs, gradient))
    out = sliding_window_attention(*inputs, attention_window=window, causal=causal)
    found = (out, *torch.autograd.grad(out, inputs, gradient))
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    with torch.no_grad():  # by the fused kernel
        out = sliding_window_attention(*inputs, attention_window=window, causal=causal)
    torch.testing.assert_close(out, exact, rtol=0, atol=1e-12)
