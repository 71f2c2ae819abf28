"""Missing rows, gaps of the calendar, and windows."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int, Int64

from forecast.data import Panel
from forecast.data.calendars import MIN_MATCH, Calendar, find_calendar
from forecast.data.row_ranges import PerSeries, ranges
from forecast.data.split import Split, split_panel
from forecast.data.time_features import parse_frequency, rows_in
from forecast.system.errors import ConfigError, DataError

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


DAYS = ("D", "B")
CONTINUOUS = 0.9
"""Share of a week's steps from which rows come at all hours."""


def find_calendar_of_gaps(panel: Panel) -> Calendar | None:
    """The calendar that the rows of a panel follow; None if they have no gaps, or gaps that follow no calendar.

    A gap that is longer than a week of the calendar's dates is missing data, and no holidays.
    """
    offset = parse_frequency(panel.freq)
    if not (isinstance(offset, pd.offsets.Tick) or panel.freq in DAYS):
        return None
    dates = panel.utc_offset.local(dates_with_values(panel))
    span = int((panel.grid_starts + panel.lengths).max() - panel.grid_starts.min())
    if len(dates) == span:
        return None
    try:
        calendar = find_calendar("", dates, None)
    except DataError:
        return None
    of_week = 7 if panel.freq in DAYS else rows_in(days=7, freq=panel.freq)
    if not 0 < len(calendar.slots) <= CONTINUOUS * of_week:
        return None
    expected = calendar.between(dates)
    lacking = ~expected.isin(dates)
    _, lengths = runs(lacking)
    fits = dates.isin(expected).mean() >= MIN_MATCH and lacking.mean() <= 1 - MIN_MATCH
    return calendar if fits and max(lengths, default=0) <= len(calendar.slots) else None


def dates_with_values(panel: Panel) -> pd.DatetimeIndex:
    """The dates at which any series has a value."""
    there = np.isfinite(all_values(panel)).any(axis=1)
    history = ranges(panel.starts, panel.ends)
    places = np.repeat(panel.grid_starts - panel.starts, panel.lengths) + history
    return pd.DatetimeIndex(panel.grid[np.unique(places[np.asarray(there)[history]])])


@dataclass(frozen=True)
class SplitPart:
    """One split: the rows first[s] … stop[s] − 1 of each series s of a panel.

    Attributes:
        history: rows of each series before `first`, from which windows of validation and test may take their past.
        has_scale: the series that can be scaled; one without training rows has no windows unless data.scale_by=all.
        begins, ends: the first and the last date of any series.
    """

    name: str
    first: PerSeries
    stop: PerSeries
    history: PerSeries
    has_scale: Bool[np.ndarray, " series"]
    begins: pd.Timestamp
    ends: pd.Timestamp

    @property
    def lengths(self) -> PerSeries:
        return self.stop - self.first

    @property
    def n_rows(self) -> int:
        return int(self.lengths.sum())

    @property
    def longest(self) -> int:
        return int(self.lengths.max())

    @property
    def typical(self) -> int:
        """The median number of rows of the series that have rows in this split and in training."""
        used = np.sort(self.lengths[self.has_scale & (self.lengths > 0)])
        return int(used[(len(used) - 1) // 2]) if len(used) else 0

    def windows(self, seq_len: int, pred_len: int) -> Int64[np.ndarray, " series"]:
        """The number of windows of each series."""
        own = pred_len + np.maximum(0, seq_len - self.history)
        return np.where(self.has_scale, np.maximum(0, self.lengths - own + 1), 0)


def split_parts(panel: Panel, split: Split, scale_by: str = "series") -> list[SplitPart]:
    """Split each series into training, validation and test rows; `scale_by` as in `DataModule`.

    Raises:
        ConfigError: a `split` of one part.
        DataError: a split without rows.
    """
    rows = split_panel(panel, split, seq_len=1, season=1)
    if set(rows) != {"train", "val", "test"}:
        raise ConfigError(f"data.split={split} is one part: leave it out, or give all three")
    has_scale = (rows["train"][1] > rows["train"][0]) | (scale_by == "all")
    parts = []
    for name, (first, last) in rows.items():
        used = last > first
        if not used.any():
            raise DataError(
                f"{panel.n_rows} rows leave none for the {name} part: give more rows, or another data.split"
            )
        begins = date_at(panel.local_dates(first[used]).sort_values(), 0)
        ends = date_at(panel.local_dates(last[used] - 1).sort_values(), -1)
        parts.append(SplitPart(name, first, last, first - panel.starts, has_scale, begins, ends))
    return parts


@dataclass(frozen=True)
class BaselineScores:
    """Scores of the baselines, best first, on `windows` test windows (every `every`-th of them)."""

    scores: dict[str, dict[str, float]]
    windows: int
    every: int
    season: int
