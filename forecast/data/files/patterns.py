"""Texts of numbers and dates: patterns by which cells and names of columns are recognised."""

import re
import warnings
from collections.abc import Sequence

from pandas.tseries.api import guess_datetime_format

SIGNS_ALIKE = {" ": " \xa0\u2009\u202f", "'": "'\u2019"}
"""By thousands separator, the characters that are read as it: kinds of spaces and of apostrophes."""

SIGNS = f".,{''.join(SIGNS_ALIKE.values())}"
"""Signs before decimals and between groups of digits."""

NUMBER = rf"[-+]?(\d{{1,3}}([{SIGNS}]\d{{3}})+|\d*)([.,]?\d+|\d[.,])([eE][-+]?\d+)?"
SIGNED_DIGITS = rf"[-+]?\d[\d{SIGNS}]*"
"""Texts of digits and `SIGNS`, which are numbers if the signs are those of the file."""

LIKE_A_NUMBER = r"[^\w.]{0,2}[-+]?[0-9][0-9.,:'\s]*[^\w.]{0,2}"
"""Texts that were probably meant as numbers, such as 98%, €98.50 and 12:30."""

MISSING = [
    "", " ", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
]  # fmt: skip
"""Texts of missing values: the default of pandas, which it does not export."""

BOOLEANS = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
"""Texts that are numbers where a column has no others."""

TIME_OF_DAY = r"\d{1,2}(:\d\d|h\d\d|\.\d\d\.\d\d)(?!\d)"
"""The beginning of a time of day, such as 18:00, 18h00 or 18.00.00, and not of 01.01.2024."""

WEEK = (
    r"(?:(?P<year>\d{4})[ -]?)?[Ww](?P<week>\d{1,2})(?:[ -]?(?P<day>[1-7]))?(?:[ -]?(?P<year_after>\d{4}))?"
)
"""A week of ISO 8601, such as 2016-W01, perhaps with the number of its day."""

QUARTER = r"(?:(?P<year>\d{4})[ -]?)?[Qq](?P<quarter>[1-4])(?:[ -]?(?P<year_after>\d{4}))?"
MONTHS = {
    r"[A-Za-z]{3}([ -])\d{4}": "%b{}%Y",
    r"[A-Za-z]{4,}([ -])\d{4}": "%B{}%Y",
    r"\d{1,2}([/.])\d{4}": "%m{}%Y",
    r"\d{4}(, ?)\d{1,2}": "%Y{}%m",
}
"""Patterns of months and years that pandas does not guess, and their formats."""

SHORT_YEAR = r"0?[1-9]\d?([-/.])0?[1-9]\d?\1\d{2}(?!\d)(.*)"
"""A date whose year has two digits, such as 1/12/17, or that begins with such a year."""

DATE_OF_NUMBERS = r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([^\d.].*)?|(1[6-9]|2[0-2])\d\d-(0[1-9]|1[0-2])"
DATE_OF_DIGITS = r"(19|20)\d{6}([T: ]?\d{4,6})?"
_WITH_MONTH = r".*[A-Za-z]{3}.*\d.*"


def matches(patterns: str | Sequence[str], text: str) -> bool:
    """Whether one of the patterns matches a whole text."""
    patterns = [patterns] if isinstance(patterns, str) else patterns
    return any(re.fullmatch(pattern, text) for pattern in patterns)


def is_week(text: str) -> bool:
    """Whether a text is a week with its year."""
    return matches(WEEK, text) and re.search(r"\d{4}", text) is not None


def is_date(text: str) -> bool:
    """Whether a cell, or the name of a column, looks like a date."""
    text = text.strip().replace(" 24:", " 00:")
    if matches(WEEK, text) or not matches((DATE_OF_NUMBERS, _WITH_MONTH), text):
        return is_week(text)
    with warnings.catch_warnings(action="ignore"):
        return matches(SHORT_YEAR, text) or any(
            guess_datetime_format(text, dayfirst=order) for order in (False, True)
        )


def names_period(text: str) -> bool:
    """Whether the name of a column is a date, or a year, quarter or month: 1960, 1980Q1, Jan 2005, 01/2005."""
    text = text.strip()
    return matches((r"(1[6-9]|20|21)\d\d", QUARTER, *MONTHS), text) or is_date(text)


_PARTS = {
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

_HOURS = (*_PARTS["hour"], "heure", "hora", "ora", "stunde", "uhrzeit", "time")


def find_part(name: str) -> str | None:
    """The part of a date that a column of this name holds; None: not known."""
    plain = re.sub("[^a-z]", "", name.lower())
    return next((part for part, names in _PARTS.items() if plain in names), None)


def find_parts(names: Sequence[str]) -> list[str | None]:
    """The part of a date that each of several columns holds; beside a year, mm is a month unless it follows an hour."""
    parts = [find_part(name) for name in names]
    for number, name in enumerate(names):
        if name.lower() == "mm" and "year" in parts and "month" not in parts and "hour" not in parts[:number]:
            parts[number] = "month"
    return parts


def names_hour(name: str) -> bool:
    """Whether a column is named after the hour or the time of day, also in other languages."""
    return re.sub("[^a-z]", "", name.lower()) in _HOURS
