import pytest
import torch

from forecast.attention.prefix_sums import running_mean, running_softmax_pool
from tests.support.attention_types import HEAD_DIM, HEADS, heads


@pytest.mark.parametrize(("length", "scale"), [(1, 1.0), (63, 1.0), (64, 1e3), (65, 1.0), (331, 1e3)])
def test_running_means(length, scale):
    x = heads(length)[0]
    logit = scale * torch.randn(HEADS, HEAD_DIM, dtype=torch.float64)
    logits = torch.einsum("bhie,he->bhi", x, logit) * HEAD_DIM**-0.5
    rows = [
        torch.einsum("bhj,bhje->bhe", logits[..., : i + 1].softmax(-1), x[:, :, : i + 1])
        for i in range(length)
    ]
    torch.testing.assert_close(running_softmax_pool(x, logit), torch.stack(rows, 2))
    torch.testing.assert_close(running_mean(x), x.cumsum(2) / torch.arange(1, length + 1)[:, None])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sums_in_float32(dtype):
    x = torch.ones(1, 1, 5000, 3, dtype=dtype)
    x[:, :, 2500:] = 3
    with torch.autocast("cpu", dtype=dtype):
        assert running_mean(x)[0, 0, -1].tolist() == [2, 2, 2]
        assert running_softmax_pool(x, torch.zeros(1, 3))[0, 0, -1].tolist() == [2, 2, 2]
