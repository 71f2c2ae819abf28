"""Columns of dates: texts that look like dates, and dates in several columns, such as a year, a month and a day."""

import re
import warnings
from collections.abc import Sequence

import numpy as np
import pandas as pd
from pandas.tseries.api import guess_datetime_format

NO_TIME = np.timedelta64(0, "ns")

_NAMES = {
    "year": ("year", "yr", "yyyy"),
    "quarter": ("quarter", "qtr", "q"),
    "month": ("month", "mon", "mnth"),
    "week": ("week", "wk", "weekno", "weeknumber", "weekofyear", "isoweek"),
    "day": ("day", "dayofmonth", "dy"),
    "hour": ("hour", "hours", "hr", "hourofday"),
    "minute": ("minute", "minutes"),
    "second": ("second", "seconds"),
}
"""By part of a date, the names of a column of its number, in lower case and without signs."""

WEEK = r"(?:\d{4}[ -]?[Ww]\d{1,2}(?:[ -]?[1-7])?|[Ww]\d{1,2}[ -]?\d{4})"
"""A week of ISO 8601, such as 2016-W01, perhaps with the number of its day."""

QUARTER = r"^(?:\d{4}[ -]?)?[Qq][1-4](?:[ -]?\d{4})?$"
MONTHS = {
    r"[A-Za-z]{3}([ -])\d{4}": "%b{}%Y",
    r"[A-Za-z]{4,}([ -])\d{4}": "%B{}%Y",
    r"\d{1,2}([/.])\d{4}": "%m{}%Y",
}
"""Patterns of months and years that pandas does not guess, and their formats."""

SHORT_YEAR = r"0?[1-9]\d?([-/.])0?[1-9]\d?\1\d{2}(?!\d)(.*)"
"""A date whose year has two digits, or that begins with such a year."""

_DATE = re.compile(
    r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(\D.*)?|(1[6-9]|2[0-2])\d\d-(0[1-9]|1[0-2])|.*[A-Za-z]{3}.*\d.*"
)
"""Dates, months such as 1920-01, and texts with the name of a month."""


def is_date(text: str) -> bool:
    """Whether a cell, or the name of a column, looks like a date."""
    text = text.strip().replace(" 24:", " 00:")
    if re.fullmatch(WEEK, text):
        return True
    if not _DATE.fullmatch(text):
        return False
    with warnings.catch_warnings(action="ignore"):
        return has_short_year(text) or any(
            guess_datetime_format(text, dayfirst=dayfirst) for dayfirst in (False, True)
        )


def names_period(text: str) -> bool:
    """Whether the name of a column is a date, or a year, quarter or month: 1960, 1980Q1, Jan 2005, 01/2005."""
    text = text.strip()
    patterns = (r"(1[6-9]|20|21)\d\d", QUARTER, *MONTHS)
    return any(re.fullmatch(pattern, text) for pattern in patterns) or is_date(text)


def has_short_year(text: str) -> bool:
    """Whether a date has a year of two digits, such as 1/12/17."""
    return re.fullmatch(SHORT_YEAR, text) is not None


def date_name(date_column: str | Sequence[str]) -> str:
    """Return the name of the date column in the cells that were read."""
    return date_column if isinstance(date_column, str) else " ".join(map(str, date_column))


def split_dates(
    dates: pd.DatetimeIndex, names: Sequence[str], *, stamp: np.timedelta64 = NO_TIME
) -> pd.DataFrame:
    """Return columns of these names from which the dates are read again, as `data.date_column` names them.

    Columns that are named after the parts of a date hold numbers. Two others hold days and times of day. If the names
    do not say what other columns hold, there is one column `date`. Dates that lie `stamp` after the beginnings of their
    steps are written as local beginnings plus `stamp`: where clocks go back, the hours 1, 2, 2, 3. Their hours count
    from 1 to 24.
    """
    parts, are_ends = find_parts(names), bool(stamp)
    if are_ends:
        dates = pd.DatetimeIndex((dates - stamp).tz_localize(None) + stamp)
    days, hours = dates, dates.hour
    if are_ends and parts[-1] == "hour":
        is_midnight = np.asarray(hours == 0)
        days, hours = (
            dates - pd.to_timedelta(is_midnight.astype(int), unit="D"),
            hours.where(~is_midnight, 24),
        )
    if "year" in parts and None not in parts:
        of_weeks = dict(days.isocalendar()) if "week" in parts else {}  # whose years differ around New Year
        columns = {
            name: hours if part == "hour" else of_weeks.get(part, getattr(days, str(part), None))
            for name, part in zip(names, parts, strict=True)
        }
    elif len(names) == 2:
        times = hours if parts[1] == "hour" else dates.strftime("%H:%M:%S")
        columns = {names[0]: days.strftime("%Y-%m-%d"), names[1]: times}
    else:
        columns = {"date": dates}
    return pd.DataFrame({name: list(column) for name, column in columns.items()})  # type: ignore[arg-type]


def find_parts(names: Sequence[str]) -> list[str | None]:
    """The part of a date that each of several columns holds; beside a year, mm is a month unless it follows an hour."""
    parts = [find_part(name) for name in names]
    for number, name in enumerate(names):
        if name.lower() == "mm" and "year" in parts and "month" not in parts and "hour" not in parts[:number]:
            parts[number] = "month"
    return parts


def find_part(name: str) -> str | None:
    """The part of a date that a column of this name holds; None: not known."""
    plain = re.sub("[^a-z]", "", name.lower())
    return next((part for part, names in _NAMES.items() if plain in names), None)


def mark_periods(name: str, texts: pd.Series) -> pd.Series:
    """A column of a part of the dates; the numbers of quarters as Q1 to Q4, and of weeks as W1 to W53."""
    sign, texts = {"quarter": "Q", "week": "W"}.get(find_part(name) or ""), texts.str.strip()
    return texts if sign is None else sign + texts.str.upper().str.removeprefix(sign)
