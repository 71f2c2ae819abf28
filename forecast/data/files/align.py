"""From the rows of a table to a panel: each series on one grid of dates, every number checked."""

import warnings

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64

from forecast.data.files.cells import FRAME, quote
from forecast.data.files.grid import find_grid, place_on_grid
from forecast.data.files.order import order_rows
from forecast.data.files.table_rows import TableRows
from forecast.data.panel import Panel, PerSeries, ranges


def align(
    rows: TableRows,
    *,
    freq: str | None = None,
    sort: bool = True,
    duplicates: str | None = None,
    is_part: bool = False,
) -> Panel:
    """Return the panel of these rows, in the order in which its series appear.

    Missing numbers and the values of missing rows are NaN. A series begins with its first row that has a
    value of some target and ends with the last such row. Rows after that give only future covariates.

    Args:
        freq: step between rows; None: inferred, the same for all series.
        sort, duplicates: see `order_rows`.
        is_part: the rows are a part of a series, which may begin and end with missing values.

    Raises:
        DataError: repeated dates, dates between two steps, infinite numbers, a static column that changes. It names the
            line.
        ConfigError: an option that is not possible.
    """
    refuse_infinite(rows)
    rows, starts = order_rows(rows, sort=sort, duplicates=duplicates)
    if is_part:
        return _place_rows(rows, starts, np.array([len(rows)]), freq)
    rows, starts = _trim_beginnings(rows, starts)
    ends = _ends(rows, starts)
    if not rows.roles.future and (ends < np.append(starts[1:], len(rows))).any():
        rows, starts = _cut_ends(rows, starts, ends)
        ends = np.append(starts[1:], len(rows))
    return _place_rows(rows, starts, ends, freq)


def _place_rows(rows: TableRows, starts: PerSeries, ends: PerSeries, freq: str | None) -> Panel:
    """Place the ordered rows of each series on one grid of dates."""
    stops = np.append(starts[1:], len(rows))
    grid, freq = find_grid(rows, starts, ends, freq)
    static = _static(rows, starts, ends)
    place, lengths = place_on_grid(rows, grid, freq, starts, stops)
    values, future = (_place(block, place, lengths) for block in (rows.values, rows.future))
    new_starts = lengths.cumsum() - lengths
    roles = rows.roles
    return Panel(
        rows.ids.rename(roles.id),
        grid.as_unit("ns" if roles.id is not None else rows.unit).rename(roles.date),
        freq,
        grid.get_indexer(pd.DatetimeIndex(rows.dates[starts])).astype(np.int64),
        new_starts,
        place[ends - 1] + 1,
        new_starts + lengths,
        roles.targets or (),
        values,
        static,
        past_covariates=roles.past,
        future_covariates=roles.future,
        future=future if roles.future else None,
        utc_offset=rows.utc_offset,
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
            raise rows.refuse(f"an infinite number: {advice}", row, names[column])


def _place(
    block: Float64[np.ndarray, "rows columns"], place: Int64[np.ndarray, " rows"], lengths: PerSeries
) -> Float64[np.ndarray, "more_rows columns"]:
    """The rows at their new places, NaN elsewhere."""
    n_rows = int(lengths.sum())
    if n_rows == len(block):
        return block
    placed = np.full((n_rows, block.shape[1]), np.nan)
    placed[place] = block
    return placed


def _trim_beginnings(rows: TableRows, starts: PerSeries) -> tuple[TableRows, PerSeries]:
    """Leave out the rows of each series before its first value of a target, with a warning."""
    given = np.asarray(np.isfinite(rows.values[:, : len(rows.roles.targets or ())]).any(axis=1))
    if given[starts].all():
        return rows, starts
    positions = np.where(given, np.arange(len(rows)), len(rows))
    firsts = np.minimum.reduceat(positions, starts)
    stops = np.append(starts[1:], len(rows))
    firsts = np.where(firsts < stops, firsts, starts)  # a series without a value is refused later
    count = int((firsts - starts).sum())
    if not count:
        return rows, starts
    warnings.warn(
        f"{rows.cells.path}: {count:,} rows before the first value of a target are left out", stacklevel=2
    )
    lengths = stops - firsts
    return rows.take(ranges(firsts, stops)), lengths.cumsum() - lengths


def _cut_ends(rows: TableRows, starts: PerSeries, ends: PerSeries) -> tuple[TableRows, PerSeries]:
    """Leave out the rows of each series after its last value of a target, with a warning."""
    count = len(rows) - int((ends - starts).sum())
    warnings.warn(
        f"{rows.cells.path}: {count:,} rows after the last value of a target are left out", stacklevel=2
    )
    lengths = ends - starts
    return rows.take(ranges(starts, ends)), lengths.cumsum() - lengths


def _ends(rows: TableRows, starts: PerSeries) -> PerSeries:
    """The row after each series' last one with a value of a target."""
    targets = rows.roles.targets or ()
    given = np.isfinite(rows.values[:, : len(targets)]).any(axis=1)
    numbers = np.where(given, np.arange(1, len(rows) + 1), 0)
    ends = np.maximum.reduceat(numbers, starts)
    empty = ends <= starts
    if empty.any():
        raise rows.refuse(
            f"no value of {', '.join(targets[:20])} in the whole series: leave it out",
            int(starts[int(empty.argmax())]),
        )
    return ends


def _static(rows: TableRows, starts: PerSeries, ends: PerSeries) -> pd.DataFrame:
    """The static columns, one row per series. Raises DataError where one changes within a series."""
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
