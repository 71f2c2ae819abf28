"""Measurement of every case of a benchmark, and the growth of time and memory with the length."""

import math
import platform
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf

from forecast.system.progress import bar
from forecast.tools.benchmark.timing import (
    count_flops,
    find_crossover,
    fit_growth_exponent,
    measure_peak_memory,
    start_memory_process,
    time_in_turn,
)
from forecast.tools.benchmark.workloads import Case, batch_size, list_cases, make_work

REFERENCE = "full"
Row = dict[str, Any]


def measure_cases(config: DictConfig, device: str) -> list[Row]:
    """Return one row per case: seconds (median, fastest, slowest), peak MiB, operations of a forward pass, batch."""
    cases = list_cases(config)
    measured = {case.attention for case in cases}
    if omitted := [attention for attention in config.attention_types if attention not in measured]:
        print(f"omitted: {', '.join(omitted)} cannot serve benchmark.role={config.benchmark.role}")
    settings = config.copy()
    OmegaConf.resolve(settings)  # the process that measures memory gets plain values
    directions = [
        (length, backward) for length in dict.fromkeys(c.length for c in cases) for backward in (False, True)
    ]
    rows = []
    with (
        bar(len(directions), "Measuring", " passes") as progress,
        start_memory_process(torch.get_num_threads()) as process,
    ):
        for length, backward in directions:
            group = [case for case in cases if (case.length, case.backward) == (length, backward)]
            progress.set_description(f"Length {length}, {'forward and backward' if backward else 'forward'}")
            rows += measure_group(settings, group, device, process)
            progress.update()
    return rows


def measure_group(
    settings: DictConfig, group: Sequence[Case], device: str, process: ProcessPoolExecutor
) -> list[Row]:
    """Time the cases of one length and direction in turn, and measure the memory and the operations of each."""
    works = [make_work(settings, case, device) for case in group]
    timings = time_in_turn(works, settings.repeats)
    rows = []
    for case, work, timing in zip(group, works, timings, strict=True):
        memory = math.nan
        if settings.memory and device == "cuda":
            memory = measure_memory(settings, case, device)
        elif settings.memory:
            memory = process.submit(measure_memory, settings, case, device).result()
        measured = {
            "peak_mib": memory,
            "flops": math.nan if case.backward else count_flops(work, cuda=device == "cuda"),
        }
        rows.append({**asdict(case), "batch": batch_size(settings, case), **asdict(timing), **measured})
    return rows


def measure_memory(config: DictConfig, case: Case, device: str) -> float:
    """Return the peak memory of a case in MiB."""
    return measure_peak_memory(lambda: make_work(config, case, device), cuda=device == "cuda")


def fit_growth(rows: list[Row]) -> list[Row]:
    """Return, for every attention type and direction, the growth of time and memory per sequence with the length.

    `faster_than_full_from` is the length from which the type is faster than full attention.
    """
    found = []
    for backward in (False, True):
        by_type: dict[str, list[Row]] = {}
        for row in rows:
            if row["backward"] == backward:
                by_type.setdefault(row["attention"], []).append(row)
        reference = [p["median"] for p in by_type.get(REFERENCE, [])]
        for attention, points in by_type.items():
            lengths = [int(p["length"].split("/")[0]) for p in points]
            medians = [p["median"] for p in points]
            has_reference = reference and attention != REFERENCE
            found.append(
                {
                    "attention": attention,
                    "backward": backward,
                    "time_exponent": fit_growth_exponent(lengths, [p["median"] / p["batch"] for p in points]),
                    "memory_exponent": fit_growth_exponent(
                        lengths, [p["peak_mib"] / p["batch"] for p in points]
                    ),
                    "faster_than_full_from": find_crossover(lengths, medians, reference)
                    if has_reference
                    else None,
                }
            )
    return found


def describe_hardware(device: str) -> dict[str, Any]:
    """Return the device, the number of threads and the versions that a measurement depends on."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if "model name" in line]
        cpu = names[0] if names else cpu
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else cpu,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
    }
