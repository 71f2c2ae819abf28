"""The good table, and functions that write it in different formats."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pandas as pd

ROWS = 120
DATES = pd.date_range("2024-03-28", periods=ROWS, freq="h")  # clocks go forward in Europe on the 31st
VALUES = np.stack([1000.5 + 3.0 * np.arange(ROWS), np.arange(ROWS) % 24 + 0.25], axis=1)
COLUMNS = ("load", "price")

ISO = [f"{date:%Y-%m-%d %H:%M}" for date in DATES]


def text(
    *, dates: Iterable[str] = ISO, number: Callable[[float], str] = repr, separator: str = ",",
    header: str = "date,load,price", end: str = "\n", changed: Mapping[int, str] | None = None,
) -> str:  # fmt: skip
    """Write the table in a format, and replace the lines with these numbers (the header is line 1)."""
    rows = [separator.join([d, *map(number, v)]) for d, v in zip(dates, VALUES.tolist(), strict=True)]
    lines = [header.replace(",", separator), *rows]
    for line, content in (changed or {}).items():
        lines[line - 1] = content
    return end.join(lines) + end


def german(value: float) -> str:
    return f"{value:,.2f}".translate(str.maketrans(",.", ".,"))
