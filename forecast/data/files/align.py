"""Alignment of the rows of a table to a panel: each series on one grid of dates, every number checked."""

import warnings
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64

from forecast.data.files.cells import FRAME
from forecast.data.files.grid import Grid, SeriesRows, Spacing, advise_step, find_dates, find_grid, order_rows
from forecast.data.files.table_rows import TableRows
from forecast.data.files.text import quote
from forecast.data.files.timezone import find_skipping_zone
from forecast.data.panel import Panel
from forecast.data.row_ranges import PerSeries, ranges
from forecast.data.time_features import future_dates
from forecast.system.formatting import plural

MAX_SKIPPED_HOURS = 100
"""Gaps are examined for changes of the clocks if there are no more."""


class Places(NamedTuple):
    """The row numbers of the rows of a table once missing rows are inserted.

    Attributes:
        of_rows: the new number of each row.
        lengths: the number of rows of each series, with those inserted.
    """

    of_rows: Int64[np.ndarray, " rows"]
    lengths: PerSeries

    @property
    def starts(self) -> PerSeries:
        """The first row of each series."""
        return self.lengths.cumsum() - self.lengths

    def place_rows(
        self, block: Float64[np.ndarray, "rows columns"]
    ) -> Float64[np.ndarray, "more_rows columns"]:
        """The rows of a block at their new places, NaN elsewhere."""
        n_rows = int(self.lengths.sum())
        if n_rows == len(block):
            return block
        placed = np.full((n_rows, block.shape[1]), np.nan)
        placed[self.of_rows] = block
        return placed


def place_on_grid(series: SeriesRows, grid: Grid) -> Places:
    """Find the place of each row once missing rows are inserted.

    Warns where only hours that clocks skip in spring are missing. Raises DataError for a date between two dates of the
    grid.
    """
    rows, starts = series.rows, series.starts
    if np.array_equal(grid.dates.to_numpy(), rows.dates):
        return Places(np.arange(len(rows)), series.stops - starts)
    at, is_there = find_dates(grid.dates, rows.dates)
    if not is_there.all():
        row = int(is_there.argmin())
        message = f"{rows.subject(row)}does not follow {rows.date(row - 1)} by the step {grid.freq}: correct the date"
        raise rows.error(message, row, rows.roles.date, **advise_step(rows))
    _warn_of_skipped_hours(rows, at, grid.freq)
    lengths = at[series.stops - 1] - at[starts] + 1
    begins = lengths.cumsum() - lengths
    return Places(at + np.repeat(begins - at[starts], series.stops - starts), lengths)


def _warn_of_skipped_hours(rows: TableRows, at: Int64[np.ndarray, " rows"], freq: str) -> None:
    """Warn if the only rows that are missing are hours that clocks skip in spring."""
    gaps = np.flatnonzero((np.diff(at) > 1) & (rows.codes[1:] == rows.codes[:-1])) + 1
    if rows.utc_offset.minutes is not None or not 0 < len(gaps) <= MAX_SKIPPED_HOURS:
        return
    first, dates = int(gaps[0]), pd.DatetimeIndex(rows.dates)
    before = dates[gaps - 1]
    skipped = pd.DatetimeIndex([future_dates(before[i : i + 1], freq, 1)[0] for i in range(len(gaps))])
    if zone := find_skipping_zone(dates, rows.codes, skipped):
        advice = (
            f"localize it first (tz_localize({zone!r}))"
            if rows.cells.path == FRAME
            else f"set data.timezone, such as {zone}, or give dates in UTC"
        )
        warnings.warn(
            f"{rows.cells.path}: no row between {rows.date(first - 1)} and {rows.date(first)}: where clocks went "
            f"forward, {advice}",
            stacklevel=2,
        )


def align(
    rows: TableRows,
    spacing: Spacing,
    *,
    sort: bool = True,
    duplicates: str | None = None,
    is_part: bool = False,
) -> Panel:
    """Return the panel of these rows, in the order in which its series appear.

    Missing numbers and the values of missing rows are NaN. A series begins with its first row that has a
    value of some target and ends with the last such row. Rows after that give only future covariates.

    Args:
        spacing: the steps between rows, the same for all series.
        sort, duplicates: see `order_rows`.
        is_part: the rows are a part of a series, which may begin and end with missing values.

    Raises:
        DataError: repeated dates, dates between two steps, infinite numbers, a static column that changes. It names the
            line.
        ConfigError: an option that is not possible.
    """
    refuse_infinite(rows)
    series = order_rows(rows, sort=sort, duplicates=duplicates)
    if not is_part:
        series = _cut_to_targets(series)
    return _make_panel(series, find_grid(series, spacing, is_part=is_part))


def _make_panel(series: SeriesRows, grid: Grid) -> Panel:
    """Place the rows of each series on one grid of dates."""
    static = _static(series)
    rows, roles, places = series.rows, series.rows.roles, place_on_grid(series, grid)
    return Panel(
        ids=rows.ids.rename(roles.id),
        grid=grid.dates.as_unit("ns" if roles.id is not None else rows.unit).rename(roles.date),
        freq=grid.freq,
        grid_starts=find_dates(grid.dates, rows.dates[series.starts])[0],
        starts=places.starts,
        ends=places.of_rows[series.ends - 1] + 1,
        stops=places.starts + places.lengths,
        targets=roles.targets or (),
        values=places.place_rows(rows.values),
        static=static,
        past_covariates=roles.past,
        future_covariates=roles.future_covariates,
        as_of=roles.as_of,
        future=places.place_rows(rows.future) if roles.future else None,
        utc_offset=rows.utc_offset,
        texts=rows.texts,
        calendar=grid.calendar,
    )


def refuse_infinite(rows: TableRows) -> None:
    """Raise DataError for the first infinite number."""
    for block, names in ((rows.values, rows.roles.values), (rows.future, rows.roles.future)):
        infinite = np.isinf(block)
        if infinite.any():
            row, column = divmod(int(infinite.argmax()), len(names))
            advice = (
                "correct it" if rows.cells.path == FRAME else "correct it, or set data.na_values=[inf,-inf]"
            )
            raise rows.error(f"an infinite number: {advice}", row, names[column])


def _cut_to_targets(series: SeriesRows) -> SeriesRows:
    """Leave out the rows of each series before its first value of a target and after the last one, with warnings.

    Rows after the last value stay if there are future covariates.
    """
    rows, starts = series.rows, series.starts
    targets = rows.roles.targets or ()
    edges = np.concatenate([starts, series.stops - 1])
    if np.isfinite(rows.values[edges, : len(targets)]).any(axis=1).all():
        return SeriesRows(rows, starts, series.stops)
    given = np.asarray(np.isfinite(rows.values[:, : len(targets)]).any(axis=1))
    numbers = np.arange(len(rows))
    firsts = np.minimum.reduceat(np.where(given, numbers, len(rows)), starts)
    ends = np.maximum.reduceat(np.where(given, numbers + 1, 0), starts)
    empty = ends <= starts
    if empty.any():
        raise rows.error(
            f"no value of {', '.join(targets[:20])} in the whole series: leave it out",
            int(starts[int(empty.argmax())]),
        )
    stops = series.stops if rows.roles.future else ends
    warn_of_rows_left_out(str(rows.cells.path), firsts - starts, series.stops - stops)
    lengths = stops - firsts
    new_starts = lengths.cumsum() - lengths
    if len(rows) > lengths.sum():
        rows = rows.take(ranges(firsts, stops))
    return SeriesRows(rows, new_starts, new_starts + ends - firsts)


def warn_of_rows_left_out(path: str, before: PerSeries, after: PerSeries) -> None:
    """Warn of rows of each series before its first value of a target and after the last one."""
    for count, where in ((before, "before the first"), (after, "after the last")):
        if count.any():
            warnings.warn(
                f"{path}: left out {plural(int(count.sum()), 'row')} {where} value of a target", stacklevel=3
            )


def _static(series: SeriesRows) -> pd.DataFrame:
    """The static columns, one row per series: its value in the rows that have one, NaN if none has.

    Raises DataError where it changes within a series.
    """
    rows, starts, ends = series
    columns = {}
    history = ranges(starts, ends) if rows.static else starts
    owners = rows.codes[history]
    for name, column in rows.static.items():
        codes, found = pd.factorize(column.iloc[history])
        given = np.flatnonzero(codes >= 0)
        firsts = np.full(len(rows.ids), -1)
        firsts[owners[given][::-1]] = codes[given][::-1]
        changed = given[codes[given] != firsts[owners[given]]]
        if len(changed):
            row, first = int(history[changed[0]]), found[firsts[owners[changed[0]]]]
            raise rows.error(
                f"{quote(column.iloc[row])}, and {quote(first)} above: a static column does not change within a "
                "series; name it in data.past_covariates or data.future_covariates", row, name,
            )  # fmt: skip
        kind = object if isinstance(column.dtype, pd.CategoricalDtype) else float
        columns[name] = np.append(np.asarray(found, dtype=kind), np.nan)[firsts]
    return pd.DataFrame(columns, index=rows.ids)
