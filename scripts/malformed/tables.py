"""The good table, and the ways in which the malformed files write it."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pandas as pd

ROWS = 120
DATES = pd.date_range("2024-03-28", periods=ROWS, freq="h")  # clocks go forward in Europe on the 31st
VALUES = np.stack([1000.5 + 3.0 * np.arange(ROWS), np.arange(ROWS) % 24 + 0.25], axis=1)
COLUMNS = ("load", "price")

ISO = [f"{date:%Y-%m-%d %H:%M}" for date in DATES]


def text(
    *,
    dates: Iterable[str] = ISO,
    number: Callable[[float], str] = repr,
    separator: str = ",",
    header: str = "date,load,price",
    end: str = "\n",
    changed: Mapping[int, str] | None = None,
) -> str:
    """The table in some way of writing, lines of these numbers (the header's is 1) changed."""
    rows = [separator.join([d, *map(number, v)]) for d, v in zip(dates, VALUES.tolist(), strict=True)]
    lines = [header.replace(",", separator), *rows]
    for line, content in (changed or {}).items():
        lines[line - 1] = content
    return end.join(lines) + end


def german(value: float) -> str:
    """1234.5 as 1.234,5."""
    return f"{value:,.2f}".translate(str.maketrans(",.", ".,"))
