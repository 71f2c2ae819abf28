"""A dated table of numbers from a CSV file, every cell checked.

A refusal is one `DataError` line that names the file, the column, the first bad line (as an editor counts
them: the header is line 1) and what to do about it.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float64

from forecast.data.csvfile import Cells, quote, read_cells, read_numbers
from forecast.data.dates import check_order, lay_grid, parse_dates
from forecast.errors import ConfigError

FILLS = ("previous", "zero")


@dataclass(frozen=True)
class Table:
    """Evenly spaced dates, and one finite number per date and column, in the data's own units."""

    dates: pd.DatetimeIndex
    values: Float64[np.ndarray, "rows columns"]
    columns: tuple[str, ...]
    freq: str  # the step between rows as a pandas offset alias: h, 15min, D, W-SUN, MS


def read_table(
    path: str | Path,
    *,
    date_column: str = "date",
    date_format: str | None = None,
    separator: str = ",",
    decimal: str = ".",
    thousands: str | None = None,
    columns: Sequence[str] | None = None,
    freq: str | None = None,
    fill: str | None = None,
) -> Table:
    """Read and check a CSV file (also packed as .gz or .zip).

    `date_format` is strptime's; without it ISO 8601 and any one unambiguous format are read. `columns`
    chooses and orders the number columns, default all. `freq` is inferred where it is not given. `fill` says
    how missing and infinite values, and rows missing from the grid, are filled: `previous` (the last value
    before) or `zero`; without it they are refused. Raises DataError for anything wrong in the file,
    ConfigError for an option that cannot be.
    """
    for key, sign in {"separator": separator, "decimal": decimal, "thousands": thousands}.items():
        if sign is not None and len(sign) != 1:
            raise ConfigError(f"data.{key}={sign!r} must be one character")
    if decimal == thousands:
        raise ConfigError(f"data.decimal and data.thousands are both {decimal!r}: they must differ")
    if fill is not None and fill not in FILLS:
        raise ConfigError(f"data.fill={fill} is not one of {', '.join(FILLS)}")

    cells = read_cells(
        Path(path).expanduser(),
        date_column=date_column,
        separator=separator,
        decimal=decimal,
        thousands=thousands,
    )
    names = _choose_columns(cells, date_column, columns)
    dates = parse_dates(cells, date_column, date_format)
    values = np.stack(
        [read_numbers(cells, name, decimal=decimal, thousands=thousands) for name in names], axis=1
    )
    if fill is None:
        _refuse_missing(cells, names, values)
    check_order(cells, date_column, dates)
    grid, freq = lay_grid(cells, date_column, dates, freq, complete=fill is not None)
    if fill is not None:
        values = _fill(cells, names, pd.DataFrame(values, index=dates).reindex(grid), fill)
    return Table(grid, values, tuple(names), freq)


def _choose_columns(cells: Cells, date_column: str, columns: Sequence[str] | None) -> list[str]:
    present = [name for name in cells.frame.columns if name != date_column]
    if not present:
        raise cells.refuse(f"no column beside {quote(date_column)}: there is nothing to forecast")
    chosen = present if columns is None else list(columns)
    if not chosen or len(set(chosen)) < len(chosen):
        raise ConfigError(f"data.columns={chosen} must name columns, each once")
    for name in chosen:
        if name not in present:
            raise cells.refuse(
                f"no number column {quote(name)} (data.columns); there are {', '.join(present[:20])}"
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
        warnings.warn(f"{cells.path}: {count:,} missing numbers filled (data.fill={how})", stacklevel=3)
    return frame.to_numpy(dtype=np.float64)
