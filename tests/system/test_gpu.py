"""Every attention type on a CUDA device: the CPU's numbers, one compiled graph, whole runs."""

import json
import math
import os
import subprocess
import sys

import jaxtyping
import pytest
import torch
from torch import Tensor, nn

from forecast.attention import NoneAttention, Role, SlidingWindowAttention
from tests.support.attention_types import CASES, build, inputs
from tests.support.commands import PLAIN, ROOT, SMALL, only, workplace
from tests.support.models import ATTENTION_TYPES

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

DEVICE = "cuda"
EFFICIENT = [
    (name, role)
    for name, attention_type in ATTENTION_TYPES.items()
    for role in ("self", "causal")
    if name != "full" and role in attention_type.roles
]
# What the compiler sees differs by attention type and causality; full is one operator either way.
COMPILED = [("full", "self"), *EFFICIENT]


def run(layer: nn.Module, query: Tensor, memory: Tensor, *, cross: bool) -> dict[str, Tensor]:
    """The output, and the gradients of all parameters and inputs; those that a control does not read are zero."""
    query = query.detach().requires_grad_()
    memory = memory.detach().requires_grad_() if cross else query
    out = layer(query, memory)
    weights = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view(out.shape).to(out)
    leaves = {"query": query, "memory": memory, **dict(layer.named_parameters())}
    gradients = torch.autograd.grad((out * weights).sum(), list(leaves.values()), materialize_grads=True)
    return {"out": out.detach(), **dict(zip(leaves, gradients, strict=True))}


def largest_error(got: Tensor, exact: Tensor) -> float:
    """Relative to the largest entry; where all are zero, any other number is an infinite error."""
    assert got.isfinite().all()
    exact = exact.double().cpu()
    difference, largest = (got.double().cpu() - exact).abs().max().item(), exact.abs().max().item()
    return difference / largest if largest else math.inf * difference if difference else 0.0


class TestOnTheDevice:
    # In evaluation ProbSparse's sample is fixed; no two queries rank so near that float32 changes their order here.
    @pytest.mark.parametrize(
        ("attention_type", "role", "options", "dtype", "bound"),
        [
            pytest.param(*case.values, dtype, bound, id=f"{case.id}-{dtype}")
            for case in CASES
            for dtype, bound in ((torch.float64, 1e-9), (torch.float32, 1e-3))
            if dtype == torch.float64 or not case.values[2]
        ],
    )
    def test_outputs_and_gradients_are_those_of_the_cpu(self, attention_type, role, options, dtype, bound):
        layer = build(attention_type, role, options).double().eval()
        query, memory = inputs(role)
        exact = run(layer, query, memory, cross=role == "cross")
        there = build(attention_type, role, options).to(DEVICE, dtype).eval()
        there.load_state_dict(layer.state_dict())
        got = run(there, query.to(DEVICE, dtype), memory.to(DEVICE, dtype), cross=role == "cross")
        for name, value in exact.items():
            assert got[name].device.type == DEVICE
            assert largest_error(got[name], value) < bound, name

    @pytest.mark.parametrize(("attention_type", "role", "options"), CASES)
    def test_training_mode_draws_on_the_device(self, attention_type, role, options):
        layer = build(attention_type, role, options, dropout=0.3).to(DEVICE)
        query, memory = (x.to(DEVICE) for x in inputs(role, torch.float32))
        if role != "cross":
            memory = query
        torch.manual_seed(1)
        first = layer(query, memory)
        torch.manual_seed(1)
        torch.testing.assert_close(layer(query, memory), first)
        reads_nothing = attention_type is NoneAttention and role == "cross"
        assert torch.allclose(layer(query, memory), first) == reads_nothing


@pytest.mark.slow
@pytest.mark.parametrize("role", ["self", "causal"])
def test_sliding_windows_in_one_kernel(role: Role) -> None:
    """FlexAttention needs 16 channels of a head or more; the heads of `CASES` have 4."""
    layer = SlidingWindowAttention(64, 2, role=role).eval()
    query = torch.randn(2, 300, 64, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():  # creates a mask that the run below uses in training
        layer.to(DEVICE)(query.to(DEVICE), query.to(DEVICE))
    exact = run(layer.to("cpu"), query, query, cross=False)
    got = run(layer.to(DEVICE), query.to(DEVICE), query.to(DEVICE), cross=False)
    for name, value in exact.items():
        assert largest_error(got[name], value) < 1e-3, name


@pytest.mark.slow
@pytest.mark.parametrize(("attention_type", "role"), COMPILED)
def test_compiles_to_one_graph(attention_type: str, role: Role, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # the tracer cannot read its checks
    layer = build(ATTENTION_TYPES[attention_type], role, {}).to(DEVICE).eval()
    query, _ = inputs(role, torch.float32)
    eager = run(layer, query.to(DEVICE), query.to(DEVICE), cross=False)
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True)
    query = query.to(DEVICE).requires_grad_()
    out = compiled(query, query)
    assert largest_error(out, eager["out"]) < 1e-4
    out.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["16-mixed", "bf16-mixed"])
def test_a_run_from_training_to_report(tmp_path, precision: str):
    given = ("trainer=gpu", f"trainer.precision={precision}", "trainer.max_epochs=2", "logger=[]")
    # not forked from a process that has imported PyTorch, as other tests start runs: CUDA may not survive it
    done = subprocess.run(
        [sys.executable, "-m", "forecast.train", PLAIN, *SMALL, *given],
        cwd=workplace(tmp_path),
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    metrics = json.loads(only(tmp_path, "runs/*/metrics.json").read_text())
    assert metrics["precision"] == precision
    assert 0 < metrics["test"]["mse"] < 10
