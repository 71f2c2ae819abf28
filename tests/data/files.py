"""CSV files that tests write, and where the real ones lie."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest


def real_file(name: str) -> Path:
    """A published data file; the test is skipped where there is none."""
    beside = Path(__file__).parents[2].parent / "shared" / "data"
    path = Path(os.environ.get("FORECAST_DATA_ROOT", beside)) / name
    if not path.exists():
        pytest.skip(f"{name} is not here: set FORECAST_DATA_ROOT to its folder")
    return path


def numbers(
    rows: int = 500, columns: tuple[str, ...] = ("load", "price", "wind"), freq: str = "h"
) -> pd.DataFrame:
    random = np.random.default_rng(rows)
    dates = pd.date_range("2021-03-01", periods=rows, freq=freq)
    frame = pd.DataFrame(random.normal(size=(rows, len(columns))).cumsum(axis=0), columns=list(columns))
    frame.insert(0, "date", dates.strftime("%Y-%m-%d %H:%M:%S"))
    return frame


def write(folder: Path, text: str | bytes, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path
