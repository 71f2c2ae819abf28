"""From the rows of a table to a panel: each series on one grid of dates, every number checked."""

import warnings

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64

from forecast.data.files.cells import quote
from forecast.data.files.grid import find_grid, first_gap, place_on_grid, refuse_gap
from forecast.data.files.order import order_rows
from forecast.data.files.table_rows import TableRows
from forecast.data.files.unfilled import UnfilledPanel, check_fill, fill_panel, refuse_missing
from forecast.data.panel import Panel, PerSeries, ranges


def align(
    rows: TableRows,
    *,
    freq: str | None = None,
    fill: str | None = None,
    sort: bool = True,
    duplicates: str | None = None,
) -> Panel:
    """Return the panel of these rows, in the order in which its series appear.

    A series ends with its last row that has a value of some target; rows after that give only future covariates.

    Args:
        freq: step between rows; None: inferred, the same for all series.
        fill: how missing and infinite values and missing rows within a series are filled: `previous` (the last value
            before) or `zero`. None: they are refused.
        sort, duplicates: see `order_rows`.

    Raises:
        DataError: repeated dates, uneven steps, missing numbers, a static column that changes; it names the line.
        ConfigError: an option that is not possible.
    """
    check_fill(fill)
    unfilled, rows, starts = _align(rows, freq, sort, duplicates, complete=fill is not None)
    if fill is None:
        return unfilled.panel
    return fill_panel(unfilled, fill, rows, starts)


def align_unfilled(
    rows: TableRows, *, freq: str | None = None, sort: bool = True, duplicates: str | None = None
) -> UnfilledPanel:
    """Return the panel of these rows with missing values and rows as NaN."""
    return _align(rows, freq, sort, duplicates, complete=True)[0]


def _align(
    rows: TableRows, freq: str | None, sort: bool, duplicates: str | None, *, complete: bool
) -> tuple[UnfilledPanel, TableRows, PerSeries]:
    """Align the rows; return the panel, the ordered rows and the first of each series among them.

    With `complete`, values and rows may be missing; otherwise the first one that is missing is refused.
    """
    rows, starts = order_rows(rows, sort=sort, duplicates=duplicates)
    rows, starts = _trim_beginnings(rows, starts)
    stops = np.append(starts[1:], len(rows))
    ends = _ends(rows, starts)
    if not complete:
        refuse_missing(rows, starts, ends)
    grid, freq = find_grid(rows, starts, ends, freq)
    static = _static(rows, starts, ends)
    gap = first_gap(rows, grid, starts, stops)
    place, lengths = np.arange(len(rows)), stops - starts
    if gap is not None:
        if not complete:
            on_grid = rows.date(gap) in grid
            advice = (
                "add the missing rows, have them filled (data.fill=previous)"
                if on_grid
                else "correct the date"
            )
            raise refuse_gap(rows, gap, freq, advice)
        place, lengths = place_on_grid(rows, grid, freq, starts, stops)
    values, future = (_place(block, place, lengths) for block in (rows.values, rows.future))
    in_file = np.zeros(len(values), dtype=bool)
    in_file[place] = True
    new_starts = lengths.cumsum() - lengths
    roles = rows.roles
    panel = Panel(
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
    return UnfilledPanel(panel, in_file), rows, starts


def _place(
    block: Float64[np.ndarray, "rows columns"], place: Int64[np.ndarray, " rows"], lengths: PerSeries
) -> Float64[np.ndarray, "more_rows columns"]:
    """The rows at their new places, NaN elsewhere; infinite numbers become NaN."""
    block = np.where(np.isfinite(block), block, np.nan)
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


def _ends(rows: TableRows, starts: PerSeries) -> PerSeries:
    """The row after each series' last one with a value of a target; all rows where nothing is known after the end."""
    if rows.roles.id is None and not rows.roles.future:
        return np.append(starts[1:], len(rows))
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
