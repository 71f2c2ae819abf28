"""The benchmarks of layers and steps, and the published ProbSparse that they time ours beside."""

from pathlib import Path

import torch

from experiments.benchmarks import GPU_TESTS, run_benchmark
from experiments.cells import Cell
from experiments.compared import published_probsparse
from experiments.page import make_gpu_page
from experiments.run import Context
from experiments.store import Store
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


def test_a_layer_is_timed_and_shown(tmp_path: Path) -> None:
    overrides = (
        "benchmark.part=mixing", "benchmark.lengths=[32,64]", "benchmark.tokens=64", "repeats=1", "memory=false",
        "attention_types=[full,linear]",
    )  # fmt: skip
    cell = Cell("gpu-none", "layers, self", overrides)
    context = Context(tmp_path, 1, tmp_path)
    store = Store(tmp_path / "gpu-none.json", [cell])
    machine = {"device": "none", "system": "Linux", "versions": {"torch": "2"}, "cuda": None}
    store.add(cell, run_benchmark(cell, context), machine)
    (row,) = store.rows()
    assert {(each["attention"], each["length"]) for each in row["result"]} == {
        (kind, length) for kind in ("full", "linear") for length in ("32", "64")
    }
    shown = make_gpu_page(store)
    assert "| attention | 32 | 64 |" in shown
    assert "(1.0×)" in shown
