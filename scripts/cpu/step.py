"""Time of a training step by operator, and time of loading windows."""

import resource
import statistics
import time
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from forecast.cli.compose import compose_config
from forecast.data import WindowLoader, Windows
from forecast.data.rows import TensorRows
from forecast.data.step_features import StepFeatures
from forecast.tools.benchmark.measurement import Case, Work, make_work, time_in_turn

GROUPS = {
    "matrix products": ("mm", "addmm", "bmm", "baddbmm", "addbmm", "linear"),
    "fused attention": ("_scaled_dot_product",),
    "random numbers": ("bernoulli_", "geometric_", "random_", "randperm", "rand"),
    "copies and casts": ("copy_", "cat", "clone", "index", "index_select", "gather", "scatter", "fill_", "zero_"),
    "activations and norms": ("gelu", "elu", "native_layer_norm", "native_batch_norm", "_softmax", "max_pool2d"),
    "optimizer": ("_fused_adam_", "Optimizer"),
}  # fmt: skip


def training_step(
    length: str, precision: str, attention: str = "probsparse", width: int = 512, *more: str
) -> Work:
    """Create a training step (forward, backward, Adam) with 8 heads and d_ff = 4 · d_model."""
    config = compose_config(
        "benchmark=model", f"model.d_model={width}", "model.n_heads=8", f"model.d_ff={4 * width}",
        f"precision={precision}", *more, config_name="benchmark",
    )  # fmt: skip
    return make_work(config, Case(attention, length, backward=True), "cpu")


def bfloat16_by_width(length: str, widths: list[int], repeats: int) -> list[dict[str, Any]]:
    """Measure the seconds of a step in float32 and in bfloat16."""
    rows = []
    for width in widths:
        works = [training_step(length, precision, width=width) for precision in ("float32", "bfloat16")]
        single, half = time_in_turn(works, repeats)
        rows.append({"d_model": width, "float32": single.median, "bfloat16": half.median})
    return rows


def compiled_step(length: str, precision: str, width: int, repeats: int) -> dict[str, Any]:
    """Measure the seconds of a step, eager and with torch.compile."""
    works = [
        training_step(length, precision, "probsparse", width, f"benchmark.compile={compiled}")
        for compiled in ("false", "true")
    ]
    eager, fast = time_in_turn(works, repeats)
    return {"length": length, "precision": precision, "eager": eager.median, "compiled": fast.median}


def profiled_step(
    length: str, precision: str, attention: str = "probsparse", rounds: int = 5
) -> dict[str, Any]:
    """Measure milliseconds by group of operators, and page faults, of a step at the size of the paper.

    An operator is counted without the operators that it calls.
    """
    work = training_step(length, precision, attention)
    seconds, faults = timed(work, rounds)
    with profile(activities=[ProfilerActivity.CPU]):  # the profiler allocates its own memory here
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
        "attention": attention,
        "ms": 1000 * seconds,
        "faults": faults,
        "groups": groups,
    }


def timed(work: Work, rounds: int) -> tuple[float, float]:
    """Return the median seconds and the page faults of a step, after three warm-up steps."""
    for _ in range(3):
        work()
    before, times = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times), (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / rounds


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
    """Time one epoch of the loader without a model, on a table like ETTh1: 7 columns, 4 calendar features."""
    zero = torch.zeros(1, dtype=torch.int64)
    time_features = StepFeatures(TensorRows(torch.rand(rows, 4)), zero, None, torch.zeros(1, 0))
    windows = Windows(
        TensorRows(torch.randn(rows, 7)), time_features, starts=[range(rows - seq_len - pred_len + 1)],
        first_rows=zero, seq_len=seq_len, pred_len=pred_len, target_index=list(range(7)),
    )  # fmt: skip
    loader = WindowLoader(windows, batch_size, shuffle=True)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        batches = sum(1 for _ in loader)
        times.append(time.perf_counter() - start)
    return {"windows": len(windows), "batches": batches, "seconds": statistics.median(times)}
