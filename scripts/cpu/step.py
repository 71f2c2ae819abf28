"""Where a training step's time goes, and what serving windows adds to it."""

import resource
import time
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from cpu.layers import configuration
from forecast.data.windows import WindowLoader, Windows
from forecast.timing import Work
from forecast.workloads import Case, make

GROUPS = {
    "matrix products": ("mm", "addmm", "bmm", "baddbmm", "addbmm", "linear"),
    "fused attention": ("_scaled_dot_product",),
    "random numbers": ("bernoulli_", "geometric_", "random_", "randperm", "rand"),
    "copies and casts": ("copy_", "cat", "clone", "index", "index_select", "gather", "scatter", "fill_", "zero_"),
    "activations and norms": ("gelu", "elu", "native_layer_norm", "native_batch_norm", "_softmax", "max_pool2d"),
    "optimizer": ("_fused_adam_", "Optimizer"),
}  # fmt: skip


def profiled_step(length: str, precision: str, kind: str = "probsparse", rounds: int = 5) -> dict[str, Any]:
    """Milliseconds a group of operators, and page faults a step, of the model at the paper's size.

    The operators are those of the profiler, each counted without what it calls; the rest is what it did not name.
    """
    config = configuration(
        "benchmark=model", "model.d_model=512", "model.n_heads=8", "model.d_ff=2048", f"precision={precision}"
    )
    work = make(config, Case(kind, length, backward=True), "cpu")
    seconds, faults = timed(work, rounds)
    with profile(activities=[ProfilerActivity.CPU]):  # the profiler's own memory is taken in here
        work()
    with profile(activities=[ProfilerActivity.CPU]) as found:
        for _ in range(rounds):
            work()
    groups = dict.fromkeys([*GROUPS, "other"], 0.0)
    for event in found.key_averages():
        groups[group_of(event.key)] += event.self_cpu_time_total / 1000 / rounds
    return {
        "length": length,
        "precision": precision,
        "kind": kind,
        "ms": 1000 * seconds,
        "faults": faults,
        "groups": groups,
    }


def timed(work: Work, rounds: int) -> tuple[float, float]:
    """Fastest step in seconds, and page faults a step, after three to warm up."""
    for _ in range(3):
        work()
    before, times = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times), (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / rounds


def group_of(operator: str) -> str:
    name = operator.removeprefix("aten::").split(".")[0].split("#")[0]
    for group, operators in GROUPS.items():
        if any(
            name == known or name.startswith(f"{known}_") or name == f"{known}_backward"
            for known in operators
        ):
            return group
    return "other"


def serving_windows(rows: int, batch_size: int, seq_len: int, pred_len: int) -> dict[str, float]:
    """Seconds of one epoch of the loader alone over a table of ETTh1's shape: 7 columns, 4 calendar features."""
    windows = Windows(
        torch.randn(rows, 7), torch.rand(rows, 4), first_row=0, count=rows - seq_len - pred_len + 1,
        seq_len=seq_len, pred_len=pred_len, target_index=list(range(7)),
    )  # fmt: skip
    loader = WindowLoader(windows, batch_size, shuffle=True)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        batches = sum(1 for _ in loader)
        times.append(time.perf_counter() - start)
    return {"windows": len(windows), "batches": batches, "seconds": min(times)}
