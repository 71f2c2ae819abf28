"""From the rows of a long table to a panel: sorted, each series on one grid of dates, every number checked."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64
from pandas.tseries.frequencies import to_offset

from forecast.data.files.cells import quote
from forecast.data.files.long import LongRows
from forecast.data.files.wide import FILLS
from forecast.data.panel import Panel, PerSeries, parts, ranges
from forecast.data.time_features import infer_frequency, parse_frequency
from forecast.system.errors import ConfigError, DataError

ASKED = 20
"""Series whose dates are asked for the step between rows, the longest ones."""


def lay_out(rows: LongRows, *, freq: str | None = None, fill: str | None = None) -> Panel:
    """The panel of these rows, in the order in which its series appear; rows may come in any order.

    A series ends with its last row that has a value of some target; rows after that give only what is known ahead.
    `freq` is inferred where it is not given, the same for all series. `fill` says how missing values and rows are
    filled within a series: `previous` or `zero`; without it they are refused. Raises DataError for duplicate dates,
    uneven steps, missing numbers, a static column that changes, naming the line, series and date; ConfigError for
    options that cannot be.
    """
    if fill is not None and fill not in FILLS:
        raise ConfigError(f"data.fill={fill} is not one of {', '.join(FILLS)}")
    rows, starts = _grouped(rows)
    stops = np.append(starts[1:], len(rows.codes))
    same = np.asarray(rows.dates[1:] == rows.dates[:-1]) & (rows.codes[1:] == rows.codes[:-1])
    if same.any():
        raise rows.refuse("this date is there twice: keep one row", int(same.argmax()) + 1, rows.columns.date)
    del same
    ends = _ends(rows, starts)
    grid, freq = _grid(rows, starts, ends, freq)
    firsts = grid.get_indexer(pd.DatetimeIndex(rows.dates[starts])).astype(np.int64)
    if (firsts < 0).any():
        row = int(starts[int((firsts < 0).argmax())])
        raise rows.refuse(
            f"not on the other series' grid of dates, every {freq} from {grid[0]}: correct it, or set data.freq",
            row, rows.columns.date,
        )  # fmt: skip
    static = _static(rows, starts, ends)
    values, known, filled = rows.values, rows.known, 0
    row = _first_off(rows, grid, firsts, starts, stops)
    if row is not None:
        if fill is None:
            raise rows.refuse(
                f"does not follow {pd.Timestamp(rows.dates[row - 1])} by the step {freq}: add the missing rows, "
                "have them filled (data.fill=previous), or set data.freq", row, rows.columns.date,
            )  # fmt: skip
        place, starts, ends, stops = _spread(rows, grid, freq, starts, ends, stops)
        values, known = _placed(values, place, stops), _placed(known, place, stops)
    whole = None if row is not None else rows  # so that lines can be named
    history = ranges(starts, ends) if (stops != ends).any() else slice(None)
    measured = np.isfinite(values)
    observed = None if measured[history].all() else measured
    for block, names in ((values, rows.columns.values), (known, rows.columns.known)):
        for i, name in enumerate(names):
            filled += _complete(block[:, i], name, starts, stops, ends, history, fill, rows, whole)
    if filled:
        warnings.warn(
            f"{rows.cells.path}: {filled:,} missing numbers filled (data.fill={fill}); scores take them for true",
            stacklevel=2,
        )
    columns = rows.columns
    n_targets = len(columns.values) - columns.past
    return Panel(
        rows.ids.rename(columns.id), grid.rename(columns.date), freq, firsts, starts, ends, stops,
        columns.values[:n_targets], values, static,
        past_covariates=columns.values[n_targets:],
        future_covariates=columns.known,
        future=known if columns.known else None,
        observed=observed,
        utc_offset=rows.clock,
    )  # fmt: skip


def _grouped(rows: LongRows) -> tuple[LongRows, PerSeries]:
    """Every series' rows together, by date, and where each begins; the ids in that order."""
    changes = np.flatnonzero(rows.codes[1:] != rows.codes[:-1]) + 1
    starts = np.concatenate([[0], changes])
    rising = rows.dates[1:] >= rows.dates[:-1]
    rising[changes - 1] = True
    if len(np.unique(rows.codes[starts])) < len(starts) or not rising.all():
        rows = rows.take(np.lexsort((rows.dates, rows.codes)))
        starts = np.concatenate([[0], np.flatnonzero(rows.codes[1:] != rows.codes[:-1]) + 1])
    lengths = np.diff(starts, append=len(rows.codes))
    ids = rows.ids[rows.codes[starts]]
    codes = np.repeat(np.arange(len(starts), dtype=np.int32), lengths)
    return replace(rows, ids=ids, codes=codes), starts.astype(np.int64)


def _ends(rows: LongRows, starts: PerSeries) -> PerSeries:
    """The row after each series' last one with a value that is forecast."""
    targets = rows.columns.values[: len(rows.columns.values) - rows.columns.past]
    given = np.isfinite(rows.values[:, : len(targets)]).any(axis=1)
    numbers = np.where(given, np.arange(1, len(rows.values) + 1), 0)
    ends = np.maximum.reduceat(numbers, starts)
    empty = ends <= starts
    if empty.any():
        raise rows.refuse(
            f"no value of {', '.join(targets)} in the whole series: leave it out",
            int(starts[int(empty.argmax())]),
        )
    return ends


def _grid(
    rows: LongRows, starts: PerSeries, ends: PerSeries, freq: str | None
) -> tuple[pd.DatetimeIndex, str]:
    """The dates from the first of all series to the last, and their step."""
    step = parse_frequency(freq or _likely_frequency(rows, starts, ends))
    first, last = rows.dates.min(), rows.dates.max()
    two = pd.date_range(first, periods=2, freq=step).to_numpy()
    dates = (last - first) / (two[1] - two[0])
    if dates > 10 * len(rows.dates) + 10_000:
        raise DataError(
            f"{rows.cells.path}: {len(rows.dates):,} rows on a grid of step {step.freqstr} with {dates:,.0f} dates, "
            f"{pd.Timestamp(first)} to {pd.Timestamp(last)}: set data.freq"
        )
    grid = pd.date_range(first, last, freq=step).as_unit("ns")
    if not len(grid) or grid[0] != first:
        row = int(rows.dates.argmin())
        raise rows.refuse(
            f"cannot begin a grid of step {step.freqstr}: set data.freq", row, rows.columns.date
        )
    return grid, step.freqstr


def _likely_frequency(rows: LongRows, starts: PerSeries, ends: PerSeries) -> str:
    """The step of one of the longest series, else the most common one in the longest."""
    longest = np.argsort(starts - ends, kind="stable")[:ASKED]
    for s in longest:
        try:
            return infer_frequency(pd.DatetimeIndex(rows.dates[starts[s] : ends[s]]))
        except DataError:
            continue
    steps = np.diff(rows.dates[starts[longest[0]] : ends[longest[0]]])
    if len(steps) < 2:
        raise DataError(
            f"{rows.cells.path}: no series has the 3 rows that tell the step between rows: set data.freq"
        )
    each, counts = np.unique(steps, return_counts=True)
    return to_offset(pd.Timedelta(each[counts.argmax()])).freqstr  # type: ignore[union-attr]


def _first_off(
    rows: LongRows, grid: pd.DatetimeIndex, firsts: PerSeries, starts: PerSeries, stops: PerSeries
) -> int | None:
    """The first row that is not one step after the row above it in its series."""
    dates, lengths = grid.to_numpy(), stops - starts
    for part in parts(lengths):
        mine = slice(starts[part][0], stops[part][-1])
        place = np.arange(mine.start, mine.stop) + np.repeat((firsts - starts)[part], lengths[part])
        off = dates[np.minimum(place, len(dates) - 1)] != rows.dates[mine]
        if off.any():
            return int(mine.start) + int(off.argmax())
    return None


def _spread(
    rows: LongRows, grid: pd.DatetimeIndex, freq: str, starts: PerSeries, ends: PerSeries, stops: PerSeries
) -> tuple[Int64[np.ndarray, " rows"], PerSeries, PerSeries, PerSeries]:
    """Where each row lies once missing rows are made room for, and the new borders of the series."""
    at = np.searchsorted(grid.to_numpy(), rows.dates)
    off = grid.to_numpy()[at] != rows.dates
    if off.any():
        message = f"not on the grid of step {freq} that begins {grid[0]}: correct the date, or set data.freq"
        raise rows.refuse(message, int(off.argmax()), rows.columns.date)
    lengths = at[stops - 1] - at[starts] + 1
    begins = lengths.cumsum() - lengths
    place = at + np.repeat(begins - at[starts], stops - starts)
    return place, begins, place[ends - 1] + 1, begins + lengths


def _placed(
    values: Float64[np.ndarray, "rows columns"], place: Int64[np.ndarray, " rows"], stops: PerSeries
) -> Float64[np.ndarray, "more_rows columns"]:
    spread = np.full((int(stops[-1]), values.shape[1]), np.nan)
    spread[place] = values
    return spread


def _complete(
    column: Float64[np.ndarray, " rows"],
    name: str,
    starts: PerSeries,
    stops: PerSeries,
    ends: PerSeries,
    history: Int64[np.ndarray, " some"] | slice,
    fill: str | None,
    rows: LongRows,
    whole: LongRows | None,
) -> int:
    """Fill what is missing before the ends, in place; how many were missing. Refuse it where nothing says how."""
    column[np.isinf(column)] = np.nan
    missing = np.isnan(column)
    count = int(missing[history].sum())
    if not count:
        return 0
    numbers = np.arange(len(column))[history]
    row = int(numbers[missing[history]][0])
    if fill is None:
        assert whole is not None, "rows that are missing are refused before"
        advice = "correct it, or say how to fill (data.fill=previous or zero)"
        raise whole.refuse(f"no number (empty, NaN or infinite): {advice}", row, name)
    if fill == "zero":
        before = column[history]
        column[history] = np.where(np.isnan(before), 0.0, before)
        return count
    source = np.where(missing, np.repeat(starts, stops - starts), np.arange(len(column)))
    source = np.maximum.accumulate(source)
    column[history] = column[source[history]]
    left = np.isnan(column[history])
    if left.any():
        series = int(np.searchsorted(stops, numbers[int(left.argmax())], side="right"))
        raise DataError(
            f"{rows.cells.path}, column {quote(name)}: series {quote(rows.ids[series])} begins with no number, and "
            "there is none before it to fill it from: cut its first rows, or data.fill=zero"
        )
    return count


def _static(rows: LongRows, starts: PerSeries, ends: PerSeries) -> pd.DataFrame:
    """The static columns, a row a series. Raises DataError where one changes within a series."""
    columns = {}
    history = ranges(starts, ends) if rows.static else starts
    for name, column in rows.static.items():
        plain = column.cat.codes if isinstance(column.dtype, pd.CategoricalDtype) else column
        numbers = plain.to_numpy()[history]
        first = np.repeat(plain.to_numpy()[starts], ends - starts)
        missing = np.isnan(numbers) if numbers.dtype.kind == "f" else numbers < 0
        if missing.any():
            row = int(history[int(missing.argmax())])
            raise rows.refuse("empty: a static column needs a value in every row", row, name)
        changed = numbers != first
        if changed.any():
            row = int(history[int(changed.argmax())])
            raise rows.refuse(
                f"{quote(column.iloc[row])}, and {quote(column.iloc[int(starts[rows.codes[row]])])} above: a static "
                "column does not change within a series; name it in data.past_covariates or data.future_covariates",
                row, name,
            )  # fmt: skip
        values = column.iloc[starts]
        columns[name] = values.astype(
            str if isinstance(column.dtype, pd.CategoricalDtype) else float
        ).to_numpy()
    return pd.DataFrame(columns, index=rows.ids)
