"""`Panel`: N time series on one grid of dates."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int64

from forecast.data.calendars import Calendar, UtcOffset, format_date
from forecast.data.files.text import quote
from forecast.data.row_ranges import PerSeries, StoredValues, Values, count_missing, ranges, select_columns
from forecast.data.time_features import describe_frequency, future_dates, season_length
from forecast.system.errors import ConfigError, DataError
from forecast.system.formatting import plural, shorten

MAX_DESCRIBED = 3  # largest number of columns of each role whose missing values are described
TABLE_ID = ""  # the id of the single series of a table, which has no id column


@dataclass(frozen=True)
class Panel:
    """N series, stored one after the other. A table has one series. The values of a store stay on disk.

    Series s has the rows `starts[s]` … `stops[s] − 1`; of a store, rows between two series may belong to none. Rows
    from `ends[s]` on lie after the end of the series: only future covariates are known, and `values` is NaN there.

    Attributes:
        starts, ends, stops: row numbers, see above.
        targets, past_covariates: names of the columns of `values`, in this order.
        as_of: by future covariate, the column of `future` with its values as they were known in advance. For a
            covariate without an entry, the measured values stand for those known in advance.
        future: the future covariates, then the columns of `as_of`; NaN is a missing value.
        utc_offset: UTC offset of the dates of `grid`, and the time zone of their source.
        texts: categories of the covariates that are text. Their columns hold codes: the position in this list, −1 where
            the cell is empty. `forecast.data.covariates` turns them into indicators.
        indicators: names of the columns that are 1 where a row has some category, with the column of that category.
        calendar: the local times at which rows come, where they are not evenly spaced; None: one row every `freq`.
    """

    ids: pd.Index  # name of each series, in the order of the rows. `ids.name` is the id column; None for a table.
    grid: pd.DatetimeIndex  # dates from the first row of any series to the last. `grid.name` is the date column.
    freq: str  # step between rows as a pandas offset alias, such as h, 15min, D, W-SUN or MS
    grid_starts: PerSeries  # position in `grid` of the first row of each series
    starts: PerSeries
    ends: PerSeries
    stops: PerSeries
    targets: tuple[str, ...]
    values: Values  # numbers in original units; NaN is a missing value
    static: pd.DataFrame  # one row for each series; columns of numbers or text
    past_covariates: tuple[str, ...] = ()
    future_covariates: tuple[str, ...] = ()  # names of the covariates that are known beyond the ends
    as_of: Mapping[str, str] = field(default_factory=dict)
    future: Float[np.ndarray, "rows future"] | StoredValues | None = None
    utc_offset: UtcOffset = field(default_factory=UtcOffset)
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    indicators: Mapping[str, str] = field(default_factory=dict)
    calendar: Calendar | None = None

    @classmethod
    def of_table(cls, grid: pd.DatetimeIndex, values: Values, columns: Sequence[str], freq: str) -> "Panel":
        """A panel of one series, whose targets are all columns."""
        ids, rows = pd.Index([TABLE_ID]), np.array([len(grid)])
        first = np.zeros_like(rows)
        return cls(
            ids=ids, grid=grid, freq=freq, grid_starts=first, starts=first, ends=rows, stops=rows,
            targets=tuple(columns), values=values, static=pd.DataFrame(index=ids),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.targets, *self.past_covariates)

    @property
    def future_columns(self) -> tuple[str, ...]:
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
        return count_missing(self.values, self.starts, self.ends)

    @cached_property
    def missing_future(self) -> Int64[np.ndarray, " future"]:
        """Missing values of each column of `future`, before the ends of the series."""
        if self.future is None:
            return np.zeros(0, dtype=np.int64)
        return count_missing(self.future, self.starts, self.ends)

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
        return pd.DatetimeIndex(self.grid[self.places(rows)])

    def places(self, rows: Int64[np.ndarray, " some"]) -> Int64[np.ndarray, " some"]:
        """The position in the grid of the date of each row."""
        series = self.series_of(rows)
        return rows - self.starts[series] + self.grid_starts[series]

    def local_dates(self, rows: Int64[np.ndarray, " some"]) -> pd.DatetimeIndex:
        """The date of each row as the source has it, without its time zone."""
        return self.utc_offset.shown(self.dates(rows))

    @property
    def has_ids(self) -> bool:
        """Whether the source names its series; a table does not."""
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

    def take_rows(self, chosen: PerSeries, first: PerSeries, stops: PerSeries, ends: PerSeries) -> "Panel":
        """A panel in memory with the rows first[i] … stops[i] − 1 of series chosen[i], which ends at ends[i]."""
        lengths, rows = stops - first, ranges(first, stops)
        starts = lengths.cumsum() - lengths
        parts = [self.values[a:b] for a, b in zip(first.tolist(), stops.tolist(), strict=True)]
        values = np.concatenate(parts).astype(np.float64)
        values[rows >= np.repeat(ends, lengths)] = np.nan
        grid_starts = self.grid_starts[chosen] + first - self.starts[chosen]
        grid = self.grid[int(grid_starts.min()) : int((grid_starts + lengths).max())]
        return replace(
            self, ids=self.ids[chosen], static=self.static.iloc[chosen], grid=grid,
            grid_starts=grid_starts - grid_starts.min(), starts=starts, ends=starts + ends - first,
            stops=starts + lengths, values=values, future=None if self.future is None else self.future[rows],
        )  # fmt: skip


ID_COLUMN = "unique_id"  # the column of ids in the files of a run, whatever its name in the data


def describe_panel(panel: Panel) -> str:
    dates = f"{panel.describe_step()}, {format_date(panel.first_date)} to {format_date(panel.last_date)}"
    if not panel.has_ids:
        return f"{panel.n_rows:,} rows × {plural(len(panel.columns), 'column')}, {dates}"
    shortest, longest = int(panel.lengths.min()), int(panel.lengths.max())
    rows = f"{shortest:,} to {longest:,}" if shortest < longest else f"{longest:,}"
    return f"{describe_size(panel, f'{panel.n_rows:,} rows', f' ({rows} each)')}, {dates}"


def describe_size(panel: Panel, size: str, of_each: str = "") -> str:
    """Put the number of series before a size: `370 series, 24 steps of each`; for a table, `24 steps`."""
    return f"{len(panel):,} series, {size}{of_each}" if panel.has_ids else size


def of_series(panel: Panel, count: int) -> str:
    """Return ` of 370 series`, to follow a number of windows or origins; empty for a table."""
    return f" of {count:,} series" if panel.has_ids else ""


def name_series(panel: Panel, series: int) -> str:
    """Return `series 'x': `, to begin a message; empty for a table."""
    return f"series {quote(panel.ids[series])}: " if panel.has_ids else ""


def name_some(panel: Panel, chosen: Bool[np.ndarray, " series"]) -> str:
    """Name the first of some series, and count the others: `'a', 'b' and 3 more`."""
    return shorten([quote(panel.ids[number]) for number in np.flatnonzero(chosen)], 4)


def id_columns(panel: Panel, series: Int64[np.ndarray, " rows"]) -> dict[str, pd.Categorical]:
    """The column of ids of a table whose row i belongs to series[i]; empty if the source has no ids."""
    if not panel.has_ids:
        return {}
    return {ID_COLUMN: pd.Categorical.from_codes(series, categories=panel.ids)}  # type: ignore[arg-type]


def series_entry(panel: Panel, value: Any, name: str = "series") -> dict[str, Any]:
    """An entry of a JSON file on the series; empty if the source has no ids."""
    return {name: value} if panel.has_ids else {}


def label_rows(
    panel: Panel, series: Int64[np.ndarray, " rows"], dates: pd.DatetimeIndex
) -> tuple[pd.Index, dict[str, pd.DatetimeIndex]]:
    """The index of a table whose row i belongs to series[i], and its column of dates.

    The index is the id; without ids, it is the date, and there is no column.
    """
    if not panel.has_ids:
        return dates, {}
    return panel.ids[series], {str(dates.name): dates}


def missing_shares(panel: Panel, read: Sequence[str], targets: Sequence[str]) -> dict[str, dict[str, float]]:
    """The share of missing values of each column that has any, before the ends of the series, by role.

    A model reads the columns `read` of the panel, and forecasts the `targets`.
    """
    counts = dict(zip(panel.columns, panel.missing.tolist(), strict=True))
    counts |= dict(zip(panel.future_columns, panel.missing_future.tolist(), strict=True))
    roles = {
        "targets": targets,
        "past covariates": [name for name in read if name not in targets],
        "future covariates": panel.future_columns,
    }
    # the indicators of a column are missing together
    return {
        role: {panel.indicators.get(one, one): counts[one] / panel.n_rows for one in names if counts[one]}
        for role, names in roles.items()
    }


def describe_missing(
    panel: Panel, read: Sequence[str], targets: Sequence[str], fill: str | Mapping[str, str] | None
) -> list[str]:
    """Describe the missing values of each role (see `missing_shares`), and how the model reads them."""
    lines, method = [], fill if isinstance(fill, str) else "auto" if fill is None else "by column"
    for role, shares in missing_shares(panel, read, targets).items():
        if shares:
            worst = sorted(shares, key=lambda name: -shares[name])
            named = shorten([f"{name} {shares[name]:.1%}" for name in worst], MAX_DESCRIBED)
            how = "the value before" if role == "future covariates" else f"data.fill={method} says"
            scored = ", and never scored" if role == "targets" else ""
            lines.append(f"missing    {role}: {named}; read as {how}{scored}")
    return lines


CHUNK_ROWS = 1 << 16  # rows hashed at a time


def describe_content(panel: Panel) -> str:
    """Describe a panel: rows, dates, and a hash of its values unless they lie on disk, where it takes minutes."""
    content = "" if panel.is_on_disk else f" with hash {digest(panel)}"
    return f"{panel.n_rows:,} rows from {panel.first_date} to {panel.last_date}{content}"


def digest(panel: Panel) -> str:
    """Return a hash of all fields of a panel, read in chunks of rows: a panel on disk may be larger than memory."""
    state = hashlib.sha256()
    for one in fields(panel):
        value = getattr(panel, one.name)
        if isinstance(value, StoredValues):
            value = value.mapped
        if not isinstance(value, np.ndarray | pd.Index | pd.DataFrame):
            state.update(repr(value).encode())
            continue
        for start in range(0, len(value), CHUNK_ROWS):
            part = np.asarray(value[start : start + CHUNK_ROWS])
            state.update(repr(part.tolist()).encode() if part.dtype == object else part.tobytes())
    return state.hexdigest()[:12]


Value = TypeVar("Value")


@dataclass(frozen=True)
class Columns:
    """features: names that are read; targets: names that are forecast; index: the targets among the features."""

    features: tuple[str, ...]
    targets: tuple[str, ...]
    index: list[int]


def choose_columns(name: str, panel: Panel, features: str, target: str | None) -> Columns:
    """The columns by `features` (M, S or MS) and `target`. Raises ConfigError naming the possible targets."""
    listed = shorten(panel.targets, 20)
    if target is None and features != "M" and len(panel.targets) > 1:
        raise ConfigError(f"features={features} needs data.target, one of: {listed}")
    target = panel.targets[0] if target is None else target  # type: ignore[reportGeneralTypeIssues]
    if target not in panel.targets:
        advice = "set data.target to one of them, or add it to data.columns"
        raise ConfigError(f"data.target={target} is no column of {name} to forecast ({listed}): {advice}")
    if features == "S" and panel.past_covariates:
        advice = "leave data.past_covariates out, or set features=MS"
        raise ConfigError(f"features=S reads the target alone: {advice}")
    read = (target,) if features == "S" else panel.columns
    forecast = panel.targets if features == "M" else (target,)
    return Columns(read, forecast, [read.index(column) for column in forecast])


def check_columns(name: str, state: Mapping[str, Any], chosen: Columns) -> None:
    """Raise DataError if these columns are not those of a checkpoint's data module, `state`."""
    for what, columns in {"feature_columns": chosen.features, "target_columns": chosen.targets}.items():
        mine, theirs = ", ".join(columns), ", ".join(state[what])
        if mine != theirs:
            problem = f"{name}: {what.replace('_', ' ')} {mine}, where the checkpoint was trained on {theirs}"
            advice = ": choose the same (data, data.columns, data.target, data.past_covariates, features)"
            raise DataError(problem, advice)


def by_column(
    key: str, setting: Value | Mapping[str, Value] | None, columns: Sequence[str], default: Value, what: str = "column"
) -> dict[str, Value]:
    """The value of a setting for each column: one value for all, or a mapping; `default` where there is none.

    Raises ConfigError where the mapping names a column that is not among `columns`; `what` says what these are.
    """
    if not isinstance(setting, Mapping):
        return dict.fromkeys(columns, default if setting is None else setting)
    given = {str(name): value for name, value in setting.items()}
    for name in given:
        if name not in columns:
            there = ", ".join(columns[:20])
            raise ConfigError(f"{key} names {name}, which is no {what} here: there are {there}")
    return {name: default if given.get(name) is None else given[name] for name in columns}
