"""Local times with daylight saving time: their conversion to UTC, in which no hour is repeated or skipped."""

from dataclasses import replace
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int32

from forecast.data.calendars import UtcOffset
from forecast.data.files.cells import Cells
from forecast.data.files.read_options import ReadOptions
from forecast.data.time_features import date_range
from forecast.system.errors import ConfigError, Remedy

NO_TIME = np.timedelta64(0, "ns")
Codes = Int32[np.ndarray, " rows"]
"""Of each row, the number of its series."""


def place_in_time(
    cells: Cells,
    column: str,
    dates: pd.DatetimeIndex,
    utc_offset: UtcOffset,
    options: ReadOptions,
    series: Codes,
) -> tuple[pd.DatetimeIndex, UtcOffset]:
    """Apply `stamp`, and to dates of an unknown UTC offset `timezone`; return them with their UTC offset.

    Local times move by `stamp` before they become UTC: the hour that ends at 02:00 twice in autumn begins at 01:00
    twice.
    """
    step = _find_step(dates, series, options) if options.stamp == "end" else NO_TIME
    dates = pd.DatetimeIndex(dates - step) if step else dates
    if utc_offset == UtcOffset() and options.timezone is not None:
        utc_offset = UtcOffset(None if is_days(dates) else 0, options.timezone)
        dates = _to_utc(cells, column, dates, options.timezone, series, are_ends=bool(step))
    return dates, replace(utc_offset, stamp=step)


def _find_step(dates: pd.DatetimeIndex, series: Codes, options: ReadOptions) -> np.timedelta64:
    """The step of dates that are the ends of their steps: `freq`, or the most common one.

    Raises ConfigError for steps of more than a day, and for too few dates to tell the step.
    """
    if options.freq is not None:
        first, second = date_range(pd.Timestamp("2001-01-01"), periods=2, freq=options.freq).to_numpy()
        step = second - first
    else:
        steps = _steps(dates, series)
        lengths, counts = np.unique(steps[steps > NO_TIME], return_counts=True)
        if not len(lengths):
            raise ConfigError("data.stamp=end: too few dates to tell the step between them: set data.freq")
        step = lengths[counts.argmax()]
    if step > np.timedelta64(1, "D"):
        raise ConfigError("data.stamp=end is for steps of a day or less: leave it out")
    return step


def _to_utc(
    cells: Cells, column: str, dates: pd.DatetimeIndex, timezone: str, series: Codes, *, are_ends: bool
) -> pd.DatetimeIndex:
    """Convert local times of a zone, such as `Europe/Berlin`, to UTC; the result has no time zone.

    When clocks go back, an hour is repeated. In this hour, the rows of a series are in summer time until a row is not
    later than the row before it; of rows from newest to oldest, the order is reversed first. Where several rows of a
    series have one date, only an earlier date begins the second hour; if the hour has one date, half of its rows are in
    summer time. Dates without a time of day are days and stay unchanged.

    `are_ends`: the dates of the file are ends of steps. Raises ConfigError for a zone that is not known, and DataError
    for a time that the zone's clocks skip.
    """
    try:
        zone = ZoneInfo(timezone)
    except (ValueError, OSError, KeyError):
        raise ConfigError(f"data.timezone={timezone!r} is not a zone: write one as Europe/Berlin") from None
    if is_days(dates):
        return dates
    if (skipped := are_skipped(dates, zone)).any():
        row = int(skipped.argmax())
        message = (
            f"{dates[row]} does not exist in {timezone}, where clocks go forward: leave data.timezone out if the "
            "file keeps one time all year"
        )
        remedies = [] if are_ends else [Remedy({"stamp": "end"}, " if dates are the ends of steps")]
        raise cells.error(message, row=row, column=column, remedies=remedies, joint=", or ")
    order = np.argsort(series, kind="stable")
    if np.sign(_steps(dates, series).astype(np.int64)).sum() < 0:  # from newest to oldest
        order = len(series) - 1 - np.argsort(series[::-1], kind="stable")
    is_summer = np.empty(len(dates), dtype=bool)
    is_summer[order] = _is_summer(dates[order], series[order], zone)
    return dates.tz_localize(zone, ambiguous=is_summer).tz_convert("UTC").tz_localize(None)


def _steps(dates: pd.DatetimeIndex, series: Codes) -> np.ndarray:
    """Return the differences of consecutive dates within each series."""
    order = np.argsort(series, kind="stable")
    return np.diff(dates.to_numpy()[order])[np.diff(series[order]) == 0]


def _is_summer(dates: pd.DatetimeIndex, series: Codes, zone: ZoneInfo) -> Bool[np.ndarray, " rows"]:
    """Return True for the first of two equal local times, False for the second; other rows have no meaning.

    The rows of a series follow each other, from oldest to newest.
    """
    twice = are_repeated(dates, zone)
    begins = np.diff(series, prepend=series[:1]) != 0
    number = np.cumsum((np.diff(twice, prepend=False) | begins) & twice)  # of the run of such times, from 1
    steps = np.diff(dates.to_numpy(), prepend=dates.to_numpy()[:1] - 1)
    is_equal = ~begins & (steps == NO_TIME)
    went_back = ~begins & (steps < NO_TIME)
    several = bool((is_equal & ~twice).any())  # rows of one date
    second = np.zeros(len(dates), dtype=bool)
    went_back = pd.Series((went_back if several else went_back | is_equal)[twice])
    second[twice] = went_back.groupby(number[twice]).cummax()
    if several:
        runs = pd.Series(dates.to_numpy()[twice]).groupby(number[twice])
        is_late = 2 * runs.cumcount() >= runs.transform("size")
        second[twice] |= (is_late & (runs.transform("nunique") == 1)).to_numpy()
    return ~second


ZONES = (
    "Europe/Berlin", "Europe/London", "Europe/Athens", "America/New_York", "America/Sao_Paulo", "America/Santiago",
    "Australia/Sydney", "Pacific/Auckland", "Asia/Tehran", "Asia/Jerusalem",
)  # fmt: skip
"""One zone for each set of rules by which local clocks change, or changed in the last decades."""


def are_skipped(dates: pd.DatetimeIndex, zone: ZoneInfo | str) -> Bool[np.ndarray, " dates"]:
    """Whether the clocks of a zone skip each local time."""
    is_summer = np.ones(len(dates), dtype=bool)
    return np.asarray(dates.tz_localize(zone, ambiguous=is_summer, nonexistent="NaT").isna())


def are_repeated(dates: pd.DatetimeIndex, zone: ZoneInfo | str) -> Bool[np.ndarray, " dates"]:
    """Whether the clocks of a zone show each local time twice."""
    return np.asarray(dates.tz_localize(zone, ambiguous="NaT", nonexistent="shift_forward").isna())


def is_days(dates: pd.DatetimeIndex) -> bool:
    """Return whether all dates are at midnight."""
    return bool((dates == dates.normalize()).all())


def without_zone(dates: pd.DatetimeIndex) -> tuple[pd.DatetimeIndex, UtcOffset]:
    """Remove the time zone from dates and return them with their UTC offset.

    Dates become local times if the offset is the same in all of them, else UTC. Days stay days.
    """
    if dates.tz is None:
        return dates, UtcOffset()
    zone, local = str(dates.tz), dates.tz_localize(None)
    if is_days(dates):
        return local, UtcOffset(None, zone)
    if not has_one_offset(dates):
        return dates.tz_convert(None), UtcOffset(0, zone)
    ahead = local[:1].to_numpy() - dates[:1].tz_convert(None).to_numpy()
    return local, UtcOffset(int(ahead[0] / np.timedelta64(1, "m")) if len(ahead) else None, zone)


def has_one_offset(dates: pd.DatetimeIndex) -> bool:
    """Return whether all dates of a time zone have the same UTC offset."""
    offsets = dates.tz_localize(None).to_numpy() - dates.tz_convert(None).to_numpy()
    return not len(offsets) or bool((offsets == offsets[0]).all())
