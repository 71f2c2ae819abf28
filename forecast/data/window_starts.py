"""Rows at which the windows of each split begin."""

import warnings
from collections.abc import Mapping
from math import gcd

import numpy as np
from jaxtyping import Bool

from forecast.data.panel import Panel
from forecast.data.row_ranges import RowRanges
from forecast.system.errors import DataError

EVALUATED_WINDOWS = 50_000
"""Windows of validation and of test at most, where `eval_stride` is null."""

SplitRows = Mapping[str, RowRanges]
"""Of each split, the rows of every series."""


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
    without = {split: sum(not own for own in of_series) for split, of_series in starts.items()}
    for split, count in without.items():
        if count == len(panel):
            needed = pred_len + (seq_len if split == "train" else 0)
            longest = int((rows[split].last - rows[split].first).max())
            has = "the longest series has" if len(panel) > 1 else "there are"
            raise DataError(
                f"{name}: the {split} split needs {needed:,} rows (seq_len={seq_len}, pred_len={pred_len}), and {has} "
                f"{longest:,}: give more rows, shorter windows or another data.split"
            )
    if any(without.values()):
        counts = ", ".join(f"{count:,} {split}" for split, count in without.items() if count)
        warnings.warn(
            f"{name}: of {len(panel):,} series some have too few rows for a window: {counts}", stacklevel=2
        )
    return starts


def check_season(name: str, season: int, key: str, rows: SplitRows, window: int) -> None:
    """Raises DataError for a season of one series that its training rows do not hold; `key` says what set it.

    The seasonal-naive baseline needs a whole season. Among several series, short ones repeat their last value.
    """
    if "train" not in rows or len(rows["train"].first) > 1:
        return
    length = int(rows["train"].last[0] - rows["train"].first[0])
    if season >= length >= window:  # shorter rows are refused for their windows
        raise DataError(
            f"{name}: {key} is {season} rows, and there are {length:,} training rows: give more rows, or set a "
            "shorter data.season (1: none)"
        )


def choose_eval_stride(rows: SplitRows, pred_len: int, season: int) -> int:
    """The stride that leaves at most `EVALUATED_WINDOWS` windows of validation and of test."""
    counts = [
        int((last - first - pred_len + 1).clip(0).sum())
        for split, (first, last) in rows.items()
        if split != "train"
    ]
    return spread_stride(max(counts, default=1), EVALUATED_WINDOWS, season)


def spread_stride(windows: int, most: int, season: int) -> int:
    """The smallest stride that leaves at most `most` windows and meets every hour, weekday and phase of the season.

    It shares no factor with the season, nor with 2, 3, 5 and 7, of which calendars are made: a stride of 24 hours
    would only forecast from midnight.
    """
    stride = -(-windows // most)
    while stride > 1 and gcd(stride, season * 2 * 3 * 5 * 7) > 1:
        stride += 1
    return max(1, stride)
