"""Parsing of the texts of dates."""

import re
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int32
from pandas.tseries.api import guess_datetime_format

from forecast.data.clock import Clock
from forecast.data.files.cells import Cells, quote
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.timezone import begin_steps, minutes_ahead, place_in_time, zone_name
from forecast.system.errors import ConfigError

_OFFSET = r" ?(Z|[+-]\d\d(?::?\d\d)?)$"
_UTC_OFFSET = r"(?:\d:\d\d(?:\.\d+)?|T\d\d)" + _OFFSET
_MIDNIGHT = r"[T ]00(?::00)?(?::00(?:\.0+)?)?$"
_MIDNIGHT_24 = re.compile(r"([T ])24:00(:00(?:\.0+)?)?")
_DAY = r".*\d[^\d:]+\d+[^\d:]+\d+|\d+[^\d:]+[A-Za-z][^\d:]*\d{4}|[A-Za-z][^\d:]+\d+[^\d:]+\d{4}|\d{8}"
_HOUR_NUMBER = rf"^(?:{_DAY}) \d{{1,2}}$"  # a whole day, and a number that is no part of a time
_QUARTER = r"^(?:(?P<year>\d{4})[ -]?)?[Qq](?P<quarter>[1-4])(?:[ -]?(?P<year_after>\d{4}))?$"
_QUARTER_NUMBER = r"^(?:\d{4}[ -]?)?[Qq][1-4](?:[ -]?\d{4})?$"
_MONTHS = {
    r"[A-Za-z]{3}([ -])\d{4}": "%b{}%Y",
    r"[A-Za-z]{4,}([ -])\d{4}": "%B{}%Y",
    r"\d{1,2}([/.])\d{4}": "%m{}%Y",
}
"""Patterns of months and years that pandas does not guess, and their formats."""
YEARS = (1678, 2261)  # what pandas can count in nanoseconds
_ZONE_NAME = r"(?<=\d) ?(?!AM$|PM$)[A-Z]{2,5}$"  # such as CET, or DST at the second of two equal hours
_MOST_MILLISECONDS = 1e13  # three centuries

COUNTS = {"unix": (1_000, "unix"), "unix_ms": (1, "unix"), "excel": (86_400_000, "1899-12-30")}
"""Numeric date formats by name: milliseconds per count, and the date of zero."""


def read_dates(
    cells: Cells, column: str, options: ReadOptions, series: Int32[np.ndarray, " rows"] | None = None
) -> tuple[pd.DatetimeIndex, Clock]:
    """Parse the dates of a column and return them with their clock.

    The format is `date_format`, which is strptime's or one of `COUNTS`, else ISO 8601, else the only format that parses
    every row. 24:00 is the midnight that ends a day, and a last number from 0 to 24, as in "2024-05-01 24", is an hour.
    An offset from UTC that is the same in every row is dropped, so that local times stay local. If it changes, as with
    daylight saving time, dates are converted to UTC with a warning. With `timezone`, dates without an offset are local
    times of that zone and are converted to UTC, including the hours that daylight saving time repeats or skips. The
    name of a zone after a date, such as CET, is not read. Dates that are all at midnight are days and stay unchanged.

    Args:
        series: number of the series of each row; None: one series.

    Returns:
        The dates without a time zone, and what they mean.

    Raises:
        DataError: for the first date that cannot be parsed, or in which day and month could be swapped.
    """
    texts = cells.frame[column].str.strip()
    if texts.isna().any():
        raise cells.refuse("no date", row=int(texts.isna().argmax()), column=column)
    series = np.zeros(len(texts), dtype=np.int32) if series is None else series
    if options.date_format is None and (plain := _read_plain(texts)) is not None:
        return place_in_time(cells, column, plain, options, series)
    has_offset = texts.str.contains(_UTC_OFFSET.replace("(Z", "(?:Z")).any()  # faster than to extract them
    offsets = texts.str.extract(_UTC_OFFSET, expand=False) if has_offset else texts.mask(texts.notna())
    if options.date_format is None and offsets.notna().all():
        local = texts.str.replace(_OFFSET, "", regex=True)
        if local.str.contains(_MIDNIGHT).all():
            zone = zone_name(offsets.iloc[0]) if offsets.nunique() == 1 else None
            return _parse(cells, column, local, offsets.iloc[:0], None), Clock(None, options.timezone or zone)
        if offsets.nunique() == 1 and options.timezone is None:
            dates = _parse(cells, column, local, offsets.iloc[:0], None)
            clock = Clock(minutes_ahead(offsets.iloc[0]), zone_name(offsets.iloc[0]))
            return begin_steps(dates, series, options), clock
    if options.timezone is not None:
        texts = texts.str.replace(_ZONE_NAME, "", regex=True)
    dates = _parse(cells, column, texts, offsets, options.date_format, warns=options.timezone is None)
    is_utc = (
        options.date_format in ("unix", "unix_ms")
        or "%z" in (options.date_format or "")
        or (options.date_format is None and offsets.notna().any())
    )
    if is_utc:
        return begin_steps(dates, series, options), Clock(0, options.timezone or "UTC")
    return place_in_time(cells, column, dates, options, series)


def _read_plain(texts: pd.Series) -> pd.DatetimeIndex | None:
    """Read dates such as 2024-05-01 or 2024-05-01 13:00:00 at once; None if any is of another kind or far away."""
    try:
        read = pc.cast(pa.array(texts, from_pandas=True), pa.timestamp("us"))  # type: ignore[arg-type]
    except pa.ArrowInvalid:
        return None
    dates = pd.DatetimeIndex(read.to_numpy(zero_copy_only=False))
    years = dates.year.to_numpy()
    return dates if YEARS[0] <= years.min() and years.max() <= YEARS[1] else None


def _parse(
    cells: Cells,
    column: str,
    texts: pd.Series,
    offsets: pd.Series,
    date_format: str | None,
    *,
    warns: bool = True,
) -> pd.DatetimeIndex:
    if date_format is not None:
        complaint = f"does not match data.date_format={date_format!r}"
        if date_format in COUNTS:
            return _all_read(cells, column, texts, _count(texts, date_format), complaint)
        if "%" not in date_format:
            raise ConfigError(
                f"data.date_format={date_format!r}: write one as strptime's, such as '%d/%m/%Y', or {', '.join(COUNTS)}"
            )

        def parse(plain: pd.Series) -> pd.DatetimeIndex:
            try:
                parsed = pd.to_datetime(plain, format=date_format, errors="coerce", utc="%z" in date_format)
            except ValueError as error:
                raise ConfigError(f"data.date_format={date_format!r}: {error}") from None
            return _all_read(cells, column, texts, parsed, complaint)

        return _with_midnight_24(texts, parse)
    if offsets.notna().any():
        bare = offsets.isna() != offsets.isna().iloc[0]
        if bare.any():
            row = int(bare.argmax())
            message = (
                f"{quote(texts.iloc[row])} and the dates above: give all of them an offset from UTC, or none"
            )
            raise cells.refuse(message, row=row, column=column)
        if warns:
            warnings.warn(
                f"{cells.path}: the offset from UTC changes, so dates are read as UTC; to keep local time, set "
                "data.timezone, such as Europe/Berlin",
                stacklevel=2,
            )
    return _guess_with_hours(cells, column, texts)


def _guess_with_hours(cells: Cells, column: str, texts: pd.Series) -> pd.DatetimeIndex:
    """Parse dates of which some may end in 24:00, or all in the number of an hour."""
    if texts.str.contains(_HOUR_NUMBER).all():
        found = texts.str.extract(r"(.*) (\d{1,2})$")
        hours = pd.Series(pd.to_numeric(found[1]))
        if hours.between(0, 24).all():
            days = _guess(cells, column, found[0])
            return pd.DatetimeIndex(days + np.asarray(hours, dtype=np.int64) * np.timedelta64(1, "h"))
    return _with_midnight_24(texts, lambda plain: _guess(cells, column, plain))


def _with_midnight_24(texts: pd.Series, parse: Callable[[pd.Series], pd.DatetimeIndex]) -> pd.DatetimeIndex:
    """Parse dates of which some may end in 24:00, the midnight that ends a day."""
    is_24 = texts.str.contains("[T ]24:", regex=True)
    if not is_24.any():
        return parse(texts)
    dates = parse(texts.str.replace(_MIDNIGHT_24, r"\g<1>00:00\g<2>", regex=True))
    return pd.DatetimeIndex(dates + is_24.to_numpy(dtype=np.int64) * np.timedelta64(1, "D"))


def _count(texts: pd.Series, unit: str) -> pd.Series:
    """Convert numbers to dates, rounded to milliseconds; NaT for what is not a number."""
    per_count, origin = COUNTS[unit]
    counts = pd.Series(pd.to_numeric(texts, errors="coerce")).to_numpy(dtype=np.float64, na_value=np.nan)
    milliseconds = np.round(counts * per_count)
    milliseconds[~(np.abs(milliseconds) < _MOST_MILLISECONDS)] = np.nan
    return pd.Series(pd.to_datetime(milliseconds, unit="ms", origin=origin))


def _guess(cells: Cells, column: str, texts: pd.Series) -> pd.DatetimeIndex:
    if texts.str.contains(_QUARTER_NUMBER).all():
        quarters = texts.str.extract(_QUARTER)
        months = 3 * quarters["quarter"].astype(int) - 2
        texts = quarters["year"].fillna(quarters["year_after"]) + "-" + months.astype(str).str.zfill(2)
    iso = pd.to_datetime(texts, format="ISO8601", errors="coerce", utc=True)
    if iso.notna().all():
        return _all_read(cells, column, texts, iso, f"is not a date that can be read: {_advice(texts, iso)}")
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # where only one order can be meant
        guesses = {_format_of(texts.iloc[0], dayfirst=dayfirst) for dayfirst in (False, True)}
    read = [pd.to_datetime(texts, format=guess, errors="coerce", utc=True) for guess in guesses if guess]
    if not read:
        complaint = f"is not a date that can be read: {_advice(texts, iso)}"
        return _all_read(cells, column, texts, iso, complaint)
    complete = [dates for dates in read if dates.notna().all()]
    if len(complete) == 2:
        differ = (complete[0] != complete[1]).to_numpy()
        row = int(differ.argmax())
        if differ.any():
            message = (
                f"{quote(texts.iloc[row])}: day or month first? Set data.date_format, such as '%d/%m/%Y'"
            )
            raise cells.refuse(message, row=row, column=column)
    best = complete[0] if complete else max([iso, *read], key=lambda dates: dates.notna().sum())
    complaint = f"cannot be read as the dates above can: {_advice(texts, pd.Series(best))}"
    return _all_read(cells, column, texts, best, complaint)


def _format_of(text: str, *, dayfirst: bool) -> str | None:
    """Guess the strptime format of a date, including AM and PM, which pandas cannot guess."""
    for pattern, month in _MONTHS.items():
        if found := re.fullmatch(pattern, text):
            return month.format(found[1])
    found = re.fullmatch(r"(.+) [0-9]{1,2}:[0-9]{2}(:[0-9]{2})? ?[AaPp][Mm]", text)
    if found is None:
        return guess_datetime_format(text, dayfirst=dayfirst)
    day = guess_datetime_format(found[1], dayfirst=dayfirst)
    space = " " if text[-3] == " " else ""
    return day and f"{day} %I:%M{':%S' if found[2] else ''}{space}%p"


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
    return "set data.date_format"


def _all_read(
    cells: Cells, column: str, texts: pd.Series, parsed: pd.Series, complaint: str
) -> pd.DatetimeIndex:
    has_digits = texts.str.contains("[0-9]")  # pandas reads "now" and "today"
    unread = (parsed.isna() | ~has_digits).to_numpy(dtype=bool)
    if unread.any():
        row = int(unread.argmax())
        raise cells.refuse(f"{quote(texts.iloc[row])} {complaint}", row=row, column=column)
    dates = pd.DatetimeIndex(parsed).tz_localize(None)
    far = (dates.year < YEARS[0]) | (dates.year > YEARS[1])
    if far.any():
        row = int(far.argmax())
        message = f"{quote(texts.iloc[row])} is not a date from {YEARS[0]} to {YEARS[1]}: correct it"
        raise cells.refuse(message, row=row, column=column)
    return dates
