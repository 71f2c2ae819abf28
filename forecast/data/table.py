"""A dated table of numbers from a CSV file, every cell checked.

A refusal is one `DataError` line that names the file, the column, the first bad line (as an editor counts
them: the header is line 1) and what to do about it.
"""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64

from forecast.data.csvfile import Cells, date_name, quote, read_cells, read_numbers
from forecast.data.dates import check_order, dates_and_clock, lay_grid
from forecast.data.timezone import to_move
from forecast.errors import ConfigError

FILLS = ("previous", "zero")


@dataclass(frozen=True)
class Table:
    """Evenly spaced dates, and one finite number per date and column, in the data's own units."""

    dates: pd.DatetimeIndex
    values: Float64[np.ndarray, "rows columns"]
    columns: tuple[str, ...]
    freq: str  # the step between rows as a pandas offset alias: h, 15min, D, W-SUN, MS
    clock: int | None = field(
        default=None, kw_only=True
    )  # minutes the dates are ahead of UTC, where that is known

    def on_clock(self, clock: int | None) -> "Table":
        """The table with its dates on another clock; one of the two that is not known changes nothing."""
        move = to_move(self.clock, clock)
        return replace(self, dates=pd.DatetimeIndex(self.dates + move), clock=clock) if move else self


@dataclass(frozen=True)
class UnfilledTable:
    """What a file says before anything is filled: NaN where a number is missing or infinite, or a whole row."""

    dates: pd.DatetimeIndex  # the whole grid
    values: Float64[np.ndarray, "rows columns"]
    columns: tuple[str, ...]
    freq: str
    in_file: Bool[np.ndarray, " rows"]  # False: the row is missing


def read_table(
    path: str | Path,
    *,
    date_column: str | Sequence[str] = "date",
    date_format: str | None = None,
    timezone: str | None = None,
    separator: str = ",",
    decimal: str = ".",
    thousands: str | None = None,
    columns: Sequence[str | int] | None = None,
    freq: str | None = None,
    fill: str | None = None,
) -> Table:
    """Read and check a CSV file (also packed as .gz or .zip).

    `date_column` may be two columns, a date and a time. `date_format` is strptime's, or `unix`, `unix_ms` or `excel`
    for dates as numbers; without it ISO 8601 and any one unambiguous format are read. `timezone`, such as
    Europe/Berlin, says that the dates are local times there: they become UTC. `columns`
    chooses and orders the number columns, default all. `freq` is inferred where it is not given. `fill` says
    how missing and infinite values, and rows missing from the grid, are filled: `previous` (the last value
    before) or `zero`; without it they are refused. Raises DataError for anything wrong in the file,
    ConfigError for an option that cannot be.
    """
    if fill is not None and fill not in FILLS:
        raise ConfigError(f"data.fill={fill} is not one of {', '.join(FILLS)}")
    cells, names, (dates, clock), values = _read_columns(
        path, date_column, date_format, timezone, separator, decimal, thousands, columns
    )
    table = check_rows(cells, date_name(date_column), names, dates, values, freq=freq, fill=fill)
    return replace(table, clock=clock)


def check_rows(
    cells: Cells,
    date_column: str,
    names: list[str],
    dates: pd.DatetimeIndex,
    values: Float64[np.ndarray, "rows columns"],
    *,
    freq: str | None,
    fill: str | None,
) -> Table:
    """The table of these rows, as read from `cells`; refuses and fills what `read_table` does."""
    if fill is None:
        _refuse_missing(cells, names, values)
    check_order(cells, date_column, dates)
    grid, freq = lay_grid(cells, date_column, dates, freq, complete=fill is not None)
    if fill is not None:
        values = _fill(cells, names, pd.DataFrame(values, index=dates).reindex(grid), fill)
    return Table(grid, values, tuple(names), freq)


def read_unfilled_table(
    path: str | Path,
    *,
    date_column: str | Sequence[str] = "date",
    date_format: str | None = None,
    timezone: str | None = None,
    separator: str = ",",
    decimal: str = ".",
    thousands: str | None = None,
    columns: Sequence[str | int] | None = None,
    freq: str | None = None,
) -> UnfilledTable:
    """The same, with what is missing left open. Refuses what `read_table` refuses with a `fill`."""
    cells, names, (dates, _), values = _read_columns(
        path, date_column, date_format, timezone, separator, decimal, thousands, columns
    )
    column = date_name(date_column)
    check_order(cells, column, dates)
    grid, freq = lay_grid(cells, column, dates, freq, complete=True)
    values = np.where(np.isfinite(values), values, np.nan)
    if len(grid) > len(dates):
        values = pd.DataFrame(values, index=dates).reindex(grid).to_numpy()
    return UnfilledTable(grid, values, tuple(names), freq, np.isin(grid.to_numpy(), dates.to_numpy()))


def _read_columns(
    path: str | Path,
    date_column: str | Sequence[str],
    date_format: str | None,
    timezone: str | None,
    separator: str,
    decimal: str,
    thousands: str | None,
    columns: Sequence[str | int] | None,
) -> tuple[Cells, list[str], tuple[pd.DatetimeIndex, int | None], Float64[np.ndarray, "rows columns"]]:
    check_signs(separator, decimal, thousands)
    if not date_column:
        raise ConfigError("data.date_column is empty: name the column of the dates")
    cells = read_cells(
        Path(os.path.expanduser(path)), date_column=date_column, separator=separator, decimal=decimal
    )
    column = date_name(date_column)
    names = choose_columns(cells, column, columns)
    dates = dates_and_clock(cells, column, date_format, timezone)
    values = np.stack(
        [read_numbers(cells, name, decimal=decimal, thousands=thousands) for name in names], axis=1
    )
    return cells, names, dates, values


def check_signs(separator: str, decimal: str, thousands: str | None) -> None:
    """Raises ConfigError for signs that cannot part fields, or digits."""
    for key, sign in {"separator": separator, "decimal": decimal, "thousands": thousands}.items():
        if sign is None and key == "thousands":
            continue
        if sign is None or len(sign) != 1:
            raise ConfigError(f"data.{key}={sign!r} must be one character")
        allowed = {"separator": "\t", "thousands": "\xa0\u202f"}.get(key, "")  # hard spaces
        plain = sign.isascii() and sign.isprintable() and not sign.isalnum() and sign not in '"+-'
        if not plain and sign not in allowed:
            raise ConfigError(f"data.{key}={sign!r} cannot stand between what it parts: give another")
    if decimal == thousands:
        raise ConfigError(f"data.decimal and data.thousands are both {decimal!r}: they must differ")


def choose_columns(cells: Cells, date_column: str, columns: Sequence[str | int] | None) -> list[str]:
    present = [name for name in cells.frame.columns if name != date_column]
    if not present:
        raise cells.refuse(f"no column beside {quote(date_column)}: there is nothing to forecast")
    if isinstance(columns, str) or not isinstance(columns, Sequence | None):
        raise ConfigError(f"data.columns={columns}: write a list, as in data.columns=[{columns}]")
    chosen = present if columns is None else [str(name) for name in columns]
    if not chosen or len(set(chosen)) < len(chosen):
        raise ConfigError(f"data.columns={chosen} must name columns, each once")
    for name in chosen:
        if name not in present:
            raise cells.refuse(
                f"no number column {quote(name)} (data.columns); there are {', '.join(map(quote, present[:20]))}"
            )
    return chosen


def _refuse_missing(cells: Cells, names: list[str], values: Float64[np.ndarray, "rows columns"]) -> None:
    bad = ~np.isfinite(values)
    if not bad.any():
        return
    row, column = divmod(int(bad.argmax()), len(names))
    what = "no number (empty or NaN)" if np.isnan(values[row, column]) else "an infinite number"
    advice = "correct it, or say how to fill (data.fill=previous or zero)"
    raise cells.refuse(f"{what}: {advice}", row=row, column=names[column])


def _fill(
    cells: Cells, names: list[str], frame: pd.DataFrame, how: str
) -> Float64[np.ndarray, "rows columns"]:
    frame = frame.where(np.isfinite(frame))
    count = int(frame.isna().to_numpy().sum())
    frame = frame.ffill() if how == "previous" else frame.fillna(0.0)
    first = frame.iloc[0].isna().to_numpy()
    if first.any():
        message = "no number, and none before it to fill it from: cut the first rows, or data.fill=zero"
        raise cells.refuse(message, row=0, column=names[int(first.argmax())])
    if count:
        warnings.warn(
            f"{cells.path}: {count:,} missing numbers filled (data.fill={how}); scores take them for true",
            stacklevel=3,
        )
    return frame.to_numpy(dtype=np.float64)
