"""Chronological split of a panel into training, validation and test rows, and the rows at which windows begin.

`split` takes one of four forms:

- `[12, 4, 4]`: months of 30 days, as papers split ETT; rows after the last month are not used;
- `[0.7, 0.1, 0.2]`: fractions of the rows, as papers split the other sets (training and test are rounded down);
- `[2017-07-01, 2017-11-01]`: the first date of validation and the first date of test;
- `train` or `test`: all rows belong to that split, and there is no other.
"""

import warnings
from collections.abc import Mapping, Sequence
from math import gcd
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool

from forecast.data.panel import Panel, name_some
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


EVALUATED_WINDOWS = 50_000
"""Largest number of validation or test windows if `eval_stride` is null."""

SplitRows = Mapping[str, RowRanges]
"""Rows of each series, by split."""


def find_window_starts(
    name: str,
    panel: Panel,
    rows: SplitRows,
    has_scale: Bool[np.ndarray, " series"],
    *,
    seq_len: int,
    pred_len: int,
    eval_stride: int,
) -> dict[str, list[range]]:
    """For each split: for each series, the first rows of its windows.

    The pasts of validation and test may lie before their split, so that every row of the split is forecast. Warns of
    series without a window. Raises DataError for a split without any.
    """
    starts = {}
    for split, (first, last) in rows.items():
        stride = 1 if split == "train" else eval_stride
        begin = first if split == "train" else np.maximum(panel.starts, first - seq_len)
        end = np.where(has_scale, last - seq_len - pred_len + 1, begin)
        begin = begin + (end - 1 - begin) % stride  # the last window always counts
        starts[split] = [
            range(a, max(a, b), stride) for a, b in zip(begin.tolist(), end.tolist(), strict=True)
        ]
    without = {split: np.array([not own for own in of_series]) for split, of_series in starts.items()}
    for split, is_without in without.items():
        if is_without.all():
            needed = pred_len + (seq_len if split == "train" else 0)
            lengths = f"seq_len={seq_len}, pred_len={pred_len}"
            raise refuse_short_split(name, split, needed, lengths, rows[split].stop - rows[split].first)
    if found := [
        f"{int(each.sum()):,} {split} ({name_some(panel, each)})"
        for split, each in without.items()
        if each.any()
    ]:
        warnings.warn(
            f"{name}: of {len(panel):,} series some have too few rows for a window: {', '.join(found)}",
            stacklevel=2,
        )
    return starts


def refuse_short_split(name: str, split: str, needed: int, lengths: str, rows: PerSeries) -> DataError:
    """The error of a split without windows.

    Args:
        needed: rows of a series that a window needs.
        lengths: the settings that it needs them for.
        rows: rows of each series in the split.
    """
    has = "the longest series has" if len(rows) > 1 else "there are"
    return DataError(
        f"{name}: the {split} split needs {needed:,} rows ({lengths}), and {has} {int(rows.max()):,}: give more rows, "
        "shorter windows or another data.split"
    )


def check_season(name: str, season: int, key: str, rows: SplitRows, window: int) -> None:
    """Raise DataError if the training rows of a single series are no longer than a season; `key` says what set it.

    The seasonal-naive baseline needs a whole season. Among several series, short ones repeat their last value.
    """
    if "train" not in rows or len(rows["train"].first) > 1:
        return
    length = int(rows["train"].stop[0] - rows["train"].first[0])
    if season >= length >= window:  # shorter rows are refused for their windows
        raise DataError(
            f"{name}: {key} is {season} rows, and there are {length:,} training rows: give more rows, or set a "
            "shorter data.season (1: none)"
        )


def choose_eval_stride(rows: SplitRows, pred_len: int, season: int) -> int:
    """Return the stride that leaves at most `EVALUATED_WINDOWS` windows of validation and of test."""
    counts = [
        int((last - first - pred_len + 1).clip(0).sum())
        for split, (first, last) in rows.items()
        if split != "train"
    ]
    return spread_stride(max(counts, default=1), EVALUATED_WINDOWS, season)


def warn_of_times_of_day(name: str, stride: int, day: int) -> None:
    """Warn if the windows that a stride chooses do not begin at all times of day; `day`: the number of rows of a day.

    Those of validation and test may then begin at different times, to which the widths of the intervals do not apply.
    """
    if stride > 1 and (times := day // gcd(stride, day)) < day:
        warnings.warn(
            f"{name}: with data.eval_stride={stride}, the windows of validation and of test begin at {times} of {day} "
            "times of day, perhaps at different ones: scores and intervals depend on that; "
            f"data.eval_stride={spread_stride(stride, 1, day)} has all of them",
            stacklevel=2,
        )


def spread_stride(windows: int, most: int, season: int) -> int:
    """Return the smallest stride that leaves at most `most` windows and shares no factor with the season, 2, 3, 5 or 7.

    Then forecasts begin at all hours, weekdays and phases of the season. With 24 hours, all would begin at midnight.
    """
    stride = -(-windows // most)
    while stride > 1 and gcd(stride, season * 2 * 3 * 5 * 7) > 1:
        stride += 1
    return max(1, stride)
