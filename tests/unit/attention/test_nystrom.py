import pytest
import torch
import torch.nn.functional as F

from forecast.attention.full import full_attention
from forecast.attention.nystrom import depthwise_convolution, iterative_pinv, nystrom_attention, segment_means
from tests.support.attention_types import HEADS, MEMORY_LEN, QUERY_LEN, heads
from tests.support.golden_answers import golden_tensors


@pytest.mark.parametrize("name", ["nystrom_conv", "nystrom_noconv"])
def test_reference(name):
    data = golden_tensors(name)
    out = nystrom_attention(
        data["q"], data["k"], data["v"], num_landmarks=data["num_landmarks"],
        pinv_iterations=data["pinv_iterations"],
        conv_weight=data["conv_weight"] if name == "nystrom_conv" else None,
    )  # fmt: skip
    torch.testing.assert_close(out, data["output"], rtol=0, atol=1e-10)


@pytest.mark.parametrize("landmarks", [QUERY_LEN, MEMORY_LEN])
def test_as_many_landmarks_as_steps_is_full_attention(landmarks):
    q, k, v = heads(QUERY_LEN, MEMORY_LEN)
    torch.testing.assert_close(nystrom_attention(q, k, v, num_landmarks=landmarks), full_attention(q, k, v))
    q, k, v = heads()
    weight = torch.randn(HEADS, 1, 5, 1, dtype=torch.float64)
    expected = full_attention(q, k, v) + depthwise_convolution(v, weight)
    torch.testing.assert_close(nystrom_attention(q, k, v, num_landmarks=landmarks, conv_weight=weight), expected)


@pytest.mark.parametrize(("length", "segments"), [(12, 4), (97, 9), (31, 30), (7, 7)])
def test_segment_means_with_remainders(length, segments):
    x = heads(length)[0]
    expected = torch.stack([part.mean(2) for part in x.tensor_split(segments, dim=2)], dim=2)
    torch.testing.assert_close(segment_means(x, segments), expected)


@pytest.mark.parametrize("kernel", [1, 5, 33])
@pytest.mark.parametrize("length", [1, 20, 64, 65, 150])
def test_convolution(kernel, length):
    v = heads(length)[2].requires_grad_()
    weight = torch.randn(HEADS, 1, kernel, 1, dtype=torch.float64, requires_grad=True)
    out = depthwise_convolution(v, weight)
    expected = F.conv2d(v, weight, padding=(kernel // 2, 0), groups=HEADS)
    torch.testing.assert_close(out, expected)
    upstream = torch.randn_like(out)
    found, wanted = (torch.autograd.grad(each, (v, weight), upstream) for each in (out, expected))
    torch.testing.assert_close(found, wanted)


def test_pinv_runs_in_float32_under_autocast():
    torch.manual_seed(0)
    kernel = torch.randn(2, 3, 16, 16).softmax(-1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inverse = iterative_pinv(kernel, 6)
    torch.testing.assert_close(inverse, iterative_pinv(kernel, 6), rtol=0, atol=0)
