"""Missing rows and missing numbers."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int, Int64

from forecast.data import Panel
from forecast.data.files.unfilled import UnfilledPanel

SHOWN = 3
"""Number of gaps and of missing numbers that are named."""


@dataclass(frozen=True)
class Stretch:
    """Consecutive missing rows of one series; `first` and `last` are missing too."""

    series: str  # TABLE_ID if the source has no ids
    first: pd.Timestamp
    last: pd.Timestamp
    rows: int


@dataclass(frozen=True)
class Place:
    """A missing number."""

    series: str
    column: str
    date: pd.Timestamp


@dataclass(frozen=True)
class Gaps:
    """Gaps of a panel; infinite numbers count as missing.

    Attributes:
        missing_rows: dates between the first and the last row of a series that the file does not have.
        stretches: number of runs of consecutive missing rows.
        first_stretches: the first of these runs.
        longest: the longest run; None if there is none.
        missing_numbers: missing numbers in the rows that the file has.
        places: the first missing numbers.
        by_series: missing rows and numbers of each series together.
    """

    missing_rows: int
    stretches: int
    first_stretches: tuple[Stretch, ...]
    longest: Stretch | None
    missing_numbers: int
    places: tuple[Place, ...]
    by_series: Int64[np.ndarray, " series"]

    def __bool__(self) -> bool:
        return self.missing_rows > 0 or self.missing_numbers > 0


def date_at(dates: pd.DatetimeIndex, row: int | np.integer) -> pd.Timestamp:
    return dates[row]  # pyright: ignore[reportReturnType]


def runs(mask: Bool[np.ndarray, " rows"]) -> tuple[Int[np.ndarray, " runs"], Int[np.ndarray, " runs"]]:
    """First row and length of each run of rows where `mask` is true."""
    change = np.diff(np.concatenate(([False], mask, [False])).astype(np.int8))
    starts = np.flatnonzero(change == 1)
    return starts, np.flatnonzero(change == -1) - starts


def find_gaps(unfilled: UnfilledPanel) -> Gaps:
    """Count and locate the missing rows and numbers up to the end of each series."""
    panel, columns = unfilled.panel, unfilled.columns
    missing_rows = ~unfilled.in_file & unfilled.in_history
    # the first and the last row of a series are in the file, so no run reaches into another series
    starts, lengths = runs(missing_rows)
    missing = np.isnan(unfilled.values) & (unfilled.in_file & unfilled.in_history)[:, None]
    rows, numbers = np.nonzero(missing)
    longest = int(lengths.argmax()) if len(lengths) else None

    def stretch(run: int) -> Stretch:
        first, last = panel.dates(np.array([starts[run], starts[run] + lengths[run] - 1]))
        return Stretch(series_at(panel, starts[run]), first, last, int(lengths[run]))

    return Gaps(
        missing_rows=int(missing_rows.sum()),
        stretches=len(starts),
        first_stretches=tuple(stretch(run) for run in range(min(SHOWN, len(starts)))),
        longest=None if longest is None else stretch(longest),
        missing_numbers=len(rows),
        places=tuple(
            Place(series_at(panel, row), columns[number], date_at(panel.dates(np.array([row])), 0))
            for row, number in zip(rows[:SHOWN], numbers[:SHOWN], strict=True)
        ),
        by_series=np.bincount(
            panel.series_of(np.concatenate([np.flatnonzero(missing_rows), rows])), minlength=len(panel)
        ),
    )


def series_at(panel: Panel, row: int | np.integer) -> str:
    """The id of the series that a row belongs to."""
    return str(panel.ids[panel.series_of(np.array([row]))[0]])


def fill_that_works(unfilled: UnfilledPanel, wanted: str | None) -> str:
    """`wanted`, by default `previous`; `zero` instead of `previous` if a column of a series begins with no number."""
    fill = wanted or "previous"
    begins_missing = np.isnan(unfilled.values[unfilled.panel.starts]).any()
    return "zero" if fill == "previous" and begins_missing else fill


def fill_gaps(unfilled: UnfilledPanel, fill: str | None) -> Panel:
    """The panel that training reads with data.fill=`fill`."""
    panel = unfilled.panel
    if fill is None:
        return panel
    series = np.repeat(np.arange(len(panel)), panel.lengths)

    def fill_block(block: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "rows columns"]:
        history = pd.DataFrame(block[unfilled.in_history])
        filled = history.groupby(series).ffill() if fill == "previous" else history.fillna(0.0)
        result = block.copy()
        result[unfilled.in_history] = filled.to_numpy()
        return result

    return replace(
        panel,
        values=fill_block(np.asarray(panel.values)),
        future=None if panel.future is None else fill_block(panel.future),
    )
