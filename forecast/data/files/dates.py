"""Parsing of dates, and the regular grid on which they must lie."""

import re
import warnings

import numpy as np
import pandas as pd
from pandas.tseries.api import guess_datetime_format
from pandas.tseries.frequencies import to_offset

from forecast.data.files.cells import Cells, quote
from forecast.data.files.timezone import advice_on_clocks, is_days, looks_skipped, minutes_ahead, to_utc
from forecast.data.time_features import infer_frequency, parse_frequency
from forecast.system.errors import ConfigError, DataError

_OFFSET = r" ?(Z|[+-]\d\d(?::?\d\d)?)$"
_UTC_OFFSET = r"(?:\d:\d\d(?:\.\d+)?|T\d\d)" + _OFFSET
_MIDNIGHT = r"[T ]00(?::00)?(?::00(?:\.0+)?)?$"
_YEARS = (1678, 2261)  # what pandas can count in nanoseconds
_MOST_MILLISECONDS = 1e13  # three centuries

COUNTS = {"unix": (1_000, "unix"), "unix_ms": (1, "unix"), "excel": (86_400_000, "1899-12-30")}
"""Numeric date formats by name: milliseconds per count, and the date of zero."""


def dates_and_clock(
    cells: Cells, column: str, date_format: str | None, timezone: str | None = None
) -> tuple[pd.DatetimeIndex, int | None]:
    """Parse the dates of a column and return them with their UTC offset in minutes.

    The format is `date_format`, which is strptime's or one of `COUNTS`, else ISO 8601, else the only format that parses
    every row. An offset from UTC that is the same in every row is dropped, so that local times stay local. If it
    changes, as with daylight saving time, dates are converted to UTC with a warning. With `timezone`, dates without an
    offset are local times of that zone and are converted to UTC, including the hours that daylight saving time
    repeats or skips. Dates that are all at midnight are days and stay unchanged.

    The returned UTC offset is None if the file does not say it, and for days.

    Raises:
        DataError: for the first date that cannot be parsed, or in which day and month could be swapped.
    """
    texts = cells.frame[column].str.strip()
    if texts.isna().any():
        raise cells.refuse("no date", row=int(texts.isna().argmax()), column=column)
    offsets = texts.str.extract(_UTC_OFFSET, expand=False)
    if date_format is None and offsets.notna().all():
        local = texts.str.replace(_OFFSET, "", regex=True)
        if local.str.contains(_MIDNIGHT).all():
            return _read(cells, column, local, offsets.iloc[:0], None), None
        if offsets.nunique() == 1 and timezone is None:
            return _read(cells, column, local, offsets.iloc[:0], None), minutes_ahead(offsets.iloc[0])
    dates = _read(cells, column, texts, offsets, date_format, warns=timezone is None)
    if (
        date_format in ("unix", "unix_ms")
        or "%z" in (date_format or "")
        or (date_format is None and offsets.notna().any())
    ):
        return dates, 0
    if timezone is None:
        return dates, None
    return to_utc(cells, column, dates, timezone), None if is_days(dates) else 0


def _read(
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
        try:
            parsed = pd.to_datetime(texts, format=date_format, errors="coerce", utc="%z" in date_format)
        except ValueError as error:
            raise ConfigError(f"data.date_format={date_format!r}: {error}") from None
        return _all_read(cells, column, texts, parsed, complaint)
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
                f"{cells.path}: the offset from UTC changes, so dates are read as UTC", stacklevel=2
            )
    return _guess(cells, column, texts)


def _count(texts: pd.Series, unit: str) -> pd.Series:
    """Convert numbers to dates, rounded to milliseconds; NaT for what is not a number."""
    per_count, origin = COUNTS[unit]
    counts = pd.Series(pd.to_numeric(texts, errors="coerce")).to_numpy(dtype=np.float64, na_value=np.nan)
    milliseconds = np.round(counts * per_count)
    milliseconds[~(np.abs(milliseconds) < _MOST_MILLISECONDS)] = np.nan
    return pd.Series(pd.to_datetime(milliseconds, unit="ms", origin=origin))


def _guess(cells: Cells, column: str, texts: pd.Series) -> pd.DatetimeIndex:
    iso = pd.to_datetime(texts, format="ISO8601", errors="coerce", utc=True)
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # where only one order can be meant
        guesses = {_format_of(texts.iloc[0], dayfirst=dayfirst) for dayfirst in (False, True)}
    read = [pd.to_datetime(texts, format=guess, errors="coerce", utc=True) for guess in guesses if guess]
    if iso.notna().all() or not read:
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
    return _all_read(
        cells, column, texts, best, "cannot be read as the dates above can: set data.date_format"
    )


def _format_of(text: str, *, dayfirst: bool) -> str | None:
    """Guess the strptime format of a date, including AM and PM, which pandas cannot guess."""
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
        return "leave the zone's name out and set data.timezone, such as Europe/Berlin"
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
    far = (dates.year < _YEARS[0]) | (dates.year > _YEARS[1])
    if far.any():
        row = int(far.argmax())
        message = f"{quote(texts.iloc[row])} is not a date from {_YEARS[0]} to {_YEARS[1]}: correct it"
        raise cells.refuse(message, row=row, column=column)
    return dates


def check_order(cells: Cells, column: str, dates: pd.DatetimeIndex) -> None:
    """Raise DataError for the first date that does not come after the one above it."""
    times = dates.to_numpy()
    late = times[1:] <= times[:-1]
    if not late.any():
        return
    row = int(late.argmax()) + 1
    same = times[:row] == times[row]
    if same.any():
        line = cells.first_line + int(same.argmax())
        message = f"{dates[row]} is in {cells.unit} {line} too: remove one{advice_on_clocks(back=True)}"
    else:
        message = f"{dates[row]} comes after {dates[row - 1]}: sort the rows by date"
    raise cells.refuse(message, row=row, column=column)


def lay_grid(
    cells: Cells, column: str, dates: pd.DatetimeIndex, freq: str | None, *, complete: bool
) -> tuple[pd.DatetimeIndex, str]:
    """Return the regular grid of increasing dates and its step, which is `freq` or inferred.

    With `complete`, the grid may have rows that `dates` lacks. Raises DataError for the first date that is not on the
    grid, or that follows a gap without `complete`.
    """
    step = parse_frequency(freq or _likely_frequency(cells, dates))
    grid = pd.date_range(dates[0], periods=len(dates), freq=step)
    if grid.equals(dates):
        return grid, step.freqstr
    off = grid.to_numpy() != dates.to_numpy()
    if off[0]:
        message = f"{dates[0]} cannot begin a grid of step {step.freqstr}: set data.freq"
        raise cells.refuse(message, row=0, column=column)
    advice = "add the missing rows, have them filled (data.fill=previous)"
    if complete:
        grid = _grid_between(cells, dates, step)
        off = np.isin(dates.to_numpy(), grid.to_numpy(), invert=True)
        if not off.any():
            return grid, step.freqstr
        advice = "correct the date"
    row = int(off.argmax())
    clocks = advice_on_clocks(back=False) if looks_skipped(dates[row - 1 : row + 1], step) else ""
    message = (
        f"{dates[row]} does not follow {dates[row - 1]} by the step {step.freqstr}: {advice} or set data.freq"
        f"{clocks}"
    )
    raise cells.refuse(message, row=row, column=column)


def _likely_frequency(cells: Cells, dates: pd.DatetimeIndex) -> str:
    """Infer the step from all dates, else from the longest regular beginning, else take the most common step."""
    rows = len(dates)
    if rows < 3:
        raise cells.refuse(f"too few rows to tell the step between them ({rows}): set data.freq")
    while rows >= min(8, len(dates)):
        try:
            return infer_frequency(dates[:rows])
        except DataError:
            rows //= 2
    steps, counts = np.unique(np.diff(dates.to_numpy().astype("datetime64[us]")), return_counts=True)
    return to_offset(steps[counts.argmax()].item()).freqstr


def _grid_between(cells: Cells, dates: pd.DatetimeIndex, step: pd.offsets.BaseOffset) -> pd.DatetimeIndex:
    """Return the grid from the first date to the last. Raises DataError if over nine tenths of its rows are missing."""
    first, second = pd.date_range(dates[0], periods=2, freq=step).to_numpy()
    rows = (dates.to_numpy()[-1] - first) / (second - first)
    if rows > 10 * len(dates):
        raise cells.refuse(
            f"{len(dates):,} dates on a grid of step {step.freqstr} with {rows:,.0f}: set data.freq"
        )
    return pd.date_range(dates[0], dates[-1], freq=step)
