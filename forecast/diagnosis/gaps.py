"""Where rows and numbers are missing."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int

from forecast.data.table import Table, UnfilledTable

SHOWN = 3  # stretches and places named


@dataclass(frozen=True)
class Stretch:
    """Rows without a break, first and last included."""

    first: pd.Timestamp
    last: pd.Timestamp
    rows: int


@dataclass(frozen=True)
class Gaps:
    """`missing_numbers` are those of rows that the file has; infinite ones count as missing."""

    missing_rows: int
    stretches: int  # of missing rows
    first_stretches: tuple[Stretch, ...]
    longest: Stretch | None
    missing_numbers: int
    places: tuple[tuple[str, pd.Timestamp], ...]  # column and date of the first missing numbers

    def __bool__(self) -> bool:
        return self.missing_rows > 0 or self.missing_numbers > 0


def date_at(dates: pd.DatetimeIndex, row: int | np.integer) -> pd.Timestamp:
    return dates[row]  # pyright: ignore[reportReturnType]


def runs(mask: Bool[np.ndarray, " rows"]) -> tuple[Int[np.ndarray, " runs"], Int[np.ndarray, " runs"]]:
    """First row and length of each stretch where `mask` is true."""
    change = np.diff(np.concatenate(([False], mask, [False])).astype(np.int8))
    starts = np.flatnonzero(change == 1)
    return starts, np.flatnonzero(change == -1) - starts


def find_gaps(table: UnfilledTable) -> Gaps:
    starts, lengths = runs(~table.in_file)
    stretches = [
        Stretch(date_at(table.dates, start), date_at(table.dates, start + length - 1), int(length))
        for start, length in zip(starts, lengths, strict=True)
    ]
    missing = np.isnan(table.values) & table.in_file[:, None]
    rows, columns = np.nonzero(missing)
    return Gaps(
        missing_rows=int((~table.in_file).sum()),
        stretches=len(stretches),
        first_stretches=tuple(stretches[:SHOWN]),
        longest=max(stretches, key=lambda stretch: stretch.rows, default=None),
        missing_numbers=len(rows),
        places=tuple(
            (table.columns[column], date_at(table.dates, row))
            for row, column in zip(rows[:SHOWN], columns[:SHOWN], strict=True)
        ),
    )


def fill_that_works(table: UnfilledTable, asked: str | None) -> str:
    """`asked`, else `previous`; `zero` where a column has no number to begin with."""
    fill = asked or "previous"
    return "zero" if fill == "previous" and np.isnan(table.values[0]).any() else fill


def filled(table: UnfilledTable, fill: str | None) -> Table:
    """The table that training would see with data.fill=`fill`."""
    frame = pd.DataFrame(table.values)
    if fill is not None:
        frame = frame.ffill() if fill == "previous" else frame.fillna(0.0)
    return Table(table.dates, frame.to_numpy(dtype=np.float64), table.columns, table.freq)
