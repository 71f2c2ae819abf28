"""Missing rows and missing numbers."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int, Int64

from forecast.data import Panel
from forecast.data.row_ranges import ranges

MAX_NAMED = 3
"""Largest number of gaps, and of missing numbers, that are named."""


@dataclass(frozen=True)
class Stretch:
    """Consecutive missing rows of one series; `first` and `last` are missing too."""

    series: str  # empty if the source has no ids
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
        missing_rows: dates between the first and the last row of a series without any value.
        stretches: number of runs of consecutive missing rows.
        first_stretches: the first of these runs.
        longest: the longest run; None if there is none.
        missing_numbers: missing numbers in the other rows.
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


def all_columns(panel: Panel) -> tuple[str, ...]:
    """Targets, past covariates, future covariates and their values as known in advance, if they are numbers."""
    return tuple(name for name in (*panel.columns, *panel.future_columns) if name not in panel.texts)


def all_values(panel: Panel) -> Float[np.ndarray, "rows columns"]:
    """The values of `all_columns`."""
    values = np.asarray(panel.values)
    if panel.future is not None:
        values = np.hstack([values, panel.future])
    is_number = [name not in panel.texts for name in (*panel.columns, *panel.future_columns)]
    return values if all(is_number) else values[:, is_number]


def find_gaps(panel: Panel) -> Gaps:
    """Count and locate the missing rows and numbers up to the end of each series. A row without values is missing."""
    columns, missing = all_columns(panel), np.isnan(all_values(panel))
    missing[~in_history(panel)] = False
    missing_rows = np.logical_and.reduce(missing, axis=1)
    # the first and the last row of a series have values, so no run reaches into another series
    starts, lengths = runs(missing_rows)
    rows, numbers = np.nonzero(missing & ~missing_rows[:, None])
    longest = int(lengths.argmax()) if len(lengths) else None

    def stretch(run: int) -> Stretch:
        first, last = panel.local_dates(np.array([starts[run], starts[run] + lengths[run] - 1]))
        return Stretch(series_at(panel, starts[run]), first, last, int(lengths[run]))

    return Gaps(
        missing_rows=int(missing_rows.sum()),
        stretches=len(starts),
        first_stretches=tuple(stretch(run) for run in range(min(MAX_NAMED, len(starts)))),
        longest=None if longest is None else stretch(longest),
        missing_numbers=len(rows),
        places=tuple(
            Place(series_at(panel, row), columns[number], date_at(panel.local_dates(np.array([row])), 0))
            for row, number in zip(rows[:MAX_NAMED], numbers[:MAX_NAMED], strict=True)
        ),
        by_series=np.bincount(
            panel.series_of(np.concatenate([np.flatnonzero(missing_rows), rows])), minlength=len(panel)
        ),
    )


def series_at(panel: Panel, row: int | np.integer) -> str:
    """The id of the series that a row belongs to."""
    return str(panel.ids[panel.series_of(np.array([row]))[0]])


def in_history(panel: Panel) -> Bool[np.ndarray, " rows"]:
    """False for the rows after the end of each series, where only future covariates are known."""
    history = np.zeros(len(panel.values), dtype=bool)
    history[ranges(panel.starts, panel.ends)] = True
    return history


def interpolate(panel: Panel) -> Panel:
    """The panel with lines across its gaps, for the search for seasons and for pictures."""
    if not panel.has_missing:
        return panel
    values = np.asarray(panel.values).copy()
    for start, end in zip(panel.starts.tolist(), panel.ends.tolist(), strict=True):
        rows = pd.DataFrame(values[start:end]).interpolate(limit_direction="both")
        values[start:end] = rows.fillna(0.0)  # of a series without any value
    return replace(panel, values=values)
