"""Dates as files write them, and the regular grid they must lie on."""

import warnings

import numpy as np
import pandas as pd
from pandas.tseries.api import guess_datetime_format
from pandas.tseries.frequencies import to_offset

from forecast.data.calendar import infer_frequency, parse_frequency
from forecast.data.csvfile import Cells, quote
from forecast.errors import ConfigError, DataError

_UTC_OFFSET = r"(?:\d:\d\d(?:\.\d+)?|T\d\d) ?(Z|[+-]\d\d(?::?\d\d)?)$"


def parse_dates(cells: Cells, column: str, date_format: str | None) -> pd.DatetimeIndex:
    """Read the dates of a column; ISO 8601, else the one format that reads every row, else `date_format`.

    An offset from UTC that is the same in every row is dropped (local time stays local); where it changes, as
    with daylight saving, dates become UTC, with a warning. Raises DataError for the first date that cannot be
    read, or that day and month could be swapped in.
    """
    texts = cells.frame[column].str.strip()
    if texts.isna().any():
        raise cells.refuse("no date", row=int(texts.isna().argmax()), column=column)
    if date_format is not None:
        try:
            parsed = pd.to_datetime(texts, format=date_format, errors="coerce", utc="%z" in date_format)
        except ValueError as error:
            raise ConfigError(f"data.date_format={date_format!r}: {error}") from None
        return _all_read(cells, column, texts, parsed, f"does not match data.date_format={date_format!r}")

    offsets = texts.str.extract(_UTC_OFFSET, expand=False)
    if offsets.notna().any():
        bare = offsets.isna() != offsets.isna().iloc[0]
        if bare.any():
            row = int(bare.argmax())
            message = (
                f"{quote(texts.iloc[row])} and the dates above: give all of them an offset from UTC, or none"
            )
            raise cells.refuse(message, row=row, column=column)
        if offsets.nunique() == 1:
            texts = texts.str.slice(0, -len(offsets.iloc[0])).str.rstrip()
        else:
            warnings.warn(
                f"{cells.path}: the offset from UTC changes, so dates are read as UTC", stacklevel=2
            )
    return _guess(cells, column, texts)


def _guess(cells: Cells, column: str, texts: pd.Series) -> pd.DatetimeIndex:
    iso = pd.to_datetime(texts, format="ISO8601", errors="coerce", utc=True)
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # where only one order can be meant
        guesses = {guess_datetime_format(texts.iloc[0], dayfirst=dayfirst) for dayfirst in (False, True)}
    read = [pd.to_datetime(texts, format=guess, errors="coerce", utc=True) for guess in guesses if guess]
    if iso.notna().all() or not read:
        return _all_read(cells, column, texts, iso, "is not a date that can be read: set data.date_format")
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


def _all_read(
    cells: Cells, column: str, texts: pd.Series, parsed: pd.Series, complaint: str
) -> pd.DatetimeIndex:
    unread = parsed.isna().to_numpy()
    if unread.any():
        row = int(unread.argmax())
        raise cells.refuse(f"{quote(texts.iloc[row])} {complaint}", row=row, column=column)
    return pd.DatetimeIndex(parsed).tz_localize(None)


def check_order(cells: Cells, column: str, dates: pd.DatetimeIndex) -> None:
    """Raises DataError at the first date that does not come after the one above it."""
    times = dates.to_numpy()
    late = times[1:] <= times[:-1]
    if not late.any():
        return
    row = int(late.argmax()) + 1
    same = times[:row] == times[row]
    if same.any():
        line = cells.first_line + int(same.argmax())
        message = (
            f"{dates[row]} is in line {line} too: remove one (where clocks went back, give dates in UTC)"
        )
    else:
        message = f"{dates[row]} comes after {dates[row - 1]}: sort the rows by date"
    raise cells.refuse(message, row=row, column=column)


def lay_grid(
    cells: Cells, column: str, dates: pd.DatetimeIndex, freq: str | None, *, complete: bool
) -> tuple[pd.DatetimeIndex, str]:
    """The regular grid that increasing dates lie on, and its step: `freq`, or inferred.

    The grid may have rows that `dates` lacks only if it is to `complete` them. Raises DataError for the first
    date off the grid, or after a gap in it.
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
    message = (
        f"{dates[row]} does not follow {dates[row - 1]} by the step {step.freqstr}: {advice} or set data.freq"
    )
    raise cells.refuse(message, row=row, column=column)


def _likely_frequency(cells: Cells, dates: pd.DatetimeIndex) -> str:
    """The step of all dates, else of the longest beginning that has one, else the most common one."""
    rows = len(dates)
    if rows < 3:
        raise cells.refuse(f"{rows} rows are too few to tell the step between rows: set data.freq")
    while rows >= min(8, len(dates)):
        try:
            return infer_frequency(dates[:rows])
        except DataError:
            rows //= 2
    steps, counts = np.unique(np.diff(dates.to_numpy().astype("datetime64[us]")), return_counts=True)
    return to_offset(steps[counts.argmax()].item()).freqstr


def _grid_between(cells: Cells, dates: pd.DatetimeIndex, step: pd.offsets.BaseOffset) -> pd.DatetimeIndex:
    """From the first date to the last. Raises DataError where most rows would have to be made up."""
    first, second = pd.date_range(dates[0], periods=2, freq=step).to_numpy()
    rows = (dates.to_numpy()[-1] - first) / (second - first)
    if rows > 10 * len(dates):
        raise cells.refuse(
            f"{len(dates):,} dates on a grid of step {step.freqstr} with {rows:,.0f}: set data.freq"
        )
    return pd.date_range(dates[0], dates[-1], freq=step)
