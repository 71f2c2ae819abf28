"""Chronological split of a panel into training, validation and test rows, and the rows at which windows begin.

`split` takes one of four forms:

- `[12, 4, 4]`: months of 30 days, as papers split ETT; rows after the last month are not used;
- `[0.7, 0.1, 0.2]`: fractions of the rows, as papers split the other sets (training and test are rounded down);
- `[2017-07-01, 2017-11-01]`: the first date of validation and the first date of test;
- `train` or `test`: all rows belong to that split, and there is no other.
"""

import warnings
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import gcd
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool

from forecast.data.calendars import UtcOffset, check_year
from forecast.data.panel import Panel, name_some
from forecast.data.row_ranges import PerSeries, RowRanges
from forecast.data.time_features import rows_in
from forecast.system.errors import ConfigError, DataError

Split = Sequence[int | float | str] | str

SPLITS = ("train", "val", "test")


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
    """The rows of every series in each split: consecutive ranges.

    Dates are the same for all series; months and fractions count from the beginning of each series. A series that is
    too short has no rows. With `split="test"` the first `seq_len` rows are history alone; of a single series a
    season, where that is longer and leaves rows to forecast, so that the seasonal-naive baseline has one.

    Raises ConfigError for dates that the panel does not have, and DataError if every series is too short.
    """
    check_split(split)
    lengths = panel.lengths
    if isinstance(split, str):
        # among several series, the seasonal naive repeats the last value of a short one
        has_season = (len(panel) == 1) & (lengths > season)
        history = np.minimum(np.where(has_season, max(seq_len, season), seq_len), lengths)
        return {split: RowRanges(panel.starts + (history if split == "test" else 0), panel.ends)}
    borders = [panel.starts + rows.clip(0, lengths) for rows in (0 * lengths, *_find_borders(panel, split))]
    return {name: RowRanges(*rows) for name, rows in zip(SPLITS, pairwise(borders), strict=True)}


def _find_borders(panel: Panel, split: Sequence[Any]) -> tuple[PerSeries, ...]:
    """The first row of validation, that of test, and the row after it, counted from the start of each series."""
    lengths = panel.lengths
    if len(split) == 2:
        val, test = _find_dates(panel.grid, [str(date) for date in split], panel.utc_offset)
        return val - panel.grid_starts, test - panel.grid_starts, lengths
    if not _counts_months(split):
        train, _, test = ((lengths * fraction).astype(np.int64) for fraction in split)
        return train, lengths - test, lengths
    per_month = 0 if panel.calendar is not None else rows_in(days=30, freq=panel.freq)
    given = f"data.split={list(split)}"
    if per_month == 0:
        problem = f"which the step of the rows ({panel.describe_step()}) does not divide"
        raise ConfigError(f"{given} counts months of 30 days, {problem}: give fractions or dates")
    borders = np.cumsum(split) * per_month
    if (longest := lengths.max()) < borders[-1]:
        raise DataError(f"{given} needs {borders[-1]:,} rows ({panel.freq}), and the table has {longest:,}")
    return tuple(np.where(lengths < borders[-1], 0, border) for border in borders)


def _counts_months(split: Split) -> bool:
    return not isinstance(split, str) and len(split) == 3 and all(type(number) is int for number in split)


def _find_dates(dates: pd.DatetimeIndex, starts: list[str], utc_offset: UtcOffset) -> tuple[int, int]:
    given = f"data.split={starts}"
    read = [pd.to_datetime(start, format="ISO8601", errors="coerce") for start in starts]
    for start, date in zip(starts, read, strict=True):
        if pd.isna(date):
            raise ConfigError(f"{given}: {start!r} is not a date such as 2017-07-01")
        check_year(given, date)
    val, test = np.searchsorted(dates.to_numpy(), utc_offset.read_setting(given, read)).tolist()
    if not 0 < val < test < len(dates):
        ends = " and ".join(map(str, utc_offset.shown(dates[[0, -1]])))
        where = f"after the first date of the table and not after the last one, {ends}"
        raise ConfigError(f"{given} must rise and lie {where}")
    return val, test


EVALUATED_WINDOWS = 50_000  # largest number of validation or test windows if `eval_stride` is null
SplitRows = Mapping[str, RowRanges]  # rows of each series, by split


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
        pairs = zip(begin.tolist(), end.tolist(), strict=True)
        starts[split] = [range(a, max(a, b), stride) for a, b in pairs]
    without = {split: np.array([not own for own in of_series]) for split, of_series in starts.items()}
    for split, is_without in without.items():
        if is_without.all():
            needed = pred_len + (seq_len if split == "train" else 0)
            longest = int((rows[split].stop - rows[split].first).max())
            has = f"the longest series has {longest:,}" if len(panel) > 1 else f"there are {longest:,}"
            raise DataError(
                f"{name}: the {split} split needs {needed:,} rows (seq_len={seq_len}, pred_len={pred_len}), and {has}: "
                "give more rows, shorter windows or another data.split"
            )
    some = {split: each for split, each in without.items() if each.any()}
    if some:
        named = ", ".join(f"{int(each.sum()):,} {split} ({name_some(panel, each)})" for split, each in some.items())
        problem = f"of {len(panel):,} series some have too few rows for a window"
        warnings.warn(f"{name}: {problem}: {named}", stacklevel=2)
    return starts


def check_season(name: str, season: int, key: str, rows: SplitRows, window: int) -> None:
    """Raise DataError if the training rows of a single series are no longer than a season, which `key` set.

    The seasonal-naive baseline needs a whole season. Among several series, short ones repeat their last value.
    """
    lengths = rows["train"].stop - rows["train"].first if "train" in rows else np.array([])
    if len(lengths) == 1 and season >= lengths[0] >= window:  # shorter rows are refused for their windows
        problem = f"{key} is {season} rows, and there are {lengths[0]:,} training rows"
        raise DataError(f"{name}: {problem}: give more rows, or set a shorter data.season (1: none)")


def choose_eval_stride(rows: SplitRows, pred_len: int, season: int) -> int:
    """The stride that leaves at most `EVALUATED_WINDOWS` windows of validation and of test."""
    evaluated = [each for split, each in rows.items() if split != "train"]
    counts = [int((last - first - pred_len + 1).clip(0).sum()) for first, last in evaluated]
    return spread_stride(max(counts, default=1), EVALUATED_WINDOWS, season)


def spread_stride(windows: int, most: int, season: int) -> int:
    """Return the smallest stride that leaves at most `most` windows and shares no factor with the season, 2, 3, 5 or 7.

    Then forecasts begin at all hours, weekdays and phases of the season. With 24 hours, all would begin at midnight.
    """
    stride = -(-windows // most)
    while stride > 1 and gcd(stride, season * 2 * 3 * 5 * 7) > 1:
        stride += 1
    return max(1, stride)
