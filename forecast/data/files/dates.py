"""Dates: the format of their texts, their parsing, and local times with daylight saving time as UTC."""

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Int32
from pandas.tseries.api import guess_datetime_format

from forecast.data.calendars import MIDNIGHT, OFFSET, TIME_END, YEARS, UtcOffset, check_year
from forecast.data.files.cells import Cells
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.text import MONTHS, QUARTER, SHORT_YEAR, WEEK, is_week, quote
from forecast.system.errors import ConfigError, DataError
from forecast.system.location import Location

NO_TIME = np.timedelta64(0, "ns")
Codes = Int32[np.ndarray, " rows"]  # of each row, the number of its series
Dated = tuple[pd.DatetimeIndex, UtcOffset]  # dates without a time zone, and what they mean

COUNTS = {
    "unix": (1_000, "unix"), "unix_ms": (1, "unix"), "unix_us": (1e-3, "unix"), "unix_ns": (1e-6, "unix"),
    "excel": (86_400_000, "1899-12-30"),
}  # fmt: skip
"""Numeric date formats by name: milliseconds per count, and the date of zero."""

_MAX_MILLISECONDS = 1e13  # three centuries

_OVER_12, _NUMBER, _SIGN = r"(?:1[3-9]|2\d|3[01])", r"\d{1,2}", "[-/. ]"
_DAY_FIRST = rf"^(?:\d{{4}}{_SIGN})?{_OVER_12}{_SIGN}{_NUMBER}(?:\D|$)"  # also after the year
_MONTH_FIRST = rf"^(?:\d{{4}}{_SIGN})?{_NUMBER}{_SIGN}{_OVER_12}(?:\D|$)"

_HAS_OFFSET = rf"{TIME_END} ?{OFFSET}$"
_UTC_NAME = r"(?<=\d) ?(?:UTC|GMT)$"
_ZONE_NAME = r"(?<=\d) ?(?!AM$|PM$)[A-Z]{2,5}$"  # such as CET, or DST at the second of two equal hours
_TIME_TO_12 = r"\b\d{1,2}:\d{2}(:\d{2})?( ?)[AaPp][Mm]\b"
_DAY = r"\D*\d+[^\d:]+\d+[^\d:]+\d+|\d+[^\d:]+[A-Za-z][^\d:]*\d{4}|[A-Za-z][^\d:]+\d+[^\d:]+\d{4}|\d{8}"
_TIME_NUMBERS = rf"^({_DAY}) (\d{{1,2}})(?:[ .](\d{{1,2}}))?(?:[ .](\d{{1,2}}))?$"
"""A whole day, and an hour, perhaps with a minute and a second, which no colons separate."""


def number_dates(codes: Codes, options: ReadOptions) -> pd.DatetimeIndex:
    """The dates of rows without dates: those of each series are `freq` apart, from `start` on.

    Raises ConfigError for a `start` that is not a date or not on the grid of the step.
    """
    given = f"data.start={options.start}"
    start = pd.to_datetime(str(options.start), format="ISO8601", errors="coerce")
    if start is pd.NaT or start.tz is not None:
        raise ConfigError(f"{given} is not a date: write it as 2010-01-01 or 2010-01-01T06:00")
    check_year(given, start)
    place = pd.Series(codes).groupby(codes).cumcount().to_numpy()
    rows = int(place.max(initial=0)) + 1
    try:
        grid = pd.date_range(start, periods=rows, freq=str(options.freq))
    except (pd.errors.OutOfBoundsDatetime, OverflowError):
        grid = pd.DatetimeIndex([start, pd.Timestamp.max])
    if int(np.max(grid.year)) > YEARS[1]:
        raise ConfigError(f"{given} data.freq={options.freq}: row {rows:,} would lie after {YEARS[1]}")
    if (grid[:1] != start).any():
        raise ConfigError(f"{given} is no date of data.freq={options.freq}: the next is {grid[0]}")
    return pd.DatetimeIndex(grid[place])


def read_dates(cells: Cells, column: str, options: ReadOptions, series: Codes | None = None) -> Dated:
    """Parse the dates of a column, whose rows belong to these series; None: to one.

    A column of the type of dates is taken as it is. The format of texts is `date_format`, which is strptime's or one of
    `COUNTS`, else ISO 8601, else the only format that parses every row; of two that do, `day_first` chooses. 24:00 is
    the midnight that ends a day, and a last number from 0 to 24, as in "2024-05-01 24", is an hour. An offset from UTC
    that is the same in every row is dropped, so that local times stay local. If it changes, as with daylight saving
    time, dates are converted to UTC with a warning. With `timezone`, dates without an offset are local times of that
    zone and are converted to UTC, including the hours that daylight saving time repeats or skips. UTC or GMT after
    every date is an offset of zero; the name of another zone, such as CET, is not read. Dates that are all at midnight
    are days and stay unchanged.

    Raises DataError for the first date that cannot be parsed, or in which day and month could be swapped.
    """
    texts = pd.Series(cells.frame[column])
    if texts.hasnans:
        raise cells.error("no date", row=int(texts.isna().argmax()), column=column)
    series = np.zeros(len(texts), dtype=np.int32) if series is None else series
    typed = pd.to_datetime(texts) if isinstance(texts.iloc[0], date) and texts.dtype == object else texts
    if pd.api.types.is_datetime64_any_dtype(typed):
        dates = pd.DatetimeIndex(typed)
        if are_far_away(dates):
            what = f"column {quote(column)} has dates before {YEARS[0]} or after {YEARS[1]}"
            raise DataError(f"{cells.path}: {what}")
        dates = dates if dates.tz is None else dates.tz_convert(options.timezone or dates.tz)
        return place_in_time(cells, column, without_zone(dates), options, series)
    texts = texts.astype(str)
    if options.date_format is None and (iso := _read_iso(cells.path, texts, options.timezone)) is not None:
        return place_in_time(cells, column, iso, options, series)
    texts = texts.str.strip()
    if options.date_format is None and texts.str.contains(_UTC_NAME).all():
        texts = texts.str.replace(_UTC_NAME, "Z", regex=True)
    if options.timezone is not None:
        is_zoned = texts.str.contains(_HAS_OFFSET)
        if is_zoned.is_monotonic_increasing and is_zoned.nunique() == 2:
            return _read_mixed(cells, column, int(is_zoned.argmax()), options, series)
    read = _read_texts(cells, column, texts, options)
    dates, utc_offset = place_in_time(cells, column, read, options, series)
    orders = {True: _DAY_FIRST, False: _MONTH_FIRST}
    day_first = next((order for order, pattern in orders.items() if texts.str.contains(pattern).any()), None)
    return dates, replace(utc_offset, day_first=day_first)


def _read_iso(path: Location, texts: pd.Series, timezone: str | None) -> Dated | None:
    """Read dates such as 2024-05-01, 2024-05-01 13:00:00 or 2024-05-01T13:00+02:00 at once.

    None if any is of another kind or far away, or if some have an offset and others have none.
    """
    has_offset = re.search(_HAS_OFFSET, texts.iloc[0]) is not None

    def read(part: pd.Series, zone: str | None) -> pd.DatetimeIndex:
        found = pc.cast(pa.array(part, from_pandas=True), pa.timestamp("us", zone))  # type: ignore[arg-type]
        return pd.DatetimeIndex(found.to_numpy(zero_copy_only=False))

    try:
        dates = read(texts, "UTC" if has_offset else None)
        if are_far_away(dates):
            return None
        if not has_offset:
            return dates, UtcOffset()
        times = [re.split(f" ?({OFFSET})$", time) for time in texts.str[10:].unique()]
        offsets = list(dict.fromkeys(offset for _, offset, _ in times))
        are_midnight = all(re.search(MIDNIGHT, time) for time, *_ in times)
        utc_offset = _choose_offset(path, offsets, are_midnight, timezone)
        if utc_offset.minutes is None:
            return read(texts.str[:10], None), utc_offset
        return pd.DatetimeIndex(dates + pd.Timedelta(minutes=utc_offset.minutes)), utc_offset
    except pa.ArrowInvalid:
        return None


def _choose_offset(path: Location, offsets: Sequence[str], are_days: bool, timezone: str | None) -> UtcOffset:
    """What dates mean whose offsets from UTC are these. If they `are_days`, all local times are midnight."""
    one = pd.to_datetime(f"2000-01-01T00:00{offsets[0]}", errors="coerce")
    zone = str(one.tz) if len(offsets) == 1 and one is not pd.NaT else None
    if are_days:
        return UtcOffset(None, timezone or zone)
    if zone is not None and timezone is None:
        return UtcOffset(int(one.utcoffset() / pd.Timedelta(minutes=1)), zone)  # type: ignore[reportOperatorIssue]
    if timezone is None:
        warnings.warn(
            f"{path}: the offset from UTC changes, so dates are read as UTC; to keep local time, set data.timezone, "
            "such as Europe/Berlin",
            stacklevel=2,
        )
    return UtcOffset(0, timezone or "UTC")


def are_far_away(dates: pd.DatetimeIndex) -> bool:
    """Whether any date lies outside of `YEARS`, which nanoseconds cannot hold."""
    return dates.min().year < YEARS[0] or dates.max().year > YEARS[1]  # type: ignore[reportAttributeAccessIssue]


def _read_mixed(cells: Cells, column: str, n_local: int, options: ReadOptions, series: Codes) -> Dated:
    """Read dates of which the first ones are local times: a file, with a forecast of it below."""
    above = replace(cells, frame=cells.frame.iloc[:n_local])
    dates, utc_offset = read_dates(above, column, options, series[:n_local])
    below = replace(cells, frame=cells.frame.iloc[n_local:], first_line=cells.first_line + n_local)
    texts = below.frame[column].str.strip()
    zoned = pd.to_datetime(texts, format="ISO8601", errors="coerce", utc=True)
    read = _check_all_read(below, column, texts, zoned, "is no date in ISO 8601")
    begins = pd.DatetimeIndex([utc_offset.read(one) for one in read.tz_localize("UTC")])
    return pd.DatetimeIndex(dates.append(begins)), utc_offset


def _read_texts(cells: Cells, column: str, texts: pd.Series, options: ReadOptions) -> Dated:
    """Parse dates of any kind that `read_dates` knows."""
    offsets = texts.mask(texts.notna())
    if texts.str.contains(_HAS_OFFSET).any():
        offsets = texts.str.extract(f"{TIME_END} ?({OFFSET})$", expand=False)
    if options.date_format is None and offsets.notna().all():
        local = texts.str.replace(f" ?{OFFSET}$", "", regex=True)
        are_midnight = bool(local.str.contains(MIDNIGHT).all())
        utc_offset = _choose_offset(cells.path, offsets.unique().tolist(), are_midnight, options.timezone)
        if utc_offset.minutes != 0:
            return _parse(cells, column, local, options), utc_offset
    if options.timezone is not None:
        texts = texts.str.replace(_ZONE_NAME, "", regex=True)
    if options.date_format is not None:
        is_utc = options.date_format.startswith("unix") or "%z" in options.date_format
    elif is_utc := bool(offsets.notna().any()):
        bare = offsets.isna() != offsets.isna().iloc[0]
        if bare.any():
            row = int(bare.argmax())
            what = f"{quote(texts.iloc[row])} and the dates above"
            raise cells.error(f"{what}: give all of them an offset from UTC, or none", row=row, column=column)
    dates = _parse(cells, column, texts, options)
    return dates, UtcOffset(0, options.timezone or "UTC") if is_utc else UtcOffset()


def _parse(cells: Cells, column: str, texts: pd.Series, options: ReadOptions) -> pd.DatetimeIndex:
    """Parse dates in `date_format`, or in the format that fits; some may end in 24:00."""
    date_format = options.date_format
    if date_format is None:
        return _guess_hours(cells, column, texts, options.day_first)

    def parse(plain: pd.Series) -> pd.DatetimeIndex:
        try:
            parsed = pd.to_datetime(plain, format=date_format, errors="coerce", utc="%z" in date_format)
        except ValueError as error:
            raise ConfigError(f"data.date_format={date_format!r}: {error}") from None
        return _check_all_read(cells, column, texts, parsed, complaint)

    complaint = f"does not match data.date_format={date_format!r}"
    if date_format in COUNTS:
        return _check_all_read(cells, column, texts, _count(texts, date_format), complaint)
    if "%" not in date_format:
        advice = f"write one as strptime's, such as '%d/%m/%Y', or {', '.join(COUNTS)}"
        raise ConfigError(f"data.date_format={date_format!r}: {advice}")
    return _with_midnight_24(texts, parse)


def _guess_hours(cells: Cells, column: str, texts: pd.Series, day_first: bool | None) -> pd.DatetimeIndex:
    """Parse dates of which some may end in 24:00, or all in the numbers of a time, such as 18 or 18.00.00."""
    if re.match(_TIME_NUMBERS, texts.iloc[0]) and texts.str.match(_TIME_NUMBERS).all():
        found = texts.str.extract(_TIME_NUMBERS)
        times = found.drop(columns=0).apply(pd.to_numeric).fillna(0).to_numpy(dtype=np.int64)
        if (times <= [24, 59, 59]).all():
            days = _guess(cells, column, found[0], day_first)
            return pd.DatetimeIndex(days + times @ [3600, 60, 1] * np.timedelta64(1, "s"))
    return _with_midnight_24(texts, lambda plain: _guess(cells, column, plain, day_first))


def _with_midnight_24(texts: pd.Series, parse: Callable[[pd.Series], pd.DatetimeIndex]) -> pd.DatetimeIndex:
    """Parse dates of which some may end in 24:00, the midnight that ends a day."""
    is_24 = texts.str.contains("[T ]24:", regex=True)
    if not is_24.any():
        return parse(texts)
    dates = parse(texts.str.replace(r"([T ])24:00(:00(?:\.0+)?)?", r"\g<1>00:00\g<2>", regex=True))
    return pd.DatetimeIndex(dates + is_24.to_numpy(dtype=np.int64) * np.timedelta64(1, "D"))


def _guess(cells: Cells, column: str, texts: pd.Series, day_first: bool | None) -> pd.DatetimeIndex:
    """Parse dates in ISO 8601, else in the only format that parses all of them; of two, `day_first` chooses.

    Weeks are their Mondays, or the days that they name; dates may follow them, as in a forecast. Raises DataError for a
    date that cannot be parsed, or in which day and month could be swapped.
    """
    if texts.str.fullmatch(QUARTER).all():
        parts = texts.str.extract(QUARTER)
        months = (3 * parts["quarter"].astype(int) - 2).astype(str).str.zfill(2)
        texts = parts["year"].fillna(parts["year_after"]) + "-" + months
    iso = pd.to_datetime(texts, format="ISO8601", errors="coerce", utc=True)
    if is_week(texts.iloc[0]):
        parts = texts.str.extract(f"^{WEEK}$")
        year, day = parts["year"].fillna(parts["year_after"]), parts["day"].fillna("1")
        weeks = year + parts["week"].str.zfill(2) + day
        mondays = pd.to_datetime(weeks, format="%G%V%u", errors="coerce", utc=True)
        others = "of weeks that begin on Sundays, such as those of MMWR, give the dates"
        complaint = f"is no week of ISO 8601 ({others})"
        return _check_all_read(cells, column, texts, mondays.fillna(iso), complaint)
    if iso.notna().all():
        return _check_all_read(cells, column, texts, iso, "is not a date that can be read")
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # where only one order can be meant
        guesses = {order: guess_format(texts.iloc[0], dayfirst=order) for order in (True, False)}
    parse = partial(pd.to_datetime, texts, errors="coerce", utc=True)
    read = {order: parse(format=guess) for order, guess in guesses.items() if guess}
    fitting = [order for order, dates in read.items() if dates.notna().all()]
    if re.fullmatch(SHORT_YEAR, texts.iloc[0]) and day_first is None:
        orders = "true or false" if len(fitting) != 1 else str(fitting[0]).lower()
        advice = f": set data.day_first={orders}, or give the format of the dates (data.date_format)"
        raise cells.error(f"{quote(texts.iloc[0])}: a year of two digits", advice, row=0, column=column)
    if len(fitting) == 2 and day_first is None and (differ := read[True] != read[False]).any():
        row = int(differ.argmax())
        message = f"{quote(texts.iloc[row])} may begin with the day or with the month"
        raise cells.error(message, ": set data.day_first=true or false", row=row, column=column)
    best = max([iso, *read.values()], key=lambda dates: dates.notna().sum())
    if fitting:
        best = read[day_first if day_first in fitting else fitting[0]]
    complaint = "cannot be read as the dates above can" if read else "is not a date that can be read"
    return _check_all_read(cells, column, texts, best, complaint)


def guess_format(text: str, *, dayfirst: bool) -> str | None:
    """Guess the strptime format of a date, also of months and years, years of two digits, and hours to 12.

    pandas guesses none of these.
    """
    for pattern, month in MONTHS.items():
        if found := re.fullmatch(pattern, text):
            return month.format(found[1])
    day = re.sub(SHORT_YEAR, r"\g<1>20\3\4", text)
    plain = re.sub(_TIME_TO_12, lambda found: f"00:00{':00' if found[1] else ''}", day)
    guess = guess_datetime_format(plain, dayfirst=dayfirst)
    if guess is None:
        return None
    if found := re.search(_TIME_TO_12, day):
        guess = re.sub(r"%H(:%M(:%S)?)", rf"%I\g<1>{found[2]}%p", guess)
    return guess.replace("%Y", "%y") if day != text else guess


def _check_all_read(cells: Cells, column: str, texts: pd.Series, parsed: pd.Series, complaint: str) -> pd.DatetimeIndex:
    """The parsed dates. Raises DataError for the first that could not be parsed or lies outside of `YEARS`."""
    has_digits = texts.str.contains("[0-9]")  # pandas reads "now" and "today"
    unread = (parsed.isna() | ~has_digits).to_numpy(dtype=bool)
    if not unread.any():
        dates = pd.DatetimeIndex(parsed).tz_localize(None)
        unread = np.asarray((dates.year < YEARS[0]) | (dates.year > YEARS[1]))
        if not unread.any():
            return dates
        complaint = f"is not a date from {YEARS[0]} to {YEARS[1]}"
    row, advice = int(unread.argmax()), f": correct it, or delete the {cells.unit}"
    if re.search(_ZONE_NAME, texts.iloc[row]):
        advice = ": if it ends in the name of a time zone, set data.timezone, such as Europe/Berlin"
    elif parsed.notna().mean() <= 0.5:
        examples = "%d.%m.%Y, %Y%m%d%H, unix or excel"
        advice = f": give the format of the dates (data.date_format), such as {examples}"
    raise cells.error(f"{quote(texts.iloc[row])} {complaint}", advice, row=row, column=column)


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


def place_in_time(cells: Cells, column: str, read: Dated, options: ReadOptions, series: Codes) -> Dated:
    """Apply `stamp`, and to dates of an unknown UTC offset `timezone`.

    Local times move by `stamp` before they become UTC: the hour that ends at 02:00 twice in autumn begins at 01:00
    twice.
    """
    dates, utc_offset = read
    step = _find_step(dates, series, options) if options.stamp == "end" else NO_TIME
    dates = pd.DatetimeIndex(dates - step) if step else dates
    if utc_offset == UtcOffset() and options.timezone is not None:
        utc_offset = UtcOffset(None if is_days(dates) else 0, options.timezone)
        dates = _to_utc(cells, column, dates, options, series)
    return dates, replace(utc_offset, stamp=step)


def _find_step(dates: pd.DatetimeIndex, series: Codes, options: ReadOptions) -> np.timedelta64:
    """The step of dates that are the ends of their steps: `freq`, or the most common one.

    Raises ConfigError for steps of more than a day, and for too few dates to tell the step.
    """
    if options.freq is not None:
        first, second = pd.date_range(pd.Timestamp("2001-01-01"), periods=2, freq=options.freq).to_numpy()
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
    cells: Cells, column: str, dates: pd.DatetimeIndex, options: ReadOptions, series: Codes
) -> pd.DatetimeIndex:
    """Convert local times of a zone, such as `Europe/Berlin`, to UTC; the result has no time zone.

    When clocks go back, an hour is repeated. In this hour, the rows of a series are in summer time until a row is not
    later than the row before it; of rows from newest to oldest, the order is reversed first. Where several rows of a
    series have one date, only an earlier date begins the second hour; if the hour has one date, half of its rows are in
    summer time. Dates without a time of day are days and stay unchanged.

    Raises ConfigError for a zone that is not known, and DataError for a time that the zone's clocks skip.
    """
    timezone = str(options.timezone)
    try:
        zone = ZoneInfo(timezone)
    except (ValueError, OSError, KeyError):
        raise ConfigError(f"data.timezone={timezone!r} is not a zone: write one as Europe/Berlin") from None
    if is_days(dates):
        return dates
    is_first = np.ones(len(dates), dtype=bool)
    skipped = np.asarray(dates.tz_localize(zone, ambiguous=is_first, nonexistent="NaT").isna())
    if skipped.any():
        row = int(skipped.argmax())
        message = f"{dates[row]} does not exist in {timezone}, where clocks go forward"
        advice = ": leave data.timezone out if the file keeps one time all year"
        if options.stamp == "start":
            advice += "; if dates are the ends of steps, add data.stamp=end"
        raise cells.error(message, advice, row=row, column=column)
    order = np.argsort(series, kind="stable")
    if np.sign(_steps(dates, series).astype(np.int64)).sum() < 0:  # from newest to oldest
        order = len(series) - 1 - np.argsort(series[::-1], kind="stable")
    is_summer = np.empty(len(dates), dtype=bool)
    is_summer[order] = _is_summer(dates[order], series[order], zone)
    return dates.tz_localize(zone, ambiguous=is_summer).tz_convert("UTC").tz_localize(None)


def _steps(dates: pd.DatetimeIndex, series: Codes) -> np.ndarray:
    """The differences of consecutive dates within each series."""
    order = np.argsort(series, kind="stable")
    return np.diff(dates.to_numpy()[order])[np.diff(series[order]) == 0]


def _is_summer(dates: pd.DatetimeIndex, series: Codes, zone: ZoneInfo) -> Bool[np.ndarray, " rows"]:
    """Return True for the first of two equal local times, False for the second; other rows have no meaning.

    The rows of a series follow each other, from oldest to newest.
    """
    twice = np.asarray(dates.tz_localize(zone, ambiguous="NaT", nonexistent="shift_forward").isna())
    begins = np.diff(series, prepend=series[:1]) != 0
    number = np.cumsum((np.diff(twice, prepend=False) | begins) & twice)  # of the run of such times, from 1
    steps = np.diff(dates.to_numpy(), prepend=dates.to_numpy()[:1] - 1)
    is_equal, went_back = ~begins & (steps == NO_TIME), ~begins & (steps < NO_TIME)
    several = bool((is_equal & ~twice).any())  # rows of one date
    second = np.zeros(len(dates), dtype=bool)
    went_back = pd.Series((went_back if several else went_back | is_equal)[twice])
    second[twice] = went_back.groupby(number[twice]).cummax()
    if several:
        runs = pd.Series(dates.to_numpy()[twice]).groupby(number[twice])
        is_late = 2 * runs.cumcount() >= runs.transform("size")
        second[twice] |= (is_late & (runs.transform("nunique") == 1)).to_numpy()
    return ~second


def is_days(dates: pd.DatetimeIndex) -> bool:
    """Whether all dates are at midnight."""
    return bool((dates == dates.normalize()).all())


def without_zone(dates: pd.DatetimeIndex) -> Dated:
    """Dates of a time zone as local times if the UTC offset is the same in all of them, else in UTC; days stay days."""
    if dates.tz is None:
        return dates, UtcOffset()
    zone, local = str(dates.tz), dates.tz_localize(None)
    if is_days(dates):
        return local, UtcOffset(None, zone)
    offsets = local.to_numpy() - dates.tz_convert(None).to_numpy()
    if (offsets != offsets[0]).any():
        return dates.tz_convert(None), UtcOffset(0, zone)
    return local, UtcOffset(int(offsets[0] / np.timedelta64(1, "m")), zone)
