"""Calendars of rows that are not evenly spaced, such as business days and trading sessions."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int64

from forecast.data.time_features import (
    code_of,
    date_range,
    describe_frequency,
    find_holidays,
    infer_calendar_step,
    name_step,
    parse_frequency,
    season_length,
)
from forecast.system.errors import ConfigError, DataError

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
BUSINESS = "business"
STEPS = ("MS", "ME", "BMS", "BME", "QS", "QE", "BQS", "BQE", "YS", "YE", "BYS", "BYE")
STEPS += ("M", "SMS", "SME", "WOM", "LWOM")
"""Names, without anchors such as those of M-15 and YE-JUN, of steps that are calendars too."""
MAX_SHIFT = pd.Timedelta(days=6)
"""Longest time between a row and its date of a step, such as between the last trading day and the end of a month."""

RECENT = pd.Timedelta(weeks=8)
"""The last part of the dates, which shows the calendar."""
SESSIONS = 20
"""Number of the last days whose times of day are the times of a session."""
MIN_MATCH = 0.75
"""Least share of the recent dates that lie on the calendar, and of the calendar's dates that are there."""

CalendarSetting = str | Sequence[str] | Mapping[str, Any] | None

_CODE = r"[A-Z]{2,5}(-[A-Z0-9]+)?"
_DAY, _WEEK = 86_400, 7 * 86_400  # seconds
_FIRST_MONDAY = 4 * _DAY  # 1970-01-05


@dataclass(frozen=True)
class Calendar:
    """The dates at which rows come, as local times of their time zone (`UtcOffset.local`).

    Attributes:
        slots: seconds from the beginning of Monday to each row of a week, in ascending order. Empty with `step`.
        closed: code of the country or exchange on whose holidays no row comes; None: none.
        step: step between rows of a month or longer, as a pandas offset alias.
    """

    slots: tuple[int, ...] = ()
    closed: str | None = None
    step: str | None = None

    @property
    def freq(self) -> str:
        """The step between two rows as a pandas offset alias; it chooses the calendar features."""
        if self.step is not None:
            return self.step
        days = self._weekdays
        if len(days) < len(self.slots):
            steps, counts = np.unique(np.diff(self.slots), return_counts=True)
            return name_step(np.timedelta64(int(steps[counts.argmax()]), "s"))
        if len(days) == 1:
            return f"W-{WEEKDAYS[days[0]].upper()}"
        return {(0, 1, 2, 3, 4): "B", (0, 1, 2, 3, 4, 5, 6): "D"}.get(days, "C")

    @property
    def season(self) -> int:
        """Rows of a season: a session, else a week of days, else the season of the step."""
        if self.step is not None or len(self.slots) == 1:
            return season_length(self.freq)
        rows = len(self.slots)
        return rows // len(self._weekdays) if rows > len(self._weekdays) else rows

    @property
    def setting(self) -> str:
        """A value of `data.calendar` for these days."""
        if self.step is not None:
            return self.step
        days = ",".join(WEEKDAYS[day] for day in self._weekdays)
        return self.closed or (BUSINESS if self._weekdays == (0, 1, 2, 3, 4) else f"[{days}]")

    @property
    def _weekdays(self) -> tuple[int, ...]:
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
        if self.step is not None:
            return f"one row every {describe_frequency(self.step)}"
        days = [WEEKDAYS[day] for day in self._weekdays]
        named = "business days" if self._weekdays == (0, 1, 2, 3, 4) else ", ".join(days)
        if len(self.slots) == len(days):
            return named + without
        return f"sessions of {self.season} rows every {describe_frequency(self.freq)} on {named}{without}"

    def after(self, last: pd.Timestamp, steps: int) -> pd.DatetimeIndex:
        """The `steps` dates that follow `last`."""
        if self.step is not None:
            return date_range(self._date_of(last), periods=steps + 1, freq=self.step)[1:]
        begin, weeks = int(last.timestamp()), -(-steps // len(self.slots)) + 1
        while True:
            dates = self._between(begin, begin + weeks * _WEEK)
            dates = pd.DatetimeIndex(dates[dates > last])
            if len(dates) >= steps:
                return dates[:steps]
            weeks *= 2

    def _date_of(self, row: pd.Timestamp) -> pd.Timestamp:
        """The date of the step for a row on any day of its period, such as its last business day."""
        assert self.step is not None
        if code_of(parse_frequency(self.step)).endswith("S"):
            return date_range(end=row, periods=1, freq=self.step)[0]  # type: ignore[return-value]
        return date_range(row, periods=1, freq=self.step)[0]  # type: ignore[return-value]

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

    def fits(self, dates: pd.DatetimeIndex) -> bool:
        """Whether most recent dates lie on the calendar, and most dates of the calendar are there."""
        recent = _recent(dates)
        expected = self.between(recent)
        there = recent.isin(expected).sum()
        return bool(there >= MIN_MATCH * len(recent) and there >= MIN_MATCH * len(expected))

    def can_continue(self, rows: pd.DatetimeIndex) -> bool:
        """Whether the calendar can date what follows these rows.

        Most of the last rows lie on its weekdays, or beside most of the last dates of its step.
        """
        if self.step is None:
            return bool(_recent(rows).day_of_week.isin(self._weekdays).mean() >= MIN_MATCH)
        rows = rows[-SESSIONS:]
        dates = [self._date_of(row) for row in rows]
        near = sum(abs(date - row) <= MAX_SHIFT for date, row in zip(dates, rows, strict=True))
        expected = len(date_range(dates[0], dates[-1], freq=self.step))
        return near >= MIN_MATCH * len(rows) and len({*dates}) >= MIN_MATCH * expected

    def state_dict(self) -> dict[str, Any]:
        """The calendar in plain values, which `find_calendar` takes."""
        return {**asdict(self), "slots": list(self.slots)}


def find_calendar(where: str, dates: pd.DatetimeIndex, asked: CalendarSetting) -> Calendar:
    """Return the calendar that was asked for (`data.calendar`), else that of the recent dates.

    Args:
        where: the file, for messages.
        dates: in ascending order.
        asked: `business`; weekdays, such as `[Sun, Mon, Tue, Wed, Thu]`; the code of a country or exchange, whose
            weekends and holidays have no rows; a step whose name is one of `STEPS`; the `state_dict` of a calendar.
            None: the times of the week that have a row in most of the last weeks, or such a step.

    Raises:
        ConfigError: an unknown calendar.
        DataError: no calendar was asked for, and the dates follow none; or they lie on other days than it has.
    """
    if asked is None:
        found = _infer_calendar(dates)
        if found is None:
            raise DataError(
                f"{where}: the last dates, to {dates[-1]}, have no weekly or monthly pattern, so the dates of a "
                "forecast are not known: set data.calendar, such as business, [Mon,Tue,Wed], XNYS or ME"
            )
        return found
    calendar = make_calendar(asked, dates)
    if not calendar.can_continue(dates):
        found = _infer_calendar(dates)
        advice = f"set data.calendar={found.setting}" if found else "give the calendar of these dates"
        raise DataError(
            f"{where}: the last dates, to {dates[-1]}, are not those of data.calendar={calendar.setting}: {advice}"
        )
    return calendar


def make_calendar(asked: str | Sequence[str] | Mapping[str, Any], dates: pd.DatetimeIndex) -> Calendar:
    """The calendar that was asked for, with the times of these dates. Raises ConfigError if there is none."""
    if isinstance(asked, Mapping):
        return _restore(asked)
    if isinstance(asked, str) and _is_step(asked):
        return Calendar(step=asked)
    days, closed = _chosen_days(asked)
    return Calendar(tuple(day * _DAY + time for day in days for time in _times(dates)), closed)


def _infer_calendar(dates: pd.DatetimeIndex) -> Calendar | None:
    """The calendar that the recent dates follow; None if there is none."""
    found = Calendar(_slots(dates))
    if found.slots and found.fits(dates):
        return found
    step = infer_calendar_step(dates)
    return Calendar(step=step) if step is not None and _is_step(step) else None


def _is_step(name: str) -> bool:
    """Whether a text is the name of a step that is a calendar."""
    if name.lstrip("0123456789").split("-")[0] not in STEPS:
        return False
    try:
        parse_frequency(name)
    except ConfigError:
        return False
    return True


def choose_days(trained: Mapping[str, Any], asked: CalendarSetting) -> Mapping[str, Any]:
    """Return the `state_dict` of the calendar of training, on the days that were asked for, at the same times."""
    if asked is None:
        return trained
    calendar = replace(_restore(trained), closed=None)
    first = pd.DatetimeIndex(["2001-01-01"]).to_list()[0]  # any Monday
    weeks = calendar.after(first, 4 * max(7, len(calendar.slots)))
    return make_calendar(asked, weeks).state_dict()


def _restore(state: Mapping[str, Any]) -> Calendar:
    return Calendar(**{**state, "slots": tuple(state["slots"])})


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
    raise ConfigError(
        f"data.calendar={asked} is no calendar: write business, weekdays as [Mon,Tue,Wed], the code of a country or "
        f"exchange as DE or XNYS, or a step as ME, QS, YE-JUN or M-15"
    )


def _times(dates: pd.DatetimeIndex) -> list[int]:
    """Seconds of the day that most of the last days have a row at, without the last day, which may be incomplete."""
    days, number = np.unique(dates.normalize().to_numpy(), return_inverse=True)
    last = np.arange(len(days)) >= max(0, len(days) - 1 - SESSIONS)
    last[-1] = len(days) == 1
    chosen = dates[last[number]]
    seconds, counts = np.unique((chosen - chosen.normalize()) // pd.Timedelta(seconds=1), return_counts=True)
    return seconds[2 * counts > last.sum()].tolist()


def _slots(dates: pd.DatetimeIndex) -> tuple[int, ...]:
    """Seconds of the week that have a row in most of the last weeks; empty if there are less than ten days."""
    seconds = _seconds(_recent(dates))
    first, last = int(seconds[0]), int(seconds[-1])
    if last - first < _WEEK + 3 * _DAY:
        return ()
    slots, counts = np.unique((seconds - _FIRST_MONDAY) % _WEEK, return_counts=True)
    possible = np.arange(_monday(first), last + 1, _WEEK)[:, None] + slots
    out_of = ((possible >= first) & (possible <= last)).sum(axis=0)
    return tuple(slots[2 * counts > out_of].tolist())


def _recent(dates: pd.DatetimeIndex) -> pd.DatetimeIndex:
    return pd.DatetimeIndex(dates[dates > dates[-1] - RECENT])


def _seconds(dates: pd.DatetimeIndex) -> Int64[np.ndarray, " dates"]:
    """Seconds since 1970."""
    return dates.to_numpy().astype("datetime64[s]").astype(np.int64)


def _monday(second: int) -> int:
    """The beginning of the week, in seconds since 1970."""
    return second - (second - _FIRST_MONDAY) % _WEEK
