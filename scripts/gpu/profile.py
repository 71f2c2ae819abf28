"""Profile the cases of a benchmark: `python -m gpu.profile FILE OVERRIDES`.

OVERRIDES are those of `forecast.benchmark`. Forward and backward of every case are profiled.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig
from torch.profiler import ProfilerActivity

from forecast.cli.compose import compose_config
from forecast.system.files import write_json
from forecast.tools.benchmark import measurement
from forecast.tools.benchmark.measurement import count_flops, synchronize, time_in_turn

CALLS, SHOWN = 10, 8
PRODUCTS = {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"}


def profiles(overrides: list[str]) -> list[dict[str, Any]]:
    config = compose_config(*overrides, config_name="benchmark")
    return [profile(config, case) for case in measurement.list_cases(config) if case.backward]


def profile(config: DictConfig, case: measurement.Case) -> dict[str, Any]:
    """Return the time and TFLOP of a call, the fraction of it in which the device is busy, and the longest kernels.

    `products_share` and `attention_share` are fractions of the busy time.
    """
    cuda = config.device == "cuda"
    work = measurement.make_work(config, case, config.device)
    (spread,) = time_in_turn([work], CALLS)
    forward = measurement.make_work(config, replace(case, backward=False), config.device)
    tflop = 3 * count_flops(forward, cuda=cuda) / 1e12  # backward has twice the products of forward
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    with torch.profiler.profile(activities=activities) as profiler:
        for _ in range(CALLS):
            work()
        synchronize()
    events = profiler.key_averages()

    def milliseconds(event: Any) -> float:
        """Return the time of an event in one call, on the device and without the events that it called."""
        return (event.self_device_time_total if cuda else event.self_cpu_time_total) / 1000 / CALLS

    def share(time: float) -> float:
        """Return the fraction of the busy time, which is 0 for a control that mixes nothing."""
        return time / busy if busy else 0.0

    operators = [e for e in events if e.device_type.name == "CPU"]
    # the profiler repeats ranges such as the optimizer's step among the kernels
    kernels = [e for e in events if e.device_type.name == "CUDA" and not e.is_user_annotation]
    kernels = sorted(kernels if cuda else operators, key=milliseconds, reverse=True)
    busy = sum(milliseconds(e) for e in kernels)
    products = sum(milliseconds(e) for e in operators if e.key in PRODUCTS)
    attention = sum(milliseconds(e) for e in operators if "attention" in e.key)
    return {
        "attention": case.attention,
        "length": case.length,
        "ms": 1000 * spread.median,
        "tflop": tflop,
        "tflop_per_second": tflop / spread.median,
        "busy_share": busy / (1000 * spread.median),
        "products_share": share(products),
        "attention_share": share(attention),
        "kernels": [
            {
                "name": e.key[:90],
                "calls": e.count / CALLS,
                "ms": milliseconds(e),
                "share": share(milliseconds(e)),
            }
            for e in kernels[:SHOWN]
        ],
    }


if __name__ == "__main__":
    write_json(Path(sys.argv[1]), profiles(sys.argv[2:]))
