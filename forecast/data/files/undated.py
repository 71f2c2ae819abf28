"""Dates of rows in files without dates."""

import numpy as np
import pandas as pd
from jaxtyping import Int32

from forecast.data.files.read_options import ReadOptions
from forecast.data.time_features import parse_frequency
from forecast.data.utc_offset import YEARS, check_year
from forecast.system.errors import ConfigError


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
        grid = pd.date_range(start, periods=rows, freq=parse_frequency(str(options.freq)))
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
