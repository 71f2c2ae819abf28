"""Missing rows, gaps of the calendar, and the splits of a panel."""

from dataclasses import dataclass

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
DAYS = ("D", "B")
CONTINUOUS = 0.9
"""Share of a week's steps from which rows come at all hours."""


@dataclass(frozen=True)
class Gap:
    """Consecutive missing rows of one series, or a missing number of a column; `first` and `last` are missing too."""

    series: str  # empty if the source has no ids
    column: str  # empty for missing rows
    first: pd.Timestamp
    last: pd.Timestamp
    rows: int

    def __str__(self) -> str:
        dates = format_date(self.first)
        if self.rows > 1:
            dates += f" to {format_date(self.last)} ({self.rows:,} rows)"
        return " ".join(filter(None, (self.series, self.column, dates)))


@dataclass(frozen=True)
class Gaps:
    """Gaps of a panel; infinite numbers count as missing.

    Attributes:
        missing_rows: dates between the first and the last row of a series without any value.
        stretches: number of runs of consecutive missing rows.
        longest: the longest of these runs.
        missing_numbers: missing numbers in the other rows.
        places: the first missing numbers.
        by_series: missing rows and numbers of each series together.
    """

    missing_rows: int
    stretches: int
    longest: tuple[Gap, ...]
    missing_numbers: int
    places: tuple[Gap, ...]
    by_series: Int64[np.ndarray, " series"]


def format_date(date: pd.Timestamp) -> str:
    """Format a date, with the time and the seconds only if they are not zero."""
    if date == date.normalize():
        return f"{date:%Y-%m-%d}"
    return f"{date:%Y-%m-%d %H:%M}" if date == date.floor("min") else str(date)


def runs(mask: Bool[np.ndarray, " rows"]) -> tuple[Int[np.ndarray, " runs"], Int[np.ndarray, " runs"]]:
    """First row and length of each run of rows where `mask` is true."""
    change = np.diff(np.concatenate(([False], mask, [False])).astype(np.int8))
    starts = np.flatnonzero(change == 1)
    return starts, np.flatnonzero(change == -1) - starts


def number_columns(panel: Panel) -> tuple[list[str], Float[np.ndarray, "rows columns"]]:
    """Names and values of targets, past covariates, future covariates, and these as known ahead; those of numbers."""
    values = np.asarray(panel.values) if panel.future is None else np.hstack([panel.values, panel.future])
    names = [*panel.columns, *panel.future_columns]
    kept = [number for number, name in enumerate(names) if name not in panel.texts]
    return [names[number] for number in kept], values if len(kept) == len(names) else values[:, kept]


def find_gaps(panel: Panel) -> Gaps:
    """Count and locate the missing rows and numbers up to the end of each series. A row without values is missing."""
    columns, values = number_columns(panel)
    missing = np.isnan(values)
    after_ends = np.setdiff1d(np.arange(len(missing)), ranges(panel.starts, panel.ends))
    missing[after_ends] = False  # there, only future covariates are known
    missing_rows = missing.all(1)
    # the first and the last row of a series have values, so no run reaches into another series
    starts, lengths = runs(missing_rows)  # type: ignore[reportArgumentType]
    rows, numbers = np.nonzero(missing & ~missing_rows[:, None])  # type: ignore[reportIndexIssue]

    def gap(row: int, length: int = 1, column: str = "") -> Gap:
        first, last = panel.local_dates(np.array([row, row + length - 1]))
        series = panel.ids[panel.series_of(np.array([row]))[0]]
        return Gap(str(series), column, first, last, int(length))

    stretches = sorted(zip(starts.tolist(), lengths.tolist(), strict=True), key=lambda stretch: -stretch[1])
    places = list(zip(rows.tolist(), numbers.tolist(), strict=True))[:MAX_NAMED]
    of_series = panel.series_of(np.concatenate([np.flatnonzero(missing_rows), rows]))
    return Gaps(
        missing_rows=int(missing_rows.sum()),
        stretches=len(starts),
        longest=tuple(gap(*stretch) for stretch in stretches[:MAX_NAMED]),
        missing_numbers=len(rows),
        places=tuple(gap(row, column=columns[number]) for row, number in places),
        by_series=np.bincount(of_series, minlength=len(panel)),
    )


def find_calendar_of_gaps(panel: Panel) -> Calendar | None:
    """The calendar that the rows of a panel follow; None if they have no gaps, or gaps that follow no calendar.

    A gap that is longer than a week of the calendar's dates is missing data, and no holidays.
    """
    offset = parse_frequency(panel.freq)
    if not (isinstance(offset, pd.offsets.Tick) or panel.freq in DAYS):
        return None
    history = ranges(panel.starts, panel.ends)
    filled = np.isfinite(number_columns(panel)[1][history]).any(axis=1)
    places = np.repeat(panel.grid_starts - panel.starts, panel.lengths) + history
    dates = panel.utc_offset.local(pd.DatetimeIndex(panel.grid[np.unique(places[filled])]))
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
        begins, ends = panel.local_dates(first[used]).min(), panel.local_dates(last[used] - 1).max()
        parts.append(SplitPart(name, first, last, first - panel.starts, has_scale, begins, ends))  # type: ignore[reportArgumentType]
    return parts
