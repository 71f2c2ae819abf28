"""Measure every case of a benchmark, and show what came out: a table, JSON, CSV and a log-log picture."""

import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from forecast import plots
from forecast.files import whole_file, write_json
from forecast.timing import (
    faster_from,
    growth_exponent,
    in_process_for_memory,
    peak_memory,
    time_in_turn,
)
from forecast.workloads import FLOOR, Case, cases, make

YARDSTICK = "full"
Row = dict[str, Any]


def measure(config: DictConfig, device: str) -> list[Row]:
    """One row a case: seconds (median, fastest, slowest), peak MiB, windows or sequences in the batch."""
    plan = cases(config)
    if without := [kind for kind in config.kinds if kind not in {case.kind for case in plan}]:
        print(f"left out: {', '.join(without)} cannot serve benchmark.role={config.benchmark.role}")
    settings = config.copy()
    OmegaConf.resolve(settings)  # plain values, which another process can read
    rows = []
    with Progress(transient=True) as progress, in_process_for_memory(torch.get_num_threads()) as elsewhere:
        task = progress.add_task("measuring", total=len({(c.length, c.backward) for c in plan}))
        for length in dict.fromkeys(case.length for case in plan):
            for backward in (False, True):
                together = [c for c in plan if c.length == length and c.backward == backward]
                progress.update(
                    task, description=f"length {length}, {'and backward' if backward else 'forward'}"
                )
                spreads = time_in_turn([make(settings, case, device) for case in together], config.repeats)
                for case, spread in zip(together, spreads, strict=True):
                    memory = float("nan")
                    if config.memory and device == "cuda":
                        memory = measure_memory(settings, case, device)
                    elif config.memory:
                        memory = elsewhere.submit(measure_memory, settings, case, device).result()
                    rows.append(
                        {**asdict(case), "batch": batch(config, case), **asdict(spread), "peak_mib": memory}
                    )
                progress.advance(task)
    return rows


def measure_memory(config: DictConfig, case: Case, device: str) -> float:
    return peak_memory(lambda: make(config, case, device), cuda=device == "cuda")


def batch(config: DictConfig, case: Case) -> int:
    settings = config.benchmark
    return settings.batch_size if settings.name == "model" else max(1, settings.tokens // case.steps)


def growth(rows: list[Row]) -> list[Row]:
    """For every kind and pass: the exponents of time and memory of one sequence, and from where it beats full."""
    found = []
    for backward in (False, True):
        series = {}
        for row in rows:
            if row["backward"] == backward:
                series.setdefault(row["kind"], []).append(row)
        for kind, points in series.items():
            lengths = [int(p["length"].split("/")[0]) for p in points]
            rival = [p["median"] for p in series.get(YARDSTICK, [])]
            medians = [p["median"] for p in points]
            found.append(
                {
                    "kind": kind,
                    "backward": backward,
                    "time_exponent": growth_exponent(lengths, [p["median"] / p["batch"] for p in points]),
                    "memory_exponent": growth_exponent(lengths, [p["peak_mib"] / p["batch"] for p in points]),
                    "faster_than_full_from": faster_from(lengths, medians, rival)
                    if rival and kind != YARDSTICK
                    else None,
                }
            )
    return found


def hardware(device: str) -> dict[str, Any]:
    """What was measured on."""
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


def save(folder: Path, config: DictConfig, rows: list[Row], device: str) -> None:
    settings = OmegaConf.to_container(config, resolve=True)
    content = {"hardware": hardware(device), "rows": rows, "growth": growth(rows), "config": settings}
    with whole_file(folder / "benchmark.csv") as temporary:
        pd.DataFrame(rows).to_csv(temporary, index=False)
    plots.save(plots.growth_figure(pd.DataFrame(rows), title(config, device)), folder / "benchmark.png")
    write_json(folder / "benchmark.json", content)


def title(config: DictConfig, device: str) -> str:
    settings = config.benchmark
    what = "training steps" if settings.name == "model" else f"one {settings.role}-attention {settings.part}"
    return f"{what}, {config.precision}, {hardware(device)['device']}"


def show(folder: Path, config: DictConfig, rows: list[Row], device: str) -> None:
    """Print one table a pass: milliseconds, how many times faster than full, and MiB."""
    console = Console()
    for backward in (False, True):
        what = "forward + backward" if backward else "forward"
        table = Table(title=f"{title(config, device)}: {what}")
        for name in ("length", "batch", "kind", "ms", "fastest – slowest", "× full", "peak MiB"):
            table.add_column(name, justify="left" if name == "kind" else "right")
        here = [row for row in rows if row["backward"] == backward]
        full = {row["length"]: row["median"] for row in here if row["kind"] == YARDSTICK}
        for i, row in enumerate(here):
            times = full[row["length"]] / row["median"] if row["length"] in full else float("nan")
            table.add_row(
                row["length"], str(row["batch"]), row["kind"], f"{1000 * row['median']:.1f}",
                f"{1000 * row['fastest']:.1f} – {1000 * row['slowest']:.1f}", f"{times:.2f}", f"{row['peak_mib']:.0f}",
                end_section=i + 1 == len(here) or here[i + 1]["length"] != row["length"],
            )  # fmt: skip
        console.print(table)
    for found in growth(rows):
        if found["backward"] and found["kind"] != FLOOR:
            since = found["faster_than_full_from"]
            beats = f", faster than full from {since}" if since else ""
            console.print(
                f"{found['kind']}: time grows as n^{found['time_exponent']:.2f}, "
                f"memory as n^{found['memory_exponent']:.2f}{beats}"
            )
    console.print(f"saved in {folder}", soft_wrap=True)
