"""Local time: the UTC offset of dates, and calendars of rows that are not evenly spaced, such as trading sessions."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int64

from forecast.data.time_features import describe_frequency, find_holidays, name_step, season_length
from forecast.system.errors import ConfigError, DataError

TIME_END = r"(?:\d:\d\d(?:\.\d+)?|T\d\d(?:\d\d){0,2}(?:\.\d+)?)"
"""Pattern of the end of a time, as in 13:00, 13:00:00.5, T13 and T130000."""

OFFSET = r"(?:Z|[+-]\d\d(?::?\d\d)?)"
"""Pattern of the UTC offset after a time, with or without a space between them: Z, +02, -0330 and +05:30."""

MIDNIGHT = r"[T ]00(?::?00)?(?::?00(?:\.0+)?)?$"  # pattern of midnight at the end of a date without a UTC offset

YEARS = (1678, 2261)  # first and last year of dates, which nanoseconds can count


def check_year(setting: str, date: pd.Timestamp) -> None:
    """Raise ConfigError for a date outside of `YEARS`; `setting` is the override that has it."""
    if not YEARS[0] <= date.year <= YEARS[1]:
        possible = f"a year from {YEARS[0]} to {YEARS[1]}"
        raise ConfigError(f"{setting}: {date.year} is not {possible}: give another date")


def format_date(date: pd.Timestamp) -> str:
    """Format a date, with the time and the seconds only if they are not zero; one of a time zone in full."""
    if date.tz is not None:
        return str(date)
    if date == date.normalize():
        return f"{date:%Y-%m-%d}"
    return f"{date:%Y-%m-%d %H:%M}" if date == date.floor("min") else str(date)


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
            is_first = np.ones(len(dates), dtype=bool)
            return dates.tz_localize(self.timezone, ambiguous=is_first, nonexistent="shift_forward")
        utc = pd.DatetimeIndex(dates - pd.Timedelta(minutes=self.minutes))
        return utc.tz_localize("UTC").tz_convert(self.timezone)

    def shown(self, dates: pd.DatetimeIndex) -> pd.DatetimeIndex:
        """The dates of `zoned` without the time zone."""
        return self.zoned(dates).tz_localize(None)

    def describe(self, date: str, *, with_offset: bool = True) -> str:
        """A date of the grid as the source has it, in words."""
        read = self.zoned if with_offset else self.shown
        return str(read(pd.DatetimeIndex([date]))[0])

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
        return self._in_grid(dates.tz_localize(self.timezone, ambiguous=is_first, nonexistent="NaT").dropna())

    def _in_grid(self, zoned: Any) -> Any:
        """Dates of a time zone, or one of them, at the UTC offset of the grid, which is known."""
        assert self.minutes is not None
        return zoned.tz_convert("UTC").tz_localize(None) + pd.Timedelta(minutes=self.minutes)

    def read(self, date: pd.Timestamp) -> pd.Timestamp:
        """The date in the grid of a user's date, which is one of `zoned`.

        Without an offset, it is a local time of the zone as files have it: the local beginning of a step plus `stamp`.
        Of a repeated time, the first one is meant.

        Raises ValueError for a date with an offset where the UTC offset is not known.
        """
        begin = date - self.stamp
        if begin.tz is None:
            if self.timezone is None or self.minutes is None:
                return begin
            begin = begin.tz_localize(self.timezone, ambiguous=True, nonexistent="shift_forward")
        elif self.minutes is None:
            if self.timezone is None:
                raise ValueError("the dates of the data have no UTC offset")
            return date.tz_convert(self.timezone).tz_localize(None) - self.stamp
        return self._in_grid(begin)

    def read_setting(self, setting: str, dates: Sequence[pd.Timestamp]) -> np.ndarray:
        """`read` of the dates of a setting. Raises ConfigError for one with an offset where it is not known."""
        try:
            return np.array([self.read(date).to_datetime64() for date in dates], dtype="datetime64[ns]")
        except ValueError as error:
            raise ConfigError(f"{setting}: leave the offset from UTC out: {error}") from None

    def ahead_of(self, other: "UtcOffset") -> np.timedelta64:
        """The time to subtract from dates at this UTC offset to get those at the other; zero if one is not known.

        Raises DataError where this UTC offset is not known, and the UTC offset of the other's zone changes.
        """
        if other.changes and self == UtcOffset():
            problem = f"the dates have no time zone, and the other dates are of {other.timezone}"
            advice = f"give their zone (data.timezone; of a DataFrame tz_localize({other.timezone!r}))"
            raise DataError(f"{problem}: {advice}")
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
    """Whether a value is None or a time zone that pandas knows."""
    try:
        pd.DatetimeIndex([]).tz_localize(timezone)  # type: ignore[arg-type]
    except Exception:  # zone files that are damaged too
        return False
    return timezone is None or isinstance(timezone, str)


WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
BUSINESS = "business"
RECENT = pd.Timedelta(weeks=8)  # the last part of the dates, which shows the calendar
SESSIONS = 20  # number of the last days whose times of day are the times of a session
MIN_MATCH = 0.75  # least share of the recent dates that lie on the calendar, and of the calendar's dates that are there

MIN_DAYS = 0.25
"""Least share of the recent days of a calendar that was asked for that have a row: fewer may be weeks or months."""

CalendarSetting = str | Sequence[str] | Mapping[str, Any] | None

_CODE = r"[A-Z]{2,5}(-[A-Z0-9]+)?"
_DAY, _WEEK = 86_400, 7 * 86_400  # seconds
_FIRST_MONDAY = 4 * _DAY  # 1970-01-05


@dataclass(frozen=True)
class Calendar:
    """The dates at which rows come, as local times of their time zone (`UtcOffset.local`)."""

    slots: tuple[int, ...] = ()  # seconds from the beginning of Monday to each row of a week, in ascending order
    closed: str | None = None  # code of the country or exchange on whose holidays no row comes; None: none

    @property
    def freq(self) -> str:
        """The step between two rows as a pandas offset alias; it chooses the calendar features."""
        days = self.weekdays
        if len(days) < len(self.slots):
            steps, counts = np.unique(np.diff(self.slots), return_counts=True)
            return name_step(np.timedelta64(int(steps[counts.argmax()]), "s"))
        if len(days) == 1:
            return f"W-{WEEKDAYS[days[0]].upper()}"
        return {(0, 1, 2, 3, 4): "B", (0, 1, 2, 3, 4, 5, 6): "D"}.get(days, "C")

    @property
    def season(self) -> int:
        """Rows of a season: a session, a week of days, or a year of weeks."""
        rows, days = len(self.slots), len(self.weekdays)
        if rows == 1:
            return season_length(self.freq)
        return rows // days if rows > days else rows

    @property
    def weekdays(self) -> tuple[int, ...]:
        return tuple(sorted({slot // _DAY for slot in self.slots}))

    @property
    def periods(self) -> dict[int, str]:
        """Rows in a session, in a week and, where no holidays are left out, in a year, with a name each."""
        week = len(self.slots)
        year = {} if self.closed else {round(365.25 / 7 * week): "a year"}
        return {self.season: "a session", week: "a week"} | year

    def describe(self) -> str:
        """The calendar in words."""
        without = f" without the holidays of {self.closed}" if self.closed else ""
        days = [WEEKDAYS[day] for day in self.weekdays]
        named = "business days" if self.weekdays == (0, 1, 2, 3, 4) else ", ".join(days)
        if len(self.slots) == len(days):
            return named + without
        return f"sessions of {self.season} rows every {describe_frequency(self.freq)} on {named}{without}"

    def after(self, last: pd.Timestamp, steps: int) -> pd.DatetimeIndex:
        """The `steps` dates that follow `last`."""
        begin, weeks = int(last.timestamp()), -(-steps // len(self.slots)) + 1
        while True:
            dates = self._between(begin, begin + weeks * _WEEK)
            dates = pd.DatetimeIndex(dates[dates > last])
            if len(dates) >= steps:
                return dates[:steps]
            weeks *= 2

    def between(self, dates: pd.DatetimeIndex) -> pd.DatetimeIndex:
        """The dates of the calendar from the first to the last of `dates`."""
        seconds = _seconds(dates)
        return self._between(int(seconds[0]), int(seconds[-1]))

    def _between(self, first: int, last: int) -> pd.DatetimeIndex:
        seconds = (np.arange(_monday(first), last + 1, _WEEK)[:, None] + np.array(self.slots)).ravel()
        seconds = seconds[(seconds >= first) & (seconds <= last)]
        dates = pd.DatetimeIndex(seconds.astype("datetime64[s]"))
        if self.closed is None:
            return dates
        closed = find_holidays("data.calendar", self.closed)
        return pd.DatetimeIndex(dates[[date not in closed for date in dates.date]])

    def state_dict(self) -> dict[str, Any]:
        """The calendar in plain values, which `find_calendar` takes."""
        return {**asdict(self), "slots": list(self.slots)}


def find_calendar(where: str, dates: pd.DatetimeIndex, asked: CalendarSetting) -> Calendar:
    """Return the calendar that was asked for (`data.calendar`), else that of the recent dates.

    Args:
        where: the file, for messages.
        dates: in ascending order.
        asked: `business`; weekdays, such as `[Sun, Mon, Tue, Wed, Thu]`; the code of a country or exchange, whose
            weekends and holidays have no rows; the `state_dict` of a calendar. None: the times of the week that have a
            row in most of the last weeks.

    Raises ConfigError for an unknown calendar, and DataError if the dates follow none, or not the one asked for.
    """
    recent = pd.DatetimeIndex(dates[dates > dates[-1] - RECENT])
    calendar = Calendar(_slots(recent)) if asked is None else make_calendar(asked, _times(dates))
    expected = calendar.between(recent)
    last = f"{where}: the last dates, to {dates[-1]},"
    if asked is None and recent.isin(expected).sum() < MIN_MATCH * max(len(recent), len(expected)):
        raise DataError(
            f"{last} have no weekly pattern, so the dates of a forecast are not known: set data.calendar, such as "
            "business, [Mon,Tue,Wed] or XNYS; write dates of months as 2024-01"
        )
    days, of_calendar = (len(each.normalize().unique()) for each in (recent, expected))
    is_other = recent.day_of_week.isin(calendar.weekdays).mean() < MIN_MATCH or days < MIN_DAYS * of_calendar
    if asked is not None and is_other:
        raise DataError(f"{last} are not those of data.calendar: give the calendar of these dates")
    return calendar


def make_calendar(asked: str | Sequence[str] | Mapping[str, Any], times: Sequence[int]) -> Calendar:
    """The calendar that was asked for, with these seconds of the day. Raises ConfigError if there is none."""
    if isinstance(asked, Mapping):
        return _restore(asked)
    days, closed = _chosen_days(asked)
    return Calendar(tuple(day * _DAY + time for day in days for time in times), closed)


def choose_days(trained: Mapping[str, Any], asked: CalendarSetting) -> Mapping[str, Any]:
    """Return the `state_dict` of the calendar of training, on the days that were asked for, at the same times."""
    if asked is None:
        return trained
    times, counts = np.unique(np.array(trained["slots"]) % _DAY, return_counts=True)
    usual = times[2 * counts > len(_restore(trained).weekdays)].tolist()
    return make_calendar(asked, usual).state_dict()


def _restore(state: Mapping[str, Any]) -> Calendar:
    if state.get("step") is not None:
        problem = "the checkpoint's rows are months, whose calendar this version does not read"
        raise DataError(f"{problem}: train again")
    return Calendar(tuple(state["slots"]), state["closed"])


def _chosen_days(asked: str | Sequence[str]) -> tuple[list[int], str | None]:
    """The numbers of the weekdays that were asked for, and the code whose holidays have no rows."""
    if asked == BUSINESS:
        return [0, 1, 2, 3, 4], None
    listed = [asked] if isinstance(asked, str) else asked if isinstance(asked, Sequence) else []
    names = [str(name)[:3].capitalize() for name in listed]
    if names and set(names) <= set(WEEKDAYS):
        return sorted({WEEKDAYS.index(name) for name in names}), None
    if isinstance(asked, str) and re.fullmatch(_CODE, asked):
        return sorted(set(range(7)) - find_holidays("data.calendar", asked).weekend), asked
    advice = "write business, weekdays as [Mon,Tue,Wed], or the code of a country or exchange as DE or XNYS"
    raise ConfigError(f"data.calendar={asked} is no calendar: {advice}")


def _times(dates: pd.DatetimeIndex) -> list[int]:
    """Seconds of the day that most of the last days have a row at, without the last day, which may be incomplete."""
    days, number = np.unique(dates.normalize().to_numpy(), return_inverse=True)
    last = np.arange(len(days)) >= max(0, len(days) - 1 - SESSIONS)
    last[-1] = len(days) == 1
    chosen = dates[last[number]]
    seconds, counts = np.unique((chosen - chosen.normalize()) // pd.Timedelta(seconds=1), return_counts=True)
    return seconds[2 * counts > last.sum()].tolist()


def _slots(dates: pd.DatetimeIndex) -> tuple[int, ...]:
    """Seconds of the week that have a row in most of these weeks; empty if there are less than ten days."""
    seconds = _seconds(dates)
    first, last = int(seconds[0]), int(seconds[-1])
    if last - first < _WEEK + 3 * _DAY:
        return ()
    slots, counts = np.unique((seconds - _FIRST_MONDAY) % _WEEK, return_counts=True)
    possible = np.arange(_monday(first), last + 1, _WEEK)[:, None] + slots
    out_of = ((possible >= first) & (possible <= last)).sum(axis=0)
    return tuple(slots[2 * counts > out_of].tolist())


def _seconds(dates: pd.DatetimeIndex) -> Int64[np.ndarray, " dates"]:
    """Seconds since 1970."""
    return dates.to_numpy().astype("datetime64[s]").astype(np.int64)


def _monday(second: int) -> int:
    """The beginning of the week, in seconds since 1970."""
    return second - (second - _FIRST_MONDAY) % _WEEK
