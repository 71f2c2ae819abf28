"""Results of a benchmark: a table on the terminal, and JSON, CSV and a picture in a folder."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.table import Table

from forecast.reports import figures
from forecast.reports.colours import attention_colour
from forecast.reports.figures import label_ends, style_axis, subplots
from forecast.system.files import atomic_file, write_json
from forecast.tools.benchmark.measurement import NO_MIXING, REFERENCE, Row, describe_hardware, fit_growth

COLUMNS = ("length", "batch", "attention", "ms", "fastest – slowest", "× full", "peak MiB")
FLOPS = "MFLOP"
"""Heading of the operations of a forward pass, per sequence."""


def growth_figure(rows: pd.DataFrame, title: str) -> Figure:
    """Draw time and peak memory for one sequence, forward and backward, against its length, with logarithmic axes."""
    rows = rows[rows["backward"]].assign(
        n=lambda r: r["length"].astype(str).str.split("/").str[0].astype(int)
    )
    measured = {
        c: unit for c, unit in {"median": "seconds", "peak_mib": "MiB"}.items() if np.any(rows[c] > 0)
    }
    figure, grid = subplots(1, len(measured), figsize=(5.5 * len(measured), 4.4), squeeze=False)
    axes = grid[0]
    for axis, (column, unit) in zip(axes, measured.items(), strict=True):
        types, ends = list(map(str, rows["attention"].unique())), {}
        for attention, points in rows.groupby("attention", sort=False):
            style = {
                "color": attention_colour(str(attention), types),
                "linewidth": 2.2 if attention == REFERENCE else 1.6,
            }
            style |= {"linestyle": ":", "color": "#888888"} if attention == NO_MIXING else {}
            values = points[column] / points["batch"]
            ends[str(attention)] = float(values.iloc[-1]), style["color"]
            axis.plot(points["n"], values, marker="o", markersize=3.5, label=attention, **style)
            if column == "median":
                low, high = points["fastest"] / points["batch"], points["slowest"] / points["batch"]
                axis.fill_between(points["n"], low, high, color=style["color"], alpha=0.15, linewidth=0)
        axis.set(xscale="log", yscale="log", xlabel="length", ylabel=f"{unit} a sequence")
        axis.set_xticks(sorted(rows["n"].unique()), sorted(rows["n"].unique()), minor=False)
        axis.minorticks_off()
        style_axis(axis, which="both")
        label_ends(axis, ends)
    figure.suptitle(title, fontsize=11)
    figure.tight_layout()
    return figure


def save_results(folder: Path, config: DictConfig, rows: list[Row], device: str) -> None:
    """Write benchmark.csv, benchmark.png and benchmark.json."""
    settings = OmegaConf.to_container(config, resolve=True)
    content = {
        "hardware": describe_hardware(device), "rows": rows, "growth": fit_growth(rows), "config": settings,
    }  # fmt: skip
    with atomic_file(folder / "benchmark.csv") as temporary:
        pd.DataFrame(rows).to_csv(temporary, index=False)
    figure = growth_figure(pd.DataFrame(rows), make_title(config, device))
    figures.save(figure, folder / "benchmark.png")
    write_json(folder / "benchmark.json", content)


def make_title(config: DictConfig, device: str) -> str:
    settings = config.benchmark
    what = "training steps" if settings.name == "model" else f"one {settings.role}-attention {settings.part}"
    return f"{what}, {config.precision}, {describe_hardware(device)['device']}"


def print_results(folder: Path, config: DictConfig, rows: list[Row], device: str) -> None:
    """Print a table for each direction, and the growth of time and memory with the length."""
    console = Console()
    for backward in (False, True):
        direction = "forward + backward" if backward else "forward"
        title = f"{make_title(config, device)}: {direction}"
        console.print(make_table(title, [row for row in rows if row["backward"] == backward]))
    for growth in fit_growth(rows):
        if growth["backward"] and growth["attention"] != NO_MIXING:
            length = growth["faster_than_full_from"]
            faster = f", faster than full from length {length}" if length else ""
            memory = growth["memory_exponent"]
            of_memory = "" if math.isnan(memory) else f", memory as n^{memory:.2f}"
            console.print(
                f"{growth['attention']}: time grows as n^{growth['time_exponent']:.2f}{of_memory}{faster}"
            )
    console.print(f"saved in {folder}", soft_wrap=True)


def make_table(title: str, rows: list[Row]) -> Table:
    """Return milliseconds, speed relative to full attention, memory and operations of the cases of one direction."""
    table = Table(title=title)
    has_flops = not rows[0]["backward"]
    for name in (*COLUMNS, *([FLOPS] if has_flops else [])):
        table.add_column(
            "attention type" if name == "attention" else name,
            justify="left" if name == "attention" else "right",
        )
    full = {row["length"]: row["median"] for row in rows if row["attention"] == REFERENCE}
    for i, row in enumerate(rows):
        speed = full[row["length"]] / row["median"] if row["length"] in full else float("nan")
        table.add_row(
            row["length"], str(row["batch"]), row["attention"], f"{1000 * row['median']:.1f}",
            f"{1000 * row['fastest']:.1f} – {1000 * row['slowest']:.1f}", f"{speed:.2f}", f"{row['peak_mib']:.0f}",
            *([f"{row['flops'] / row['batch'] / 1e6:,.1f}"] if has_flops else []),
            end_section=i + 1 == len(rows) or rows[i + 1]["length"] != row["length"],
        )  # fmt: skip
    return table
