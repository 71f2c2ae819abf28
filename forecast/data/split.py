"""Cut a table into training, validation and test rows, in the order of time.

`split` takes one of four forms:

- `[12, 4, 4]`: months of 30 days, as papers cut ETT; rows after the last month are not used;
- `[0.7, 0.1, 0.2]`: parts of the rows, as papers cut the other sets (training and test rounded down);
- `[2017-07-01, 2017-11-01]`: the first date of validation and the first of test;
- `train` or `test`: all rows are that split's, and there is no other.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from forecast.data.calendar import rows_in
from forecast.data.panel import Panel, PerSeries
from forecast.errors import ConfigError, DataError


def split_rows(
    dates: pd.DatetimeIndex, freq: str, split: Sequence[int | float | str] | str
) -> dict[str, range]:
    """The rows of each of `train`, `val` and `test`: consecutive ranges, none of them empty.

    Raises ConfigError for a `split` of no known form, DataError where the table is too short for it.
    """
    if split in ("train", "test"):
        return {str(split): range(len(dates))}
    parts = list(split) if isinstance(split, Sequence) and not isinstance(split, str) else [split]
    numbers = [part for part in parts if isinstance(part, int | float) and part > 0]
    if len(parts) == len(numbers) == 3 and all(isinstance(part, int) for part in numbers):
        train_end, val_end, end = _by_months(len(dates), freq, [int(part) for part in numbers])
    elif len(parts) == len(numbers) == 3 and abs(sum(numbers) - 1) < 1e-6:
        end = len(dates)
        train_end, val_end = int(end * numbers[0]), end - int(end * numbers[2])
    elif len(parts) == 2 and not numbers:
        train_end, val_end, end = _by_dates(dates, [str(part) for part in parts])
    else:
        raise ConfigError(
            f"data.split={parts} is not a split: give months of 30 days [12,4,4], parts of the rows that "
            "add up to 1 [0.7,0.1,0.2], or the first dates of validation and test [2017-07-01,2017-11-01]"
        )
    return {"train": range(train_end), "val": range(train_end, val_end), "test": range(val_end, end)}


def split_series(
    panel: Panel, split: Sequence[int | float | str] | str
) -> dict[str, tuple[PerSeries, PerSeries]]:
    """Of each split, the first row of every series, and the row after its last; a series may have none in a split.

    Dates are the same for all series; months and parts count from each series' own beginning.
    """
    lengths = panel.lengths
    dated = isinstance(split, Sequence) and not isinstance(split, str) and len(split) == 2
    if dated:
        whole = split_rows(panel.grid, panel.freq, split)
        rows = {name: (part.start - panel.firsts, part.stop - panel.firsts) for name, part in whole.items()}
        rows["test"] = rows["test"][0], lengths
    else:
        each, number = np.unique(lengths, return_inverse=True)
        found = [_split_if_long_enough(panel, int(length), split) for length in each]
        rows = {
            name: (
                np.array([part[name].start for part in found])[number],
                np.array([part[name].stop for part in found])[number],
            )
            for name in found[-1]
        }
    return {
        name: (panel.starts + first.clip(0, lengths), panel.starts + last.clip(0, lengths))
        for name, (first, last) in rows.items()
    }


def _split_if_long_enough(
    panel: Panel, length: int, split: Sequence[int | float | str] | str
) -> dict[str, range]:
    """The rows of a series of this length, none where it is too short for the months."""
    try:
        return split_rows(panel.grid[:length], panel.freq, split)
    except DataError:
        return dict.fromkeys(("train", "val", "test"), range(0))


def _by_months(rows: int, freq: str, months: list[int]) -> tuple[int, int, int]:
    per_month = rows_in(days=30, freq=freq)
    if per_month == 0:
        raise ConfigError(
            f"data.split={months} counts months of 30 days, which step {freq} does not divide: give parts"
        )
    train_end = months[0] * per_month
    val_end = train_end + months[1] * per_month
    end = val_end + months[2] * per_month
    if rows < end:
        raise DataError(f"data.split={months} needs {end:,} rows ({freq}), and the table has {rows:,}")
    return train_end, val_end, end


def _by_dates(dates: pd.DatetimeIndex, starts: list[str]) -> tuple[int, int, int]:
    read = [pd.to_datetime(start, format="ISO8601", errors="coerce") for start in starts]
    for start, date in zip(starts, read, strict=True):
        if pd.isna(date):
            raise ConfigError(f"data.split={starts}: {start!r} is not a date such as 2017-07-01")
        if date.tz is not None:
            raise ConfigError(
                f"data.split={starts}: leave the offset from UTC out of {start!r}, and write it as the table's dates "
                "are read"
            )
    train_end, val_end = np.searchsorted(dates.to_numpy(), np.array(read, dtype="datetime64[ns]"))
    if not 0 < train_end < val_end < len(dates):
        raise ConfigError(
            f"data.split={starts} must rise and lie within the table, {dates[0]} to {dates[-1]}"
        )
    return int(train_end), int(val_end), len(dates)
