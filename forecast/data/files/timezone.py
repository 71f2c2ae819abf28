"""Conversion of local times with daylight saving time to UTC, in which no hour is repeated or skipped."""

import warnings
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int32

from forecast.data.files.cells import Cells
from forecast.system.errors import ConfigError

_HOUR = np.timedelta64(1, "h")


def to_utc(
    cells: Cells,
    column: str,
    dates: pd.DatetimeIndex,
    timezone: str,
    series: Int32[np.ndarray, " rows"],
) -> pd.DatetimeIndex:
    """Convert local times of a zone, such as `Europe/Berlin`, to UTC; the result has no time zone.

    When clocks go back, an hour is repeated: the rows of a series are in summer time up to the first one that does
    not come after the row above it. Dates without a time of day are days and stay unchanged.

    Raises:
        ConfigError: the zone is not known.
        DataError: a time that the zone's clocks skip.
    """
    try:
        zone = ZoneInfo(timezone)
    except (ValueError, OSError, KeyError):
        raise ConfigError(f"data.timezone={timezone!r} is not a zone: write one as Europe/Berlin") from None
    if is_days(dates):
        return dates
    skipped = dates.tz_localize(zone, ambiguous=np.ones(len(dates), dtype=bool), nonexistent="NaT").isna()
    if skipped.any():
        row = int(skipped.argmax())
        message = (
            f"{dates[row]} does not exist in {timezone}, where clocks go forward: leave data.timezone out if the "
            "file keeps one time all year, or set data.stamp=end if dates are the ends of steps"
        )
        raise cells.refuse(message, row=row, column=column)
    order = np.argsort(series, kind="stable")
    is_summer = np.empty(len(dates), dtype=bool)
    is_summer[order] = _is_summer(dates[order], series[order], zone)
    local = dates.tz_localize(zone, ambiguous=is_summer)
    return local.tz_convert("UTC").tz_localize(None)


def _is_summer(
    dates: pd.DatetimeIndex, series: Int32[np.ndarray, " rows"], zone: ZoneInfo
) -> Bool[np.ndarray, " rows"]:
    """Return True for the first of two equal local times, False for the second; other rows have no meaning.

    The rows of a series follow each other.
    """
    twice = dates.tz_localize(zone, ambiguous="NaT", nonexistent="NaT").isna()
    begins = np.diff(series, prepend=series[:1]) != 0
    number = np.cumsum((np.diff(twice, prepend=False) | begins) & twice)  # of the run of such times, from 1
    went_back = ~begins & (np.diff(dates.to_numpy(), prepend=dates.to_numpy()[:1] - 1) <= np.timedelta64(0))
    second = pd.Series(went_back & twice).groupby(number).cummax().to_numpy()
    return ~second


def is_days(dates: pd.DatetimeIndex) -> bool:
    """Return whether all dates are at midnight."""
    return bool((dates == dates.normalize()).all())


def minutes_ahead(offset: str) -> int:
    """Return the minutes of a UTC offset such as Z, +02, -0330 or +05:30."""
    if offset == "Z":
        return 0
    digits = offset[1:].replace(":", "").ljust(4, "0")
    return int(f"{offset[0]}1") * (60 * int(digits[:2]) + int(digits[2:]))


def looks_repeated(date: pd.Timestamp) -> bool:
    """Return whether a date may be in the hour that clocks repeat in autumn: a night of a weekend in some months."""
    return date.hour <= 4 and date.weekday() >= 4 and date.month in (3, 4, 9, 10, 11)


def looks_skipped(before: pd.Timestamp, after: pd.Timestamp, step: pd.offsets.BaseOffset) -> bool:
    """Return whether the gap between two dates may be the hour that clocks skip in spring: one hour at night."""
    if not isinstance(step, pd.offsets.Tick):
        return False
    return bool(after - before == _HOUR + np.timedelta64(step.nanos, "ns")) and after.hour <= 4


def without_zone(where: object, dates: pd.DatetimeIndex) -> tuple[pd.DatetimeIndex, int | None]:
    """Remove the time zone from dates and return them with their UTC offset in minutes.

    Dates become local times if the offset is the same in all of them, else UTC, with a warning that names `where`. The
    offset is None for dates without a zone and for days.
    """
    if dates.tz is None or is_days(dates):
        return dates.tz_localize(None), None
    if not has_one_offset(dates):
        warn_of_offsets(where)
        return dates.tz_convert(None), 0
    local = dates.tz_localize(None)
    ahead = local[:1].to_numpy() - dates[:1].tz_convert(None).to_numpy()
    return local, int(ahead[0] / np.timedelta64(1, "m")) if len(ahead) else None


def to_move(clock: int | None, other: int | None) -> np.timedelta64:
    """Return the time to add to dates of one UTC offset to get the other; zero if one of the two is None."""
    return np.timedelta64(0 if clock is None or other is None else other - clock, "m")


def has_one_offset(dates: pd.DatetimeIndex) -> bool:
    """Return whether all dates of a time zone have the same UTC offset."""
    offsets = dates.tz_localize(None).to_numpy() - dates.tz_convert(None).to_numpy()
    return not len(offsets) or bool((offsets == offsets[0]).all())


def warn_of_offsets(where: object) -> None:
    """Warn that dates with a changing UTC offset are read as UTC."""
    warnings.warn(f"{where}: the offset from UTC changes, so dates are read as UTC", stacklevel=3)
