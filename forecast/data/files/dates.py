"""Dates: the format of their texts, and their parsing."""

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int32
from pandas.tseries.api import guess_datetime_format

from forecast.data.files.cells import Cells
from forecast.data.files.date_columns import MONTHS, QUARTER, SHORT_YEAR, WEEK, has_short_year
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.text import quote
from forecast.data.files.timezone import minutes_ahead, place_in_time, zone_name
from forecast.data.utc_offset import MIDNIGHT, OFFSET, TIME_END, YEARS, UtcOffset
from forecast.system.errors import ConfigError, Remedy

_QUARTER = r"^(?:(?P<year>\d{4})[ -]?)?[Qq](?P<quarter>[1-4])(?:[ -]?(?P<year_after>\d{4}))?$"
_WEEK = (
    r"^(?:(?P<year>\d{4})[ -]?)?[Ww](?P<week>\d{1,2})(?:[ -]?(?P<day>[1-7]))?(?:[ -]?(?P<year_after>\d{4}))?$"
)
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
    if re.fullmatch(WEEK, texts.iloc[0]):
        return _read_weeks(cells, column, texts)
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


def _read_weeks(cells: Cells, column: str, texts: pd.Series) -> pd.DatetimeIndex:
    """Parse weeks of ISO 8601 as their Mondays, or as the days that they name; dates may follow, as in a forecast."""
    parts = texts.str.extract(_WEEK)
    year, week = parts["year"].fillna(parts["year_after"]), parts["week"].str.zfill(2)
    mondays = pd.to_datetime(year + week + parts["day"].fillna("1"), format="%G%V%u", errors="coerce")
    days = pd.to_datetime(texts, format="ISO8601", errors="coerce")
    complaint = (
        "is no week of ISO 8601 (of weeks that begin on Sundays, such as those of MMWR, give the dates)"
    )
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


_HAS_OFFSET = rf"{TIME_END} ?{OFFSET}$"
_UTC_NAME = r"(?<=\d) ?(?:UTC|GMT)$"
_MIDNIGHT_24 = re.compile(r"([T ])24:00(:00(?:\.0+)?)?")
_DAY = r".*\d[^\d:]+\d+[^\d:]+\d+|\d+[^\d:]+[A-Za-z][^\d:]*\d{4}|[A-Za-z][^\d:]+\d+[^\d:]+\d{4}|\d{8}"
_HOUR_NUMBER = rf"^(?:{_DAY}) \d{{1,2}}$"  # a whole day, and a number that is no part of a time
_TIME_NUMBERS = (
    r"^(\d+ \d+ \d+|\S*\d[-/.]\S*) (\d{1,2}) (\d{1,2})(?: (\d{1,2}))?$"  # a day, hour, minute and second
)
_DOTTED_TIME = rf"^(?:{_DAY}) \d{{1,2}}\.\d\d(?:\.\d\d)?$"
_ZONE_NAME = r"(?<=\d) ?(?!AM$|PM$)[A-Z]{2,5}$"  # such as CET, or DST at the second of two equal hours
_MAX_MILLISECONDS = 1e13  # three centuries

COUNTS = {
    "unix": (1_000, "unix"), "unix_ms": (1, "unix"), "unix_us": (1e-3, "unix"), "unix_ns": (1e-6, "unix"),
    "excel": (86_400_000, "1899-12-30"),
}  # fmt: skip
"""Numeric date formats by name: milliseconds per count, and the date of zero."""


def read_dates(
    cells: Cells, column: str, options: ReadOptions, series: Int32[np.ndarray, " rows"] | None = None
) -> tuple[pd.DatetimeIndex, UtcOffset]:
    """Parse the dates of a column and return them with their UTC offset.

    The format is `date_format`, which is strptime's or one of `COUNTS`, else ISO 8601, else the only format that parses
    every row; of two that do, `day_first` chooses. 24:00 is the midnight that ends a day, and a last number from 0 to
    24, as in "2024-05-01 24", is an hour. An offset from UTC that is the same in every row is dropped, so that local
    times stay local. If it changes, as with daylight saving time, dates are converted to UTC with a warning. With
    `timezone`, dates without an offset are local times of that zone and are converted to UTC, including the hours that
    daylight saving time repeats or skips. UTC or GMT after every date is an offset of zero; the name of another zone,
    such as CET, is not read. Dates that are all at midnight are days and stay unchanged.

    Args:
        series: number of the series of each row; None: one series.

    Returns:
        The dates without a time zone, and what they mean.

    Raises:
        DataError: for the first date that cannot be parsed, or in which day and month could be swapped.
    """
    texts = pd.Series(cells.frame[column])
    if texts.hasnans:
        raise cells.error("no date", row=int(texts.isna().argmax()), column=column)
    series = np.zeros(len(texts), dtype=np.int32) if series is None else series
    if options.date_format is None and (plain := _read_plain(texts)) is not None:
        return place_in_time(cells, column, plain, UtcOffset(), options, series)
    texts = texts.str.strip()
    if options.date_format is None and texts.str.contains(_UTC_NAME).all():
        texts = texts.str.replace(_UTC_NAME, "Z", regex=True)
    if options.timezone is not None and (n_local := _count_local(texts)):
        return _read_local_and_zoned(cells, column, n_local, options, series)
    dates, utc_offset = place_in_time(
        cells, column, *_read_texts(cells, column, texts, options), options, series
    )
    return dates, replace(utc_offset, day_first=find_day_first(texts))


def _count_local(texts: pd.Series) -> int:
    """The number of dates without an offset from UTC above those with one; 0 if they are in another order."""
    is_zoned = texts.iloc[[0, -1]].str.contains(_HAS_OFFSET)
    if is_zoned.iloc[0] or not is_zoned.iloc[1]:
        return 0
    is_zoned = texts.str.contains(_HAS_OFFSET).to_numpy()
    n_local = int(is_zoned.argmax())
    return n_local if is_zoned[n_local:].all() else 0


def _read_local_and_zoned(
    cells: Cells, column: str, n_local: int, options: ReadOptions, series: Int32[np.ndarray, " rows"]
) -> tuple[pd.DatetimeIndex, UtcOffset]:
    """Read dates of which the first ones are local times: a file, with a forecast of it below."""
    above = replace(cells, frame=cells.frame.iloc[:n_local])
    dates, utc_offset = read_dates(above, column, options, series[:n_local])
    below = replace(cells, frame=cells.frame.iloc[n_local:], first_line=cells.first_line + n_local)
    texts = below.frame[column].str.strip()
    zoned = pd.to_datetime(texts, format="ISO8601", errors="coerce", utc=True)
    read = check_all_read(below, column, texts, zoned, "is no date in ISO 8601")
    begins = pd.DatetimeIndex([utc_offset.read(date) for date in read.tz_localize("UTC")])
    return pd.DatetimeIndex(dates.append(begins)), utc_offset


def _read_texts(
    cells: Cells, column: str, texts: pd.Series, options: ReadOptions
) -> tuple[pd.DatetimeIndex, UtcOffset]:
    """Parse dates of any kind that `read_dates` knows; return them with their UTC offset."""
    has_offset = texts.str.contains(_HAS_OFFSET).any()
    offsets = (
        texts.str.extract(f"{TIME_END} ?({OFFSET})$", expand=False)
        if has_offset
        else texts.mask(texts.notna())
    )
    if options.date_format is None and offsets.notna().all():
        local = texts.str.replace(f" ?{OFFSET}$", "", regex=True)
        if local.str.contains(MIDNIGHT).all():
            zone = zone_name(offsets.iloc[0]) if offsets.nunique() == 1 else None
            return _parse(cells, column, local, offsets.iloc[:0], options), UtcOffset(
                None, options.timezone or zone
            )
        if offsets.nunique() == 1 and options.timezone is None:
            dates = _parse(cells, column, local, offsets.iloc[:0], options)
            return dates, UtcOffset(minutes_ahead(offsets.iloc[0]), zone_name(offsets.iloc[0]))
    if options.timezone is not None:
        texts = texts.str.replace(_ZONE_NAME, "", regex=True)
    dates = _parse(cells, column, texts, offsets, options)
    is_utc = (
        (options.date_format or "").startswith("unix")
        or "%z" in (options.date_format or "")
        or (options.date_format is None and offsets.notna().any())
    )
    return dates, UtcOffset(0, options.timezone or "UTC") if is_utc else UtcOffset()


def _read_plain(texts: pd.Series) -> pd.DatetimeIndex | None:
    """Read dates such as 2024-05-01 or 2024-05-01 13:00:00 at once; None if any is of another kind or far away."""
    try:
        read = pc.cast(pa.array(texts, from_pandas=True), pa.timestamp("us"))  # type: ignore[arg-type]
    except pa.ArrowInvalid:
        return None
    dates = pd.DatetimeIndex(read.to_numpy(zero_copy_only=False))
    return None if are_far_away(dates) else dates


def are_far_away(dates: pd.DatetimeIndex) -> bool:
    """Whether any date lies outside of `YEARS`, which nanoseconds cannot hold."""
    first, last = pd.DatetimeIndex([dates.min(), dates.max()]).year
    return first < YEARS[0] or last > YEARS[1]


def _parse(
    cells: Cells,
    column: str,
    texts: pd.Series,
    offsets: pd.Series,
    options: ReadOptions,
) -> pd.DatetimeIndex:
    date_format = options.date_format
    if date_format is not None:
        complaint = f"does not match data.date_format={date_format!r}"
        remedies = [Remedy({"date_format": None}), *propose_formats(texts.iloc[0])]
        if date_format in COUNTS:
            return check_all_read(cells, column, texts, _count(texts, date_format), complaint, remedies)
        if "%" not in date_format:
            raise ConfigError(
                f"data.date_format={date_format!r}: write one as strptime's, such as '%d/%m/%Y', or {', '.join(COUNTS)}"
            )

        def parse(plain: pd.Series) -> pd.DatetimeIndex:
            try:
                days, full_format = add_weekday(plain, date_format)
                parsed = pd.to_datetime(days, format=full_format, errors="coerce", utc="%z" in date_format)
            except ValueError as error:
                raise ConfigError(f"data.date_format={date_format!r}: {error}") from None
            return check_all_read(cells, column, texts, parsed, complaint, remedies)

        return _with_midnight_24(texts, parse)
    if offsets.notna().any():
        bare = offsets.isna() != offsets.isna().iloc[0]
        if bare.any():
            row = int(bare.argmax())
            message = (
                f"{quote(texts.iloc[row])} and the dates above: give all of them an offset from UTC, or none"
            )
            raise cells.error(message, row=row, column=column)
        if options.timezone is None:
            warnings.warn(
                f"{cells.path}: the offset from UTC changes, so dates are read as UTC; to keep local time, set "
                "data.timezone, such as Europe/Berlin",
                stacklevel=2,
            )
    return _guess_with_hours(cells, column, texts, options.day_first)


def _guess_with_hours(
    cells: Cells, column: str, texts: pd.Series, day_first: bool | None
) -> pd.DatetimeIndex:
    """Parse dates of which some may end in 24:00, or all in the numbers of a time or in a time such as 18.00.00."""
    if re.search(_DOTTED_TIME, texts.iloc[0]) and texts.str.contains(_DOTTED_TIME).all():
        times = texts.str.extract(r"(.*) (\S+)$")
        texts = times[0] + " " + times[1].str.replace(".", ":", regex=False)
    for pattern, numbers in ((_TIME_NUMBERS, _TIME_NUMBERS), (_HOUR_NUMBER, r"(.*) (\d{1,2})$")):
        if re.search(pattern, texts.iloc[0]) and texts.str.contains(pattern).all():
            found = texts.str.extract(numbers)
            times = found.drop(columns=0).apply(pd.to_numeric).fillna(0).to_numpy(dtype=np.int64)
            if (times <= [24, 59, 59][: times.shape[1]]).all():
                seconds = times @ np.array([3600, 60, 1])[: times.shape[1]]
                days = guess_dates(cells, column, found[0], day_first)
                return pd.DatetimeIndex(days + seconds * np.timedelta64(1, "s"))
    return _with_midnight_24(texts, lambda plain: guess_dates(cells, column, plain, day_first))


def _with_midnight_24(texts: pd.Series, parse: Callable[[pd.Series], pd.DatetimeIndex]) -> pd.DatetimeIndex:
    """Parse dates of which some may end in 24:00, the midnight that ends a day."""
    is_24 = texts.str.contains("[T ]24:", regex=True)
    if not is_24.any():
        return parse(texts)
    dates = parse(texts.str.replace(_MIDNIGHT_24, r"\g<1>00:00\g<2>", regex=True))
    return pd.DatetimeIndex(dates + is_24.to_numpy(dtype=np.int64) * np.timedelta64(1, "D"))


def _count(texts: pd.Series, unit: str) -> pd.Series:
    """Convert numbers to dates, rounded to milliseconds; NaT for what is not a number.

    Days with at most six decimals, which cannot hold milliseconds, are rounded to seconds.
    """
    per_count, origin = COUNTS[unit]
    counts = pd.Series(pd.to_numeric(texts, errors="coerce")).to_numpy(dtype=np.float64, na_value=np.nan)
    is_coarse = unit == "excel" and not texts.str.contains(r"\.\d{7}").any()
    step = 1_000 if is_coarse else 1
    milliseconds = np.round(counts * per_count / step) * step
    milliseconds[~(np.abs(milliseconds) < _MAX_MILLISECONDS)] = np.nan
    return pd.Series(pd.to_datetime(milliseconds, unit="ms", origin=origin))
