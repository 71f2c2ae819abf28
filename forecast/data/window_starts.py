"""Rows at which the windows of each split begin."""

import warnings
from collections.abc import Mapping
from math import gcd

import numpy as np
from jaxtyping import Bool

from forecast.data.panel import Panel, name_some
from forecast.data.row_ranges import PerSeries, RowRanges
from forecast.system.errors import DataError

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
