"""The report of an export: shapes, size, the difference from PyTorch, and an example program."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from forecast.tools.export.difference import WINDOWS_PER_EXCEPTION
from forecast.tools.export.example import write_example
from forecast.tools.export.metadata import metadata_path


def print_report(path: Path, about: dict[str, Any], checked: dict[str, Any], data: Mapping[str, Any]) -> None:
    """Print the shapes, the result of the comparison and an example program that reads a file as `data` says."""
    console = Console(soft_wrap=True, highlight=False, markup=False)
    console.print(f"written  {path} ({path.stat().st_size / 1e6:.1f} MB) and {metadata_path(path)}")
    for what in ("inputs", "outputs"):
        for name, shape in about[what].items():
            console.print(f"{what[:-1]:8} {name} ({', '.join(map(str, shape))}) float64")
    of_series = f", {checked['series']:,} series" if "series" in checked else ""
    title = f"difference from PyTorch, {checked['windows']:,} test windows of {checked['data']}{of_series}"
    table = Table(title=title)
    for heading in ("", "largest", "column", "relative to the largest forecast"):
        table.add_column(heading, justify="left" if heading in ("", "column") else "right")
    for units in ("scaled", "data_units"):
        found = checked[units]
        table.add_row(
            units.replace("_", " "),
            f"{found['largest_difference']:.2g}",
            found["column"],
            f"{found['relative']:.2g}",
        )
    Console(markup=False).print(table)
    if checked["windows_beyond_tolerance"]:
        console.print(
            f"{checked['windows_beyond_tolerance']:,} of {checked['windows']:,} windows differ by more than "
            f"tolerance={checked['tolerance']:g}: ProbSparse may do so in 1 window of {WINDOWS_PER_EXCEPTION:,}, "
            "because rounding can change its selection of queries"
        )
    console.print("\nA program that runs the file without this package:\n")
    console.print(write_example(path, about, data))
