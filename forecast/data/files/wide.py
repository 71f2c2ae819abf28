"""A table with one column for each variable, from a CSV file; every cell is checked.

An error is one line that names the file, the column, the first bad line (counted as in an editor: the header is
line 1) and what to do.
"""

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float64

from forecast.data.files.cells import Cells, date_name, quote, read_cells, read_numbers
from forecast.data.files.dates import check_order, dates_and_clock, lay_grid
from forecast.data.files.unfilled import UnfilledPanel
from forecast.data.panel import Panel
from forecast.system.errors import ConfigError

FILLS = ("previous", "zero")


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
) -> Panel:
    """Read and check a CSV file, also compressed as .gz or .zip.

    Args:
        date_column: one column, or two: a date and a time.
        date_format: of strptime, or `unix`, `unix_ms` or `excel` for dates as numbers. Without it, ISO 8601 and any
            unambiguous format are read.
        timezone: such as Europe/Berlin; the dates are local times there and become UTC.
        columns: the number columns to use, in this order; default: all.
        freq: step between rows; default: inferred.
        fill: how missing and infinite values and missing rows are filled: `previous` (the last value before) or
            `zero`. Without it they are refused.

    Raises:
        DataError: anything wrong in the file.
        ConfigError: an option that cannot be.
    """
    if fill is not None and fill not in FILLS:
        raise ConfigError(f"data.fill={fill} is not one of {', '.join(FILLS)}")
    cells, names, (dates, utc_offset), values = _read_columns(
        path, date_column, date_format, timezone, separator, decimal, thousands, columns
    )
    panel = check_rows(cells, date_name(date_column), names, dates, values, freq=freq, fill=fill)
    return replace(panel, utc_offset=utc_offset)


def check_rows(
    cells: Cells,
    date_column: str,
    names: list[str],
    dates: pd.DatetimeIndex,
    values: Float64[np.ndarray, "rows columns"],
    *,
    freq: str | None,
    fill: str | None,
) -> Panel:
    """The panel of these rows, as read from `cells`; refuses and fills as `read_table` does."""
    if fill is None:
        _refuse_missing(cells, names, values)
    check_order(cells, date_column, dates)
    grid, freq = lay_grid(cells, date_column, dates, freq, complete=fill is not None)
    observed = None
    if fill is not None:
        frame = pd.DataFrame(values, index=dates).reindex(grid)
        frame = frame.where(np.isfinite(frame))
        observed = None if (measured := frame.notna().to_numpy()).all() else measured
        values = _fill(cells, names, frame, fill)
    return Panel.of_table(grid, values, names, freq, observed=observed)


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
) -> UnfilledPanel:
    """Read and check a CSV file, and leave missing values as NaN; the options are those of `read_table`."""
    cells, names, (dates, utc_offset), values = _read_columns(
        path, date_column, date_format, timezone, separator, decimal, thousands, columns
    )
    column = date_name(date_column)
    check_order(cells, column, dates)
    grid, freq = lay_grid(cells, column, dates, freq, complete=True)
    values = np.where(np.isfinite(values), values, np.nan)
    if len(grid) > len(dates):
        values = pd.DataFrame(values, index=dates).reindex(grid).to_numpy()
    panel = Panel.of_table(grid, values, names, freq, utc_offset=utc_offset)
    return UnfilledPanel(panel, np.isin(grid.to_numpy(), dates.to_numpy()))


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
    count = int(frame.isna().to_numpy().sum())
    frame = frame.ffill() if how == "previous" else frame.fillna(0.0)
    first = frame.iloc[0].isna().to_numpy()
    if first.any():
        message = "no number, and none before it to fill it from: cut the first rows, or data.fill=zero"
        raise cells.refuse(message, row=0, column=names[int(first.argmax())])
    if count:
        warnings.warn(
            f"{cells.path}: {count:,} missing numbers filled (data.fill={how}); scores count them as measured",
            stacklevel=3,
        )
    return frame.to_numpy(dtype=np.float64)
