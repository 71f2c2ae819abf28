"""What the export says: shapes, size, the difference from PyTorch, and a program that uses the file."""

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from forecast.data import ForecastData
from forecast.errors import ConfigError
from forecast.exported.difference import FLIPS, Difference


@contextmanager
def saying(what: str) -> Iterator[None]:
    """Show on stderr, while it lasts, what is being done."""
    with Console(file=sys.stderr).status(f"{what} ..."):
        yield


def check_result(
    difference: Difference, data: ForecastData, about: dict[str, Any], tolerance: float, *, allowed: int
) -> dict[str, Any]:
    """The comparison in plain values, of the worst column in each unit.

    Raises:
        ConfigError: more than `allowed` windows differ by more than the tolerance, or one is not a number.
    """
    result: dict[str, Any] = {
        "data": data.name,
        "windows": difference.windows,
        "windows_beyond_tolerance": difference.beyond,
    }
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


def show(path: Path, about: dict[str, Any], checked: dict[str, Any], date_column: str) -> None:
    """Print what was written and how to use it."""
    console = Console(soft_wrap=True, highlight=False, markup=False)
    console.print(f"written  {path} ({path.stat().st_size / 1e6:.1f} MB) and {path.with_suffix('.json')}")
    for what in ("inputs", "outputs"):
        for name, shape in about[what].items():
            console.print(f"{what[:-1]:8} {name} ({', '.join(map(str, shape))}) float64")
    table = Table(title=f"difference from PyTorch, {checked['windows']:,} test windows of {checked['data']}")
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
            f"tolerance={checked['tolerance']:g}: allowed for ProbSparse in 1 window of {FLIPS:,}, as rounding can "
            "flip its choice of queries"
        )
    console.print("\nA program that uses it, without this package:\n")
    console.print(example(path, about, date_column))


def example(path: Path, about: dict[str, Any], date_column: str) -> str:
    """A whole program that forecasts what follows a CSV file."""
    features = ",\n        ".join(feature["pandas"] for feature in about["time_features"])
    library, call = RUNTIMES[path.suffix]
    extra = "\nimport holidays" if "holidays." in features else ""
    return f"""\
import json
from pathlib import Path

import numpy as np
import pandas as pd
{library}{extra}

about = json.loads(Path({str(path.with_suffix(".json"))!r}).read_text())
table = pd.read_csv("my.csv", index_col={date_column!r}, parse_dates=True)
past = table[about["feature_columns"]].tail(about["seq_len"])  # in data units
future = pd.date_range(past.index[-1], periods=about["pred_len"] + 1, freq=about["freq"])[1:]


def time_features(dates):
    return np.stack([
        {features},
    ], axis=1).astype("float64")


inputs = {{
    "past": past.to_numpy("float64")[None],  # one window, or more
    "past_time": time_features(past.index)[None],
    "future_time": time_features(future)[None],
}}
{call.format(path=str(path))}
print(pd.DataFrame(forecast[0], index=future, columns=about["target_columns"]))"""


RUNTIMES = {
    ".onnx": (
        "import onnxruntime",
        'forecast = onnxruntime.InferenceSession({path!r}).run(["forecast"], inputs)[0]',
    ),
    ".pt2": (
        "import torch",
        "model = torch.export.load({path!r}).module()\n"
        "with torch.no_grad():\n"
        '    forecast = model(*map(torch.from_numpy, inputs.values()))["forecast"].numpy()',
    ),
}
"""What to import, and how to get the array `forecast`."""
