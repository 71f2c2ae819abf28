"""Facts about the series of a panel: lengths, gaps, constant series, and series without windows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from forecast.data import Panel
from forecast.tools.check.columns import SeriesColumn
from forecast.tools.check.gaps import Gaps, SplitPart

SAMPLED = 8
"""Number of series, the longest, in which seasons are searched."""
MAX_NAMED = 4
"""Largest number of series named in a line."""


@dataclass(frozen=True)
class SeriesFacts:
    """Counts of series, and the names of the first or worst of them.

    Attributes:
        shortest, median, longest: rows up to the end of a series.
        with_gaps: series with missing rows or numbers.
        most_gaps: the series with the most gaps, and their numbers of missing rows and numbers.
        constant: series with a constant column.
        constant_in_training: other series with a column that is constant in the training rows.
        without_windows: by split, the series that are too short for a window.
    """

    count: int
    shortest: int
    median: int
    longest: int
    with_gaps: int
    most_gaps: tuple[tuple[str, int], ...]
    constant: tuple[int, tuple[str, ...]]
    constant_in_training: tuple[int, tuple[str, ...]]
    without_windows: dict[str, tuple[int, tuple[str, ...]]]


def measure_series(
    panel: Panel,
    gaps: Gaps,
    by_series: Sequence[Sequence[SeriesColumn]],
    parts: Sequence[SplitPart],
    lengths: tuple[int, int],
) -> SeriesFacts:
    """The facts about the series of `panel`.

    Args:
        panel: the panel of the file.
        gaps: its gaps.
        by_series: facts about each column of each series (columns, series).
        parts: its splits.
        lengths: seq_len and pred_len.
    """

    def name(chosen: Sequence[bool] | np.ndarray) -> tuple[int, tuple[str, ...]]:
        numbers = np.flatnonzero(np.asarray(chosen))
        return len(numbers), tuple(str(each) for each in panel.ids[numbers[:MAX_NAMED]])

    rows = np.sort(panel.lengths)
    worst = np.argsort(-gaps.by_series, kind="stable")[:MAX_NAMED]
    constant = np.any([[each.constant for each in column] for column in by_series], axis=0)
    in_training = np.any([[each.constant_in_training for each in column] for column in by_series], axis=0)
    return SeriesFacts(
        count=len(panel),
        shortest=int(rows[0]),
        median=int(rows[(len(rows) - 1) // 2]),
        longest=int(rows[-1]),
        with_gaps=int((gaps.by_series > 0).sum()),
        most_gaps=tuple((str(panel.ids[s]), int(gaps.by_series[s])) for s in worst if gaps.by_series[s]),
        constant=name(constant),
        constant_in_training=name(in_training & ~constant),
        without_windows={part.name: name(part.windows(*lengths) == 0) for part in parts},
    )


def choose_longest(panel: Panel) -> Int64[np.ndarray, " chosen"]:
    """The numbers of the longest series, at most `SAMPLED`; none is shorter than half of the longest."""
    longest = np.argsort(-panel.lengths, kind="stable")[:SAMPLED]
    return longest[2 * panel.lengths[longest] >= panel.lengths.max()]


def last_rows(
    panel: Panel, series: Int64[np.ndarray, " chosen"], columns: Sequence[int]
) -> Float64[np.ndarray, "rows series_columns"]:
    """These columns of these series side by side, series after series: as many last rows as the shortest one has."""
    rows, values = int(panel.lengths[series].min()), np.asarray(panel.values)
    return np.hstack([values[end - rows : end, list(columns)] for end in panel.ends[series].tolist()])


def training_rows(
    panel: Panel, series: Int64[np.ndarray, " chosen"], columns: Sequence[int], train: SplitPart
) -> list[Float64[np.ndarray, "_ columns"]]:
    """These columns in the training rows of each of these series; series without training rows are left out."""
    values = np.asarray(panel.values)
    borders = zip(train.first[series].tolist(), train.stop[series].tolist(), strict=True)
    return [values[first:last, list(columns)] for first, last in borders if last > first]
