"""The format of the texts of dates, found from the texts alone."""

import re
import warnings

import pandas as pd
from pandas.tseries.api import guess_datetime_format

from forecast.data.files.cells import Cells, quote

YEARS = (1678, 2261)  # what pandas can count in nanoseconds
_QUARTER = r"^(?:(?P<year>\d{4})[ -]?)?[Qq](?P<quarter>[1-4])(?:[ -]?(?P<year_after>\d{4}))?$"
_QUARTER_NUMBER = r"^(?:\d{4}[ -]?)?[Qq][1-4](?:[ -]?\d{4})?$"
_WEEK = (
    r"^(?:(?P<year>\d{4})[ -]?)?[Ww](?P<week>\d{1,2})(?:-?(?P<day>[1-7]))?(?:[ -]?(?P<year_after>\d{4}))?$"
)
_WEEK_NUMBER = r"(?:\d{4}[ -]?[Ww]\d{1,2}(?:-?[1-7])?|[Ww]\d{1,2}[ -]?\d{4})"
"""A week of ISO 8601, such as 2016-W01, perhaps with the number of its day."""
_MONTHS = {
    r"[A-Za-z]{3}([ -])\d{4}": "%b{}%Y",
    r"[A-Za-z]{4,}([ -])\d{4}": "%B{}%Y",
    r"\d{1,2}([/.])\d{4}": "%m{}%Y",
}
"""Patterns of months and years that pandas does not guess, and their formats."""
_OVER_12, _NUMBER, _SIGN = r"(?:1[3-9]|2\d|3[01])", r"\d{1,2}", "[-/. ]"
_DAY_FIRST = rf"^(?:\d{{4}}{_SIGN})?{_OVER_12}{_SIGN}{_NUMBER}(?:\D|$)"  # also after the year
_MONTH_FIRST = rf"^(?:\d{{4}}{_SIGN})?{_NUMBER}{_SIGN}{_OVER_12}(?:\D|$)"

_SHORT_YEAR = r"0?[1-9]\d?([-/.])0?[1-9]\d?\1\d{2}(?!\d)(.*)"
"""A date whose year has two digits, or that begins with such a year."""


_DATE = re.compile(
    r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(\D.*)?|(1[6-9]|2[0-2])\d\d-(0[1-9]|1[0-2])|.*[A-Za-z]{3}.*\d.*"
)
"""Dates, months such as 1920-01, and texts with the name of a month."""


def is_date(text: str) -> bool:
    """Whether a cell, or the name of a column, looks like a date."""
    text = text.strip().replace(" 24:", " 00:")
    if re.fullmatch(_WEEK_NUMBER, text):
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
    patterns = (r"(1[6-9]|20|21)\d\d", _QUARTER_NUMBER, *_MONTHS)
    return any(re.fullmatch(pattern, text) for pattern in patterns) or is_date(text)


def has_short_year(text: str) -> bool:
    """Whether a date has a year of two digits, such as 1/12/17."""
    return re.fullmatch(_SHORT_YEAR, text) is not None


def find_day_first(texts: pd.Series) -> bool | None:
    """Whether the day comes before the month; None if no date shows it by a day after the 12th."""
    orders = {True: _DAY_FIRST, False: _MONTH_FIRST}
    return next((order for order, pattern in orders.items() if texts.str.contains(pattern).any()), None)


def guess_dates(cells: Cells, column: str, texts: pd.Series, day_first: bool | None) -> pd.DatetimeIndex:
    """Parse dates in ISO 8601, else in the only format that parses all of them; of two, `day_first` chooses.

    Raises DataError for a date that cannot be parsed, or in which day and month could be swapped.
    """
    if texts.str.contains(_QUARTER_NUMBER).all():
        quarters = texts.str.extract(_QUARTER)
        months = 3 * quarters["quarter"].astype(int) - 2
        texts = quarters["year"].fillna(quarters["year_after"]) + "-" + months.astype(str).str.zfill(2)
    if re.fullmatch(_WEEK_NUMBER, texts.iloc[0]):
        return _read_weeks(cells, column, texts)
    iso = pd.to_datetime(texts, format="ISO8601", errors="coerce", utc=True)
    if iso.notna().all():
        return check_all_read(
            cells, column, texts, iso, f"is not a date that can be read: {_advice(texts, iso)}"
        )
    if has_short_year(texts.iloc[0]) and day_first is None:
        advice = " or ".join(orders_of_short_years(texts))
        raise cells.error(f"{quote(texts.iloc[0])}: a year of two digits: set {advice}", row=0, column=column)
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # where only one order can be meant
        guesses = [_format_of(texts.iloc[0], dayfirst=order) for order in (bool(day_first), not day_first)]
    read = [
        pd.to_datetime(texts, format=guess, errors="coerce", utc=True)
        for guess in dict.fromkeys(guesses)
        if guess
    ]
    if not read:
        complaint = f"is not a date that can be read: {_advice(texts, iso)}"
        return check_all_read(cells, column, texts, iso, complaint)
    complete = [dates for dates in read if dates.notna().all()]
    if len(complete) == 2 and day_first is None:
        differ = (complete[0] != complete[1]).to_numpy()
        row = int(differ.argmax())
        if differ.any():
            message = f"{quote(texts.iloc[row])}: day or month first? Set data.day_first=true or false"
            raise cells.error(message, row=row, column=column)
    best = complete[0] if complete else max([iso, *read], key=lambda dates: dates.notna().sum())
    complaint = f"cannot be read as the dates above can: {_advice(texts, pd.Series(best))}"
    return check_all_read(cells, column, texts, best, complaint)


def _read_weeks(cells: Cells, column: str, texts: pd.Series) -> pd.DatetimeIndex:
    """Parse weeks of ISO 8601 as their Mondays, or as the days that they name; dates may follow, as in a forecast."""
    parts = texts.str.extract(_WEEK)
    year, week = parts["year"].fillna(parts["year_after"]), parts["week"].str.zfill(2)
    mondays = pd.to_datetime(year + week + parts["day"].fillna("1"), format="%G%V%u", errors="coerce")
    days = pd.to_datetime(texts, format="ISO8601", errors="coerce")
    complaint = "is neither a week nor a date of ISO 8601: correct it"
    return check_all_read(cells, column, texts, mondays.fillna(days), complaint)


def add_weekday(texts: pd.Series, date_format: str) -> tuple[pd.Series, str]:
    """Complete dates of years and weeks alone, which pandas does not read as such, to the first days of the weeks."""
    firsts = {"%V": (" 1", " %u"), "%W": (" 1", " %w"), "%U": (" 0", " %w")}
    week = next((code for code in firsts if code in date_format), None)
    if week is None or re.search("%[uwaA]", date_format):
        return texts, date_format
    day, code = firsts[week]
    return texts + day, date_format + code


def _format_of(text: str, *, dayfirst: bool) -> str | None:
    """Guess the strptime format of a date, including AM and PM, which pandas cannot guess."""
    for pattern, month in _MONTHS.items():
        if found := re.fullmatch(pattern, text):
            return month.format(found[1])
    if found := re.fullmatch(_SHORT_YEAR, text):
        rest = guess_datetime_format(f"2000-01-01{found[2]}")
        return rest and rest.replace(
            "%Y-%m-%d", found[1].join(["%d", "%m", "%y"] if dayfirst else ["%m", "%d", "%y"])
        )
    found = re.fullmatch(r"(.+) [0-9]{1,2}:[0-9]{2}(:[0-9]{2})? ?[AaPp][Mm]", text)
    if found is None:
        return guess_datetime_format(text, dayfirst=dayfirst)
    day = guess_datetime_format(found[1], dayfirst=dayfirst)
    space = " " if text[-3] == " " else ""
    return day and f"{day} %I:%M{':%S' if found[2] else ''}{space}%p"


def orders_of_short_years(texts: pd.Series) -> list[str]:
    """Settings of the orders of day, month and year that fit all dates; if some give ascending dates, those alone."""
    settings = {"data.day_first=true": "%d{0}%m{0}%y", "data.day_first=false": "%m{0}%d{0}%y"}
    days = texts.str.extract(r"(\d{1,2}[-/.]\d{1,2}[-/.]\d{2})", expand=False)
    sign = re.sub(r"\d", "", str(days.iloc[0]))[0]
    read = {
        setting: pd.to_datetime(days, format=order.format(sign), errors="coerce")
        for setting, order in {**settings, f"data.date_format=%y{sign}%m{sign}%d": "%y{0}%m{0}%d"}.items()
    }
    fitting = [setting for setting, dates in read.items() if dates.notna().all()] or list(settings)
    return [setting for setting in fitting if read[setting].is_monotonic_increasing] or fitting


def _advice(texts: pd.Series, read: pd.Series) -> str:
    """Return advice based on the first date that was not parsed."""
    text = texts.iloc[int(read.isna().argmax())]
    if re.fullmatch(r"[2-6]\d{4}(\.\d*)?", text):
        return "if it counts days since 1900, as in Excel, set data.date_format=excel"
    if re.fullmatch(r"\d{9,10}(\.\d*)?|\d{12,13}", text):
        unit = "unix" if len(text.split(".")[0]) < 12 else "unix_ms"
        return f"if it counts since 1970, set data.date_format={unit}"
    if re.search(r"\d ?[A-Z]{3,4}$", text):
        return "if it ends in the name of a time zone, set data.timezone, such as Europe/Berlin"
    if re.search(r"\d ?[AaPp][Mm]\b", text):
        return "set data.date_format, such as '%d/%m/%Y %I:%M %p'"
    return "set data.date_format"


def check_all_read(
    cells: Cells, column: str, texts: pd.Series, parsed: pd.Series, complaint: str
) -> pd.DatetimeIndex:
    """The parsed dates. Raises DataError for the first that could not be parsed or lies outside of `YEARS`."""
    has_digits = texts.str.contains("[0-9]")  # pandas reads "now" and "today"
    unread = (parsed.isna() | ~has_digits).to_numpy(dtype=bool)
    if unread.any():
        row = int(unread.argmax())
        if row == len(texts) - 1 and row > 1 and not has_digits.iloc[row]:
            complaint = "in the last line is no date: delete the line"
        raise cells.error(f"{quote(texts.iloc[row])} {complaint}", row=row, column=column)
    dates = pd.DatetimeIndex(parsed).tz_localize(None)
    far = (dates.year < YEARS[0]) | (dates.year > YEARS[1])
    if far.any():
        row = int(far.argmax())
        message = f"{quote(texts.iloc[row])} is not a date from {YEARS[0]} to {YEARS[1]}: correct it"
        raise cells.error(message, row=row, column=column)
    return dates
