"""The columns of dates: those that look like one, and dates of rows without any."""

import warnings
from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Int32

from forecast.data.files.header import Header, find_date_columns
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.series_in_rows import refuse_series_in_rows
from forecast.data.files.text import quote
from forecast.data.time_features import date_range
from forecast.data.utc_offset import YEARS, check_year
from forecast.system.errors import ConfigError, DataError, Remedy
from forecast.system.location import Location

DEFAULT_NAMES = ("date", "ds")
"""Names of the date column where the user gives none."""


def find_date_column(path: Location, wanted: str, raw: bytes, header: Header, options: ReadOptions) -> str:
    """The date column of a CSV file: `wanted`, or if that is missing, see `choose_date_column`.

    If `options` number the rows (`start`), it is `wanted`. Raises DataError also for a file with one series a row.
    """
    if wanted in header.names:
        return wanted
    refuse_series_in_rows(path, raw, options.separator, header)
    if options.start is not None:
        return wanted
    if len(list(filter(None, header.names))) == 1:  # the separator is another one
        return wanted
    dates = find_date_columns(raw, options, header.names)
    return choose_date_column(path, wanted, header.names, dates)


def choose_date_column(path: Location, wanted: str, present: Sequence[str], dates: Sequence[str]) -> str:
    """The date column: `wanted`, or if that is a default name and missing, the only one of `dates`, with a warning.

    Raises DataError if there are several.
    """
    if wanted not in DEFAULT_NAMES or wanted in present or not dates:
        return wanted
    if len(dates) > 1:
        remedies = [
            Remedy({"date_column": name, "drop": [other for other in dates if other != name]})
            for name in dates
        ]
        problem = f"{path}: no column {quote(wanted)}, and several look like dates ({', '.join(dates)})"
        raise DataError(problem, remedies=remedies, fallback=": set data.date_column to one of them")
    warnings.warn(
        f"{path}: no column {quote(wanted)}: {quote(dates[0])} looks like dates and is used (data.date_column)",
        stacklevel=2,
    )
    return dates[0]


def number_dates(codes: Int32[np.ndarray, " rows"], options: ReadOptions) -> pd.DatetimeIndex:
    """Return the dates of rows without dates: those of each series are `freq` apart, from `start` on.

    Raises ConfigError for a `start` that is not a date or not on the grid of the step.
    """
    start = pd.to_datetime(str(options.start), format="ISO8601", errors="coerce")
    if start is pd.NaT or start.tz is not None:
        raise ConfigError(
            f"data.start={options.start} is not a date: write it as 2010-01-01 or 2010-01-01T06:00"
        )
    check_year(f"data.start={options.start}", start)
    place = pd.Series(codes).groupby(codes).cumcount().to_numpy()
    rows = int(place.max(initial=0)) + 1
    try:
        grid = date_range(start, periods=rows, freq=str(options.freq))
    except (pd.errors.OutOfBoundsDatetime, OverflowError):
        grid = pd.DatetimeIndex([start, pd.Timestamp.max])
    if int(np.max(grid.year)) > YEARS[1]:
        raise ConfigError(
            f"data.start={options.start} data.freq={options.freq}: row {rows:,} would lie after {YEARS[1]}"
        )
    if (grid[:1] != start).any():
        raise ConfigError(
            f"data.start={options.start} is no date of data.freq={options.freq}: the next is {grid[0]}"
        )
    return pd.DatetimeIndex(grid[place])
