"""`Panel`: N time series on one grid of dates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pandas as pd
from jaxtyping import Float, Int64

from forecast.data.calendars import Calendar
from forecast.data.row_ranges import PerSeries, ranges, select_rows, series_slices
from forecast.data.stored_values import StoredValues, Values, select_columns
from forecast.data.time_features import describe_frequency, future_dates, season_length
from forecast.data.utc_offset import UtcOffset

TABLE_ID = ""
"""The id of the single series of a table, which has no id column."""


@dataclass(frozen=True)
class Panel:
    """N series, stored one after the other. A table has one series. The values of a store stay on disk.

    Series s has the rows `starts[s]` … `stops[s] − 1`; of a store, rows between two series may belong to none. Rows
    from `ends[s]` on lie after the end of the series: only future covariates are known, and `values` is NaN there.

    Attributes:
        ids: name of each series, in the order of the rows. `ids.name` is the id column; None for a table.
        grid: dates from the first row of any series to the last. `grid.name` is the date column.
        freq: step between rows as a pandas offset alias, such as h, 15min, D, W-SUN or MS.
        grid_starts: position in `grid` of the first row of each series.
        starts, ends, stops: row numbers, see above.
        targets, past_covariates: names of the columns of `values`, in this order.
        values: numbers in original units; NaN is a missing value.
        future_covariates: names of the covariates that are known beyond the ends.
        as_of: by future covariate, the column of `future` with its values as they were known in advance. For a
            covariate without an entry, the measured values stand for those known in advance.
        future: the future covariates, then the columns of `as_of`; NaN is a missing value.
        static: one row for each series; columns of numbers or text.
        utc_offset: UTC offset of the dates of `grid`, and the time zone of their source.
        texts: categories of the covariates that are text. Their columns hold codes: the position in this list, −1 where
            the cell is empty. `forecast.data.categories` turns them into indicators.
        indicators: names of the columns that are 1 where a row has some category, with the column of that category.
        calendar: the local times at which rows come, where they are not evenly spaced; None: one row every `freq`.
    """

    ids: pd.Index
    grid: pd.DatetimeIndex
    freq: str
    grid_starts: PerSeries
    starts: PerSeries
    ends: PerSeries
    stops: PerSeries
    targets: tuple[str, ...]
    values: Values
    static: pd.DataFrame
    past_covariates: tuple[str, ...] = ()
    future_covariates: tuple[str, ...] = ()
    as_of: Mapping[str, str] = field(default_factory=dict)
    future: Float[np.ndarray, "rows future"] | StoredValues | None = None
    utc_offset: UtcOffset = field(default_factory=UtcOffset)
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    indicators: Mapping[str, str] = field(default_factory=dict)
    calendar: Calendar | None = None

    @classmethod
    def of_table(
        cls,
        grid: pd.DatetimeIndex,
        values: Values,
        columns: Sequence[str],
        freq: str,
        *,
        utc_offset: UtcOffset | None = None,
    ) -> "Panel":
        """A panel of one series, whose targets are all columns."""
        ids, rows = pd.Index([TABLE_ID]), np.array([len(grid)])
        first = np.zeros_like(rows)
        return cls(
            ids=ids, grid=grid, freq=freq, grid_starts=first, starts=first, ends=rows, stops=rows,
            targets=tuple(columns), values=values, static=pd.DataFrame(index=ids), utc_offset=utc_offset or UtcOffset(),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of `values`."""
        return (*self.targets, *self.past_covariates)

    @property
    def future_columns(self) -> tuple[str, ...]:
        """Names of the columns of `future`."""
        return (*self.future_covariates, *self.as_of.values())

    @property
    def ahead_index(self) -> list[int]:
        """Of each future covariate, the column of `future` that is read after a forecast origin."""
        return [self.future_columns.index(self.as_of.get(name, name)) for name in self.future_covariates]

    @property
    def is_on_disk(self) -> bool:
        return isinstance(self.values, StoredValues)

    @cached_property
    def missing(self) -> Int64[np.ndarray, " columns"]:
        """Missing values of each column, before the ends of the series."""
        return self._count_missing(self.values)

    @cached_property
    def missing_future(self) -> Int64[np.ndarray, " future"]:
        """Missing values of each column of `future`, before the ends of the series."""
        return np.zeros(0, dtype=np.int64) if self.future is None else self._count_missing(self.future)

    def _count_missing(self, block: Values) -> Int64[np.ndarray, " columns"]:
        if isinstance(block, StoredValues):
            return block.count_missing(self.starts, self.ends)
        count = np.zeros(block.shape[1], dtype=np.int64)
        for some in series_slices(self.lengths):
            missing = np.isnan(block[select_rows(self.starts[some], self.ends[some])])
            count += [np.count_nonzero(column) for column in missing.T]  # a third of the time of a sum
        return count

    @property
    def season(self) -> int:
        """Rows of the season that follows from the step or from the calendar."""
        return season_length(self.freq) if self.calendar is None else self.calendar.season

    @property
    def has_missing(self) -> bool:
        return bool(self.missing.any())

    @property
    def lengths(self) -> PerSeries:
        """Rows of each series up to its end."""
        return self.ends - self.starts

    @property
    def n_rows(self) -> int:
        return int(self.lengths.sum())

    @property
    def first_date(self) -> pd.Timestamp:
        """The first date of any series, as the source has it, without its time zone."""
        return self.local_date(int(self.grid_starts.min()))

    @property
    def last_date(self) -> pd.Timestamp:
        """The latest date before the ends of the series, as the source has it, without its time zone."""
        return self.local_date(int((self.grid_starts + self.lengths).max()) - 1)

    def local_date(self, position: int) -> pd.Timestamp:
        """The date at a position of the grid, as the source has it, without its time zone."""
        return self.utc_offset.shown(self.grid[[position]]).item()

    def series_of(self, rows: Int64[np.ndarray, " some"]) -> Int64[np.ndarray, " some"]:
        """The number of the series that each row belongs to; a row after the last one belongs to the last series."""
        return np.minimum(np.searchsorted(self.stops, rows, side="right"), len(self) - 1)

    def dates(self, rows: Int64[np.ndarray, " some"]) -> pd.DatetimeIndex:
        """The date of each row, at the UTC offset of the grid."""
        series = self.series_of(rows)
        return pd.DatetimeIndex(self.grid[rows - self.starts[series] + self.grid_starts[series]])

    def local_dates(self, rows: Int64[np.ndarray, " some"]) -> pd.DatetimeIndex:
        """The date of each row as the source has it, without its time zone."""
        return self.utc_offset.shown(self.dates(rows))

    @property
    def has_ids(self) -> bool:
        """Whether the source names its series; a table does not. Labels: `forecast.data.panel_labels`."""
        return self.ids.name is not None

    def at_utc_offset(self, utc_offset: UtcOffset) -> "Panel":
        """The panel with its dates at another UTC offset; unchanged if one is unknown. See `UtcOffset.ahead_of`."""
        move = self.utc_offset.ahead_of(utc_offset)
        if not move:
            return self
        grid = pd.DatetimeIndex(self.grid - move)
        return replace(self, grid=grid, utc_offset=replace(self.utc_offset, minutes=utc_offset.minutes))

    def with_dates_after_ends(self, steps: int) -> "Panel":
        """The panel with a grid that reaches at least `steps` beyond the end of every series."""
        missing = int((self.grid_starts + self.lengths).max()) + steps - len(self.grid)
        if missing <= 0:
            return self
        if self.calendar is None:
            after = future_dates(self.grid, self.freq, missing)
        else:
            last = self.grid[-1:]
            # an hour that clocks repeat may give rows that are not after the last one
            local = self.calendar.after(self.utc_offset.local(last).item(), missing + self.season)
            after = self.utc_offset.from_local(local)
            after = pd.DatetimeIndex(after[after > last[0]][:missing]).as_unit(self.grid.unit)
        grid = self.grid.append(after)
        return replace(self, grid=pd.DatetimeIndex(grid, name=self.grid.name))

    def describe_step(self) -> str:
        """Describe the step between rows: `every hour`, or the calendar of the rows."""
        return f"every {describe_frequency(self.freq)}" if self.calendar is None else self.calendar.describe()

    def describe_covariates(self, names: Sequence[str]) -> str:
        """These columns in words, with one entry for all indicators of a column, such as `weather (3 categories)`."""
        columns = [self.indicators.get(name, name) for name in names]
        counts = {name: columns.count(name) for name in columns}
        made = set(self.indicators.values())
        return ", ".join(f"{n} ({count} categories)" if n in made else n for n, count in counts.items())

    def select_columns(self, names: Sequence[str]) -> "Panel":
        """The panel with some of its columns of `values`, in the order of `names`."""
        index = [self.columns.index(name) for name in names]
        if index == list(range(len(self.columns))):
            return self
        past = tuple(name for name in names if name in self.past_covariates)
        values = select_columns(self.values, index)
        targets = tuple(name for name in names if name not in past)
        return replace(self, targets=targets, past_covariates=past, values=values)

    def take_rows(
        self,
        chosen: Int64[np.ndarray, " chosen"],
        first: Int64[np.ndarray, " chosen"],
        stops: Int64[np.ndarray, " chosen"],
        ends: Int64[np.ndarray, " chosen"],
    ) -> "Panel":
        """A panel in memory with the rows first[i] … stops[i] − 1 of series chosen[i], which ends at ends[i]."""
        lengths = stops - first
        starts = lengths.cumsum() - lengths
        parts = [self.values[a:b] for a, b in zip(first.tolist(), stops.tolist(), strict=True)]
        values = np.concatenate(parts).astype(np.float64)
        rows = ranges(first, stops)
        values[rows >= np.repeat(ends, lengths)] = np.nan
        grid_starts = self.grid_starts[chosen] + first - self.starts[chosen]
        grid = self.grid[int(grid_starts.min()) : int((grid_starts + lengths).max())]
        return replace(
            self,
            ids=self.ids[chosen],
            grid=grid,
            grid_starts=grid_starts - grid_starts.min(),
            starts=starts,
            ends=starts + ends - first,
            stops=starts + lengths,
            values=values,
            static=self.static.iloc[chosen],
            future=None if self.future is None else self.future[rows],
        )
