"""`torch.compile` and `torch.export` of every attention type and of the whole model; a machine without a compiler."""

import warnings
from pathlib import Path

import jaxtyping
import pytest
import torch

from forecast.attention import ProbSparseAttention
from forecast.training.create_model import compile_where_possible
from tests.support import commands
from tests.support.attention_types import CASES, build, inputs
from tests.support.long_variants import every_nth


def check_compiled(attention_type, role, options, training, backend, monkeypatch):
    """One graph, the same output, and a gradient for every parameter."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # the tracer cannot read its checks
    layer = build(attention_type, role, options).train(training)
    query, memory = inputs(role, torch.float32)
    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    torch.manual_seed(1)
    expected = layer(query, memory)
    torch._dynamo.reset()
    torch.manual_seed(1)
    got = compiled(query, memory)
    if not (training and attention_type is ProbSparseAttention):  # there the compiled sample is another one
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    got.sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())


@pytest.mark.slow
@pytest.mark.parametrize(("attention_type", "role", "options"), every_nth(CASES, 12))
class TestOneGraph:
    def test_compiles_for_training(self, attention_type, role, options, monkeypatch):
        check_compiled(attention_type, role, options, True, "aot_eager", monkeypatch)

    def test_exports_for_evaluation_with_any_batch_size(self, attention_type, role, options):
        layer = build(attention_type, role, options).eval()
        query, memory = inputs(role, torch.float32)
        batch = torch.export.Dim("batch", min=1, max=64)
        exported = torch.export.export(layer, (query, memory), dynamic_shapes=({0: batch}, {0: batch})).module()
        few = (query[:2], memory[:2] if role == "cross" else query[:2])
        torch.testing.assert_close(exported(*few), layer(*few))


@pytest.mark.long
def test_a_compiled_run_reaches_the_scores(tmp_path: Path) -> None:
    whole_batches = "data.batch_size=4"  # of 264, 36 and 76 windows: two graphs, training and evaluation
    ran = commands.train(
        commands.workplace(tmp_path), "compile=true", whole_batches, "trainer.max_epochs=1",
        "model.encoder_layers=1", "attention=linear", "logger=[]",
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "skill" in ran.stdout


def test_without_a_compiler_one_line_and_an_ordinary_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch._inductor.config.cpp, "cxx", (None, "/no/such/compiler"))
    monkeypatch.setattr(torch._inductor.config, "force_disable_caches", True)
    torch._dynamo.reset()
    model = torch.nn.Linear(2, 2)
    with warnings.catch_warnings(record=True, action="always") as caught:
        compile_where_possible(model, torch.device("cpu"))
    (said,) = [str(w.message) for w in caught if "compile=true" in str(w.message)]
    assert "no working compiler here" in said
    assert "\n" not in said
    assert model(torch.ones(1, 2)).shape == (1, 2)
    assert model._compiled_call_impl is None
