"""The format of the texts of dates, found from the texts alone."""

import re
import warnings
from collections.abc import Sequence
from typing import Any

import pandas as pd
from pandas.tseries.api import guess_datetime_format

from forecast.data.files.cells import Cells, quote
from forecast.data.files.date_columns import MONTHS, QUARTER, SHORT_YEAR, has_short_year
from forecast.data.utc_offset import YEARS
from forecast.system.errors import Remedy

_QUARTER = r"^(?:(?P<year>\d{4})[ -]?)?[Qq](?P<quarter>[1-4])(?:[ -]?(?P<year_after>\d{4}))?$"
_OVER_12, _NUMBER, _SIGN = r"(?:1[3-9]|2\d|3[01])", r"\d{1,2}", "[-/. ]"
_DAY_FIRST = rf"^(?:\d{{4}}{_SIGN})?{_OVER_12}{_SIGN}{_NUMBER}(?:\D|$)"  # also after the year
_MONTH_FIRST = rf"^(?:\d{{4}}{_SIGN})?{_NUMBER}{_SIGN}{_OVER_12}(?:\D|$)"

_FORMATS_OF_DIGITS = {
    6: ("%Y%m", "%y%m%d", "%d%m%y", "%m%d%y"),
    7: ("%Y%j",),
    8: ("%d%m%Y", "%m%d%Y", "%Y%m%d"),
    10: ("%Y%m%d%H",),
    12: ("%Y%m%d%H%M",),
    14: ("%Y%m%d%H%M%S",),
}
"""By number of digits, the formats of dates without signs between their parts."""

_LENGTHS_OF_COUNTS = {
    "excel": (5,),
    "unix": (9, 10),
    "unix_ms": (12, 13),
    "unix_us": (15, 16),
    "unix_ns": (18, 19),
}
"""Numeric date formats, with the digits of their counts for dates after 1973."""


def find_day_first(texts: pd.Series) -> bool | None:
    """Whether the day comes before the month; None if no date shows it by a day after the 12th."""
    orders = {True: _DAY_FIRST, False: _MONTH_FIRST}
    return next((order for order, pattern in orders.items() if texts.str.contains(pattern).any()), None)


def guess_dates(cells: Cells, column: str, texts: pd.Series, day_first: bool | None) -> pd.DatetimeIndex:
    """Parse dates in ISO 8601, else in the only format that parses all of them; of two, `day_first` chooses.

    Raises DataError for a date that cannot be parsed, or in which day and month could be swapped.
    """
    if texts.str.contains(QUARTER).all():
        quarters = texts.str.extract(_QUARTER)
        months = 3 * quarters["quarter"].astype(int) - 2
        texts = quarters["year"].fillna(quarters["year_after"]) + "-" + months.astype(str).str.zfill(2)
    iso = pd.to_datetime(texts, format="ISO8601", errors="coerce", utc=True)
    if iso.notna().all():
        return check_all_read(cells, column, texts, iso, "is not a date that can be read")
    if has_short_year(texts.iloc[0]) and day_first is None:
        remedies = list(map(Remedy, orders_of_short_years(texts)))
        message = f"{quote(texts.iloc[0])}: a year of two digits"
        raise cells.error(message, row=0, column=column, remedies=remedies)
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # where only one order can be meant
        guesses = [_format_of(texts.iloc[0], dayfirst=order) for order in (bool(day_first), not day_first)]
    read = [
        pd.to_datetime(texts, format=guess, errors="coerce", utc=True)
        for guess in dict.fromkeys(guesses)
        if guess
    ]
    complete = [dates for dates in read if dates.notna().all()]
    if len(complete) == 2 and day_first is None:
        differ = (complete[0] != complete[1]).to_numpy()
        row = int(differ.argmax())
        if differ.any():
            message = f"{quote(texts.iloc[row])} may begin with the day or with the month"
            orders = [Remedy({"day_first": order}) for order in (True, False)]
            raise cells.error(
                message,
                row=row,
                column=column,
                remedies=orders,
                fallback=": set data.day_first=true or false",
            )
    best = complete[0] if complete else max([iso, *read], key=lambda dates: dates.notna().sum())
    complaint = "cannot be read as the dates above can" if read else "is not a date that can be read"
    return check_all_read(cells, column, texts, best, complaint, propose_formats(texts.iloc[0]))


def _format_of(text: str, *, dayfirst: bool) -> str | None:
    """Guess the strptime format of a date, including AM and PM, which pandas cannot guess."""
    for pattern, month in MONTHS.items():
        if found := re.fullmatch(pattern, text):
            return month.format(found[1])
    if found := re.fullmatch(SHORT_YEAR, text):
        rest = guess_datetime_format(f"2000-01-01{found[2]}")
        return rest and rest.replace(
            "%Y-%m-%d", found[1].join(["%d", "%m", "%y"] if dayfirst else ["%m", "%d", "%y"])
        )
    found = re.search(r"(?:^| )[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?( ?)[AaPp][Mm](?: |$)", text)
    if found is None:
        return guess_datetime_format(text, dayfirst=dayfirst)
    before, after = text[: found.start()], text[found.end() :]
    day = guess_datetime_format(before or after, dayfirst=dayfirst) if bool(before) != bool(after) else None
    time = f"%I:%M{':%S' if found[1] else ''}{found[2]}%p"
    return day and (f"{day} {time}" if before else f"{time} {day}")


def orders_of_short_years(texts: pd.Series) -> list[dict[str, Any]]:
    """Settings of the orders of day, month and year that fit all dates; if some give ascending dates, those alone."""
    days = texts.str.extract(r"(\d{1,2}[-/.]\d{1,2}[-/.]\d{2})", expand=False)
    sign = re.sub(r"\d", "", str(days.iloc[0]))[0]
    orders = [
        ({"day_first": True}, "%d{0}%m{0}%y"),
        ({"day_first": False}, "%m{0}%d{0}%y"),
        ({"date_format": f"%y{sign}%m{sign}%d"}, "%y{0}%m{0}%d"),
    ]
    read = [
        (settings, pd.to_datetime(days, format=order.format(sign), errors="coerce"))
        for settings, order in orders
    ]
    fitting = [one for one in read if one[1].notna().all()] or read[:2]
    return [settings for settings, _ in [one for one in fitting if one[1].is_monotonic_increasing] or fitting]


def propose_formats(text: str) -> list[Remedy]:
    """Formats of dates that are numbers, of which this is the first one."""
    digits, _, fraction = text.partition(".")
    if not f"{digits}{fraction}".isdecimal():
        return []
    named = () if fraction.strip("0") else _FORMATS_OF_DIGITS.get(len(digits), ())
    counts = [name for name, lengths in _LENGTHS_OF_COUNTS.items() if len(digits) in lengths]
    return [Remedy({"date_format": name}) for name in (*named, *counts)]


def _advise(texts: pd.Series, read: pd.Series) -> str:
    """Advice on dates that are not all read, whatever their format."""
    text = texts.iloc[int(read.isna().argmax())]
    if re.search(r"\d ?[A-Z]{3,4}$", text) and not re.search(r"[AP]M$", text):
        return ": if it ends in the name of a time zone, set data.timezone, such as Europe/Berlin"
    return (
        ": correct it" if read.notna().mean() > 0.5 else ": give the format of the dates (data.date_format)"
    )


def check_all_read(
    cells: Cells,
    column: str,
    texts: pd.Series,
    parsed: pd.Series,
    complaint: str,
    remedies: Sequence[Remedy] = (),
) -> pd.DatetimeIndex:
    """The parsed dates. Raises DataError for the first that could not be parsed or lies outside of `YEARS`."""
    has_digits = texts.str.contains("[0-9]")  # pandas reads "now" and "today"
    unread = (parsed.isna() | ~has_digits).to_numpy(dtype=bool)
    if unread.any():
        row = int(unread.argmax())
        if row == len(texts) - 1 and row > 1 and not has_digits.iloc[row]:
            raise cells.error(
                f"{quote(texts.iloc[row])} in the last line is no date: delete the line",
                row=row,
                column=column,
            )
        message = f"{quote(texts.iloc[row])} {complaint}"
        raise cells.error(message, row=row, column=column, remedies=remedies, fallback=_advise(texts, parsed))
    dates = pd.DatetimeIndex(parsed).tz_localize(None)
    far = (dates.year < YEARS[0]) | (dates.year > YEARS[1])
    if far.any():
        row = int(far.argmax())
        message = f"{quote(texts.iloc[row])} is not a date from {YEARS[0]} to {YEARS[1]}"
        raise cells.error(message, row=row, column=column, remedies=remedies, fallback=": correct it")
    return dates
