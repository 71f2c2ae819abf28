"""The report of an export: shapes, size, the difference from PyTorch, and an example program."""

import math
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from forecast.data import DataModule
from forecast.system.errors import ConfigError
from forecast.tools.export.difference import FLIPS, Difference
from forecast.tools.export.example import write_example


def check_result(
    difference: Difference, data: DataModule, about: dict[str, Any], tolerance: float, *, allowed: int
) -> dict[str, Any]:
    """The result of the comparison in values that JSON can hold: the worst column in each unit.

    Raises:
        ConfigError: more than `allowed` windows differ by more than the tolerance, or a forecast is not a number.
    """
    result: dict[str, Any] = {
        "data": data.name,
        "windows": difference.windows,
        "windows_beyond_tolerance": difference.beyond,
    }
    if data.panel.has_ids:
        result["series"] = difference.series
    for units, differences, sizes in (
        ("scaled", difference.scaled, difference.largest_scaled),
        ("data_units", difference.in_units, difference.largest_in_units),
    ):
        worst = int(differences.nan_to_num(math.inf).argmax())
        result[units] = {
            "largest_difference": float(differences[worst]),
            "column": about["target_columns"][worst],
            "relative": float((differences / sizes.clamp(min=1e-30)).amax()),
        }
    largest = result["scaled"]["largest_difference"]
    if difference.beyond > allowed or not math.isfinite(largest):
        raise ConfigError(
            f"the exported file differs from PyTorch by up to {largest:.2g} in scaled units "
            f"(column {result['scaled']['column']}), in {difference.beyond:,} of {difference.windows:,} windows by "
            f"more than tolerance={tolerance:g}: nothing is written"
        )
    return {**result, "tolerance": tolerance}


def print_report(path: Path, about: dict[str, Any], checked: dict[str, Any], date_column: str) -> None:
    """Print the shapes, the result of the comparison and an example program."""
    console = Console(soft_wrap=True, highlight=False, markup=False)
    console.print(f"written  {path} ({path.stat().st_size / 1e6:.1f} MB) and {path.with_suffix('.json')}")
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
            f"tolerance={checked['tolerance']:g}: ProbSparse may do so in 1 window of {FLIPS:,}, because "
            "rounding can change its selection of queries"
        )
    console.print("\nA program that runs the file without this package:\n")
    console.print(write_example(path, about, date_column))
