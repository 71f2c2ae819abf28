"""Gaps that follow a calendar, such as weekends, holidays and the time between two sessions."""

import numpy as np
import pandas as pd

from forecast.data import Panel
from forecast.data.calendars import MIN_MATCH, Calendar, find_calendar
from forecast.data.row_ranges import ranges
from forecast.data.time_features import parse_frequency, rows_in
from forecast.system.errors import DataError
from forecast.tools.check.gaps import all_values, runs

DAYS = ("D", "B")
CONTINUOUS = 0.9
"""Share of a week's steps from which rows come at all hours."""


def find_calendar_of_gaps(panel: Panel) -> Calendar | None:
    """The calendar that the rows of a panel follow; None if they have no gaps, or gaps that follow no calendar.

    A gap that is longer than a week of the calendar's dates is missing data, and no holidays.
    """
    offset = parse_frequency(panel.freq)
    if not (isinstance(offset, pd.offsets.Tick) or panel.freq in DAYS):
        return None
    dates = panel.utc_offset.local(dates_with_values(panel))
    span = int((panel.grid_starts + panel.lengths).max() - panel.grid_starts.min())
    if len(dates) == span:
        return None
    try:
        calendar = find_calendar("", dates, None)
    except DataError:
        return None
    of_week = 7 if panel.freq in DAYS else rows_in(days=7, freq=panel.freq)
    if not 0 < len(calendar.slots) <= CONTINUOUS * of_week:
        return None
    expected = calendar.between(dates)
    lacking = ~expected.isin(dates)
    _, lengths = runs(lacking)
    fits = dates.isin(expected).mean() >= MIN_MATCH and lacking.mean() <= 1 - MIN_MATCH
    return calendar if fits and max(lengths, default=0) <= len(calendar.slots) else None


def dates_with_values(panel: Panel) -> pd.DatetimeIndex:
    """The dates at which any series has a value."""
    there = np.isfinite(all_values(panel)).any(axis=1)
    history = ranges(panel.starts, panel.ends)
    places = np.repeat(panel.grid_starts - panel.starts, panel.lengths) + history
    return pd.DatetimeIndex(panel.grid[np.unique(places[np.asarray(there)[history]])])
