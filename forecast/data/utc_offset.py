"""The UTC offset of the dates of a grid, and the time zone of their source."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from forecast.system.errors import ConfigError, DataError

TIME_END = r"(?:\d:\d\d(?:\.\d+)?|T\d\d(?:\d\d){0,2}(?:\.\d+)?)"
"""Pattern of the end of a time, as in 13:00, 13:00:00.5, T13 and T130000."""

OFFSET = r"(?:Z|[+-]\d\d(?::?\d\d)?)"
"""Pattern of the UTC offset after a time, with or without a space between them: Z, +02, -0330 and +05:30."""

MIDNIGHT = r"[T ]00(?::?00)?(?::?00(?:\.0+)?)?$"
"""Pattern of midnight at the end of a date without a UTC offset."""

YEARS = (1678, 2261)
"""First and last year of dates, which nanoseconds can count."""


def check_year(setting: str, date: pd.Timestamp) -> None:
    """Raise ConfigError for a date outside of `YEARS`; `setting` is the override that has it."""
    if not YEARS[0] <= date.year <= YEARS[1]:
        raise ConfigError(
            f"{setting}: {date.year} is not a year from {YEARS[0]} to {YEARS[1]}: give another date"
        )


@dataclass(frozen=True)
class UtcOffset:
    """The UTC offset of a grid of dates, and the time zone of their source.

    Attributes:
        minutes: minutes by which the dates are ahead of UTC; None where the source does not say it, and for days.
        timezone: zone of the dates in the source, such as Europe/Berlin or UTC+02:00; None if it is not known.
        day_first: whether the dates of the source are written with the day before the month, as in 31/12/2024; None
            where they do not show it. It does not change what the dates mean.
        stamp: time from the beginning of a step, which is its date in the grid, to its date in the source: one step
            with `data.stamp=end`, else zero.
    """

    minutes: int | None = None
    timezone: str | None = None
    day_first: bool | None = field(default=None, compare=False)
    stamp: np.timedelta64 = field(default=np.timedelta64(0, "ns"), compare=False)

    @property
    def state(self) -> dict[str, Any]:
        """The values that a checkpoint or a store saves, from which `utc_offset_of` reads the UTC offset."""
        return {
            "utc_offset": self.minutes,
            "timezone": self.timezone,
            "day_first": self.day_first,
            "stamp": int(self.stamp / np.timedelta64(1, "ns")),
        }

    @property
    def changes(self) -> bool:
        """Whether the UTC offset of the zone may change within the data, which are then in UTC."""
        return self.minutes == 0 and self.timezone not in (None, "UTC")

    def zoned(self, dates: pd.DatetimeIndex) -> pd.DatetimeIndex:
        """The dates as the source has them: in its time zone if it is known, and at the ends of steps with `stamp`."""
        dates = pd.DatetimeIndex(dates + self.stamp) if self.stamp else dates
        if self.timezone is None:
            return dates
        if self.minutes is None:  # days
            return dates.tz_localize(
                self.timezone, ambiguous=np.ones(len(dates), dtype=bool), nonexistent="shift_forward"
            )
        utc = pd.DatetimeIndex(dates - pd.Timedelta(minutes=self.minutes))
        return utc.tz_localize("UTC").tz_convert(self.timezone)

    def shown(self, dates: pd.DatetimeIndex) -> pd.DatetimeIndex:
        """The dates of `zoned` without the time zone."""
        return self.zoned(dates).tz_localize(None)

    def describe(self, date: str, *, with_offset: bool = True) -> str:
        """A date of the grid as the source has it, in words."""
        dates = pd.DatetimeIndex([date])
        return str((self.zoned(dates) if with_offset else self.shown(dates))[0])

    def local(self, dates: pd.DatetimeIndex) -> pd.DatetimeIndex:
        """The beginnings of steps as clocks and calendars of the zone show them; unchanged for days."""
        if self.timezone is None or self.minutes is None:
            return dates
        return replace(self, stamp=np.timedelta64(0, "ns")).shown(dates)

    def from_local(self, dates: pd.DatetimeIndex) -> pd.DatetimeIndex:
        """The dates of the grid at these local times of the zone, as `local` gives them.

        Times that clocks skip are left out; of a repeated time, the first one is meant.
        """
        if self.timezone is None or self.minutes is None:
            return dates
        is_first = np.ones(len(dates), dtype=bool)
        zoned = dates.tz_localize(self.timezone, ambiguous=is_first, nonexistent="NaT").dropna()
        return pd.DatetimeIndex(
            zoned.tz_convert("UTC").tz_localize(None) + pd.Timedelta(minutes=self.minutes)
        )

    def read(self, date: pd.Timestamp) -> pd.Timestamp:
        """The date in the grid of a user's date, which is one of `zoned`.

        Without an offset, it is a local time of the zone as files have it: the local beginning of a step plus `stamp`.
        Of a repeated time, the first one is meant.

        Raises ValueError for a date with an offset where the UTC offset is not known.
        """
        if date.tz is None:
            if self.timezone is None or self.minutes is None:
                return date - self.stamp
            begin = (date - self.stamp).tz_localize(
                self.timezone, ambiguous=True, nonexistent="shift_forward"
            )
            return begin.tz_convert("UTC").tz_localize(None) + pd.Timedelta(minutes=self.minutes)  # type: ignore[return-value]
        if self.minutes is None:
            if self.timezone is None:
                raise ValueError("the dates of the data have no UTC offset")
            return date.tz_convert(self.timezone).tz_localize(None) - self.stamp
        return date.tz_convert("UTC").tz_localize(None) + pd.Timedelta(minutes=self.minutes) - self.stamp  # type: ignore[return-value]

    def ahead_of(self, other: "UtcOffset") -> np.timedelta64:
        """The time to subtract from dates at this UTC offset to get those at the other; zero if one is not known.

        Raises DataError where this UTC offset is not known, and the UTC offset of the other's zone changes.
        """
        if other.changes and self == UtcOffset():
            raise DataError(
                f"the dates have no time zone, and the other dates are of {other.timezone}: give their zone "
                f"(data.timezone; of a DataFrame tz_localize({other.timezone!r}))"
            )
        if self.minutes is None or other.minutes is None:
            return np.timedelta64(0, "m")
        return np.timedelta64(self.minutes - other.minutes, "m")


def utc_offset_of(state: Mapping[str, Any] | None) -> UtcOffset:
    """The UTC offset whose `state` a checkpoint saves beside its scaler, or a store in its description."""
    if state is None:
        return UtcOffset()
    stamp = np.timedelta64(state.get("stamp") or 0, "ns")
    return UtcOffset(state.get("utc_offset"), state.get("timezone"), state.get("day_first"), stamp)


def is_zone(timezone: object) -> bool:
    """Return whether a value is None or a time zone that pandas knows."""
    try:
        pd.DatetimeIndex([]).tz_localize(timezone)  # type: ignore[arg-type]
    except Exception:  # zone files that are damaged too
        return False
    return timezone is None or isinstance(timezone, str)
