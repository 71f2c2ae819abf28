"""Chronological split of a panel into training, validation and test rows.

`split` takes one of four forms:

- `[12, 4, 4]`: months of 30 days, as papers split ETT; rows after the last month are not used;
- `[0.7, 0.1, 0.2]`: fractions of the rows, as papers split the other sets (training and test are rounded down);
- `[2017-07-01, 2017-11-01]`: the first date of validation and the first date of test;
- `train` or `test`: all rows belong to that split, and there is no other.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from forecast.data.panel import Panel
from forecast.data.row_ranges import PerSeries, RowRanges
from forecast.data.time_features import rows_in
from forecast.data.utc_offset import UtcOffset, check_year
from forecast.system.errors import ConfigError, DataError

Split = Sequence[int | float | str] | str

SPLITS = ("train", "val", "test")


def split_rows(
    dates: pd.DatetimeIndex, freq: str, split: Split, utc_offset: UtcOffset | None = None
) -> dict[str, range]:
    """The rows of `train`, `val` and `test`: consecutive ranges, none of them empty.

    Raises:
        ConfigError: a `split` of no known form.
        DataError: too few rows for it.
    """
    if split in ("train", "test"):
        return {str(split): range(len(dates))}
    check_split(split)
    given: list[Any] = list(split)
    if _counts_months(given):
        train_end, val_end, end = _by_months(len(dates), freq, given)
    elif len(given) == 3:
        end = len(dates)
        train_end, val_end = int(end * given[0]), end - int(end * given[2])
    else:
        train_end, val_end, end = _by_dates(dates, [str(date) for date in given], utc_offset or UtcOffset())
    return {"train": range(train_end), "val": range(train_end, val_end), "test": range(val_end, end)}


def check_split(split: object) -> None:
    """Raise ConfigError for a `split` of no known form."""
    if split in ("train", "test"):
        return
    given = list(split) if isinstance(split, Sequence) and not isinstance(split, str) else [split]
    numbers = [number for number in given if isinstance(number, int | float) and number > 0]
    are_parts = len(given) == len(numbers) == 3 and (_counts_months(given) or abs(sum(numbers) - 1) < 1e-6)  # type: ignore[arg-type]
    if not are_parts and not (len(given) == 2 and not numbers):
        raise ConfigError(
            f"data.split={given} is not a split: give months of 30 days [12,4,4], fractions of the rows "
            "that add up to 1 [0.7,0.1,0.2], or the first dates of validation and test [2017-07-01,2017-11-01]"
        )


def split_panel(panel: Panel, split: Split, *, seq_len: int, season: int) -> dict[str, RowRanges]:
    """The rows of every series in each split.

    Dates are the same for all series; months and fractions count from the beginning of each series. A series that is
    too short has no rows. With `split="test"` the first `seq_len` rows are history alone; of a single series a
    season, where that is longer and leaves rows to forecast, so that the seasonal-naive baseline has one.

    Raises:
        ConfigError: a `split` of no known form.
        DataError: every series is too short.
    """
    lengths = panel.lengths
    if panel.calendar is not None and _counts_months(split):
        raise ConfigError(
            f"data.split={split} counts months of 30 days, whose number of rows varies with data.steps=rows: "
            "give fractions or dates"
        )
    has_dates = isinstance(split, Sequence) and not isinstance(split, str) and len(split) == 2
    rows = _split_at_dates(panel, split) if has_dates else _split_each_length(panel, split)
    if split == "test":
        # among several series, the seasonal naive repeats the last value of a short one
        has_season = (len(panel) == 1) & (lengths > season)
        history = np.where(has_season, max(seq_len, season), seq_len)
        rows["test"] = np.minimum(history, lengths), lengths
    return {
        name: RowRanges(panel.starts + first.clip(0, lengths), panel.starts + last.clip(0, lengths))
        for name, (first, last) in rows.items()
    }


def _split_at_dates(panel: Panel, split: Split) -> dict[str, tuple[PerSeries, PerSeries]]:
    """The first row and the row after the last one of each series and split, counted from the start of the series."""
    rows = {
        name: (on_grid.start - panel.grid_starts, on_grid.stop - panel.grid_starts)
        for name, on_grid in split_rows(panel.grid, panel.freq, split, panel.utc_offset).items()
    }
    rows["test"] = rows["test"][0], panel.lengths
    return rows


def _split_each_length(panel: Panel, split: Split) -> dict[str, tuple[PerSeries, PerSeries]]:
    """As `_split_at_dates`, for splits that depend only on the length of a series: each length is split once."""
    lengths, number = np.unique(panel.lengths, return_inverse=True)
    longest = split_rows(panel.grid[: lengths[-1]], panel.freq, split)
    splits = [*(_split_if_long_enough(panel, int(length), split) for length in lengths[:-1]), longest]
    return {
        name: (
            np.array([rows[name].start for rows in splits])[number],
            np.array([rows[name].stop for rows in splits])[number],
        )
        for name in longest
    }


def _counts_months(split: Split) -> bool:
    return not isinstance(split, str) and len(split) == 3 and all(type(number) is int for number in split)


def _split_if_long_enough(panel: Panel, length: int, split: Split) -> dict[str, range]:
    """The rows of a series of this length; none if it is too short for the months."""
    try:
        return split_rows(panel.grid[:length], panel.freq, split)
    except DataError:
        return dict.fromkeys(("train", "val", "test"), range(0))


def _by_months(rows: int, freq: str, months: list[int]) -> tuple[int, int, int]:
    per_month = rows_in(days=30, freq=freq)
    if per_month == 0:
        raise ConfigError(
            f"data.split={months} counts months of 30 days, which step {freq} does not divide: give fractions"
        )
    train_end = months[0] * per_month
    val_end = train_end + months[1] * per_month
    end = val_end + months[2] * per_month
    if rows < end:
        raise DataError(f"data.split={months} needs {end:,} rows ({freq}), and the table has {rows:,}")
    return train_end, val_end, end


def _by_dates(dates: pd.DatetimeIndex, starts: list[str], utc_offset: UtcOffset) -> tuple[int, int, int]:
    read = [pd.to_datetime(start, format="ISO8601", errors="coerce") for start in starts]
    for start, date in zip(starts, read, strict=True):
        if pd.isna(date):
            raise ConfigError(f"data.split={starts}: {start!r} is not a date such as 2017-07-01")
        check_year(f"data.split={starts}", date)
    try:
        at = np.array([utc_offset.read(date).to_datetime64() for date in read], dtype="datetime64[ns]")
    except ValueError as error:
        raise ConfigError(f"data.split={starts}: leave the offset from UTC out: {error}") from None
    train_end, val_end = np.searchsorted(dates.to_numpy(), at)
    if not 0 < train_end < val_end < len(dates):
        raise ConfigError(
            f"data.split={starts} must rise and lie after the first date of the table and not after the last one, "
            f"{' and '.join(map(str, utc_offset.shown(dates[[0, -1]])))}"
        )
    return int(train_end), int(val_end), len(dates)
