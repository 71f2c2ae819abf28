"""CSV files for tests: small ones that are written, and published data files."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]


def real_file(name: str) -> Path:
    """A published file in $FORECAST_DATA_ROOT, data/ or shared/data beside the checkout; skips where it is missing."""
    for folder in (os.environ.get("FORECAST_DATA_ROOT"), ROOT / "data", ROOT.parent / "shared" / "data"):
        if folder is not None and (Path(folder) / name).exists():
            return Path(folder) / name
    pytest.skip(f"{name} is not here: set FORECAST_DATA_ROOT to its folder")


def numbers(rows: int = 500, columns: tuple[str, ...] = ("load", "price", "wind"), freq: str = "h") -> pd.DataFrame:
    random = np.random.default_rng(rows)
    dates = pd.date_range("2021-03-01", periods=rows, freq=freq)
    frame = pd.DataFrame(random.normal(size=(rows, len(columns))).cumsum(axis=0), columns=list(columns))
    frame.insert(0, "date", dates.strftime("%Y-%m-%d %H:%M:%S"))
    return frame


def lines(*rows: str, header: str = "date,load,price") -> str:
    return "\n".join([header, *rows]) + "\n"


def write(folder: Path, text: str | bytes, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def write_csv(path: Path, rows: int) -> None:
    """Write an hourly file with a load, which has a daily cycle, and a temperature, from 2024-01-01."""
    t = np.arange(rows)
    noise = np.random.default_rng(0).normal(size=(2, rows))
    dates = pd.date_range("2024-01-01", periods=rows, freq="h")
    load = 100 + 30 * np.sin(2 * np.pi * t / 24) + 3 * noise[0]
    temperature = 10 + 5 * np.cos(2 * np.pi * t / 24) + noise[1]
    pd.DataFrame({"date": dates, "load": load, "temperature": temperature}).to_csv(path, index=False)
