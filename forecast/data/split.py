"""Cut a table into training, validation and test rows, in the order of time.

`split` takes one of three forms:

- `[12, 4, 4]`: months of 30 days, as papers cut ETT; rows after the last month are not used;
- `[0.7, 0.1, 0.2]`: parts of the rows, as papers cut the other sets (training and test rounded down);
- `[2017-07-01, 2017-11-01]`: the first date of validation and the first of test.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from forecast.data.calendar import rows_in
from forecast.errors import ConfigError, DataError


def split_rows(dates: pd.DatetimeIndex, freq: str, split: Sequence[int | float | str]) -> dict[str, range]:
    """The rows of each of `train`, `val` and `test`: consecutive ranges, none of them empty.

    Raises ConfigError for a `split` of no known form, DataError where the table is too short for it.
    """
    parts = list(split)
    numbers = [part for part in parts if isinstance(part, int | float) and part > 0]
    if len(parts) == len(numbers) == 3 and all(isinstance(part, int) for part in numbers):
        train_end, val_end, end = _by_months(len(dates), freq, [int(part) for part in numbers])
    elif len(parts) == len(numbers) == 3 and abs(sum(numbers) - 1) < 1e-6:
        end = len(dates)
        train_end, val_end = int(end * numbers[0]), end - int(end * numbers[2])
    elif len(parts) == 2:
        train_end, val_end, end = _by_dates(dates, [str(part) for part in parts])
    else:
        raise ConfigError(
            f"data.split={parts} is not a split: give months of 30 days [12,4,4], parts of the rows that "
            "add up to 1 [0.7,0.1,0.2], or the first dates of validation and test [2017-07-01,2017-11-01]"
        )
    return {"train": range(train_end), "val": range(train_end, val_end), "test": range(val_end, end)}


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
    try:
        first = pd.to_datetime(starts, format="ISO8601")
    except ValueError as error:
        raise ConfigError(f"data.split={starts}: {' '.join(str(error).split())}") from None
    train_end, val_end = np.searchsorted(dates.to_numpy(), first.to_numpy())
    if not 0 < train_end < val_end < len(dates):
        raise ConfigError(
            f"data.split={starts} must rise and lie within the table, {dates[0]} to {dates[-1]}"
        )
    return int(train_end), int(val_end), len(dates)
