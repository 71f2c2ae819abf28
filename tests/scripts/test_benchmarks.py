"""The published ProbSparse that benchmarks time ours beside, and the tests that need a GPU."""

from pathlib import Path

import torch

from experiments.benchmarks import GPU_TESTS
from experiments.compared import published_probsparse
from forecast.attention.full import full_attention

ROOT = Path(__file__).parents[2]


def test_with_every_query_on_top_the_published_form_is_softmax() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, n, 4, dtype=torch.float64) for n in (11, 13, 13))
    torch.testing.assert_close(published_probsparse(q, k, v, factor=50), full_attention(q, k, v))


def test_every_file_with_tests_of_a_device_is_run() -> None:
    marked = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if "pytest.mark.gpu" in path.read_text()
    } - {str(Path(__file__).relative_to(ROOT))}
    assert marked == set(GPU_TESTS)
