"""The rows and the windows of each split. Imports no torch."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int64

from forecast.data import Panel
from forecast.data.row_ranges import PerSeries
from forecast.data.split import Split, split_panel
from forecast.system.errors import ConfigError, DataError
from forecast.tools.check.gaps import date_at


@dataclass(frozen=True)
class SplitPart:
    """One split: the rows first[s] … stop[s] − 1 of each series s of a panel.

    Attributes:
        history: rows of each series before `first`, from which windows of validation and test may take their past.
        has_scale: the series that can be scaled; one without training rows has no windows unless data.scale_by=all.
        begins, ends: the first and the last date of any series.
    """

    name: str
    first: PerSeries
    stop: PerSeries
    history: PerSeries
    has_scale: Bool[np.ndarray, " series"]
    begins: pd.Timestamp
    ends: pd.Timestamp

    @property
    def lengths(self) -> PerSeries:
        return self.stop - self.first

    @property
    def n_rows(self) -> int:
        return int(self.lengths.sum())

    @property
    def longest(self) -> int:
        return int(self.lengths.max())

    @property
    def typical(self) -> int:
        """The median number of rows of the series that have rows in this split and in training."""
        used = np.sort(self.lengths[self.has_scale & (self.lengths > 0)])
        return int(used[(len(used) - 1) // 2]) if len(used) else 0

    def windows(self, seq_len: int, pred_len: int) -> Int64[np.ndarray, " series"]:
        """The number of windows of each series."""
        own = pred_len + np.maximum(0, seq_len - self.history)
        return np.where(self.has_scale, np.maximum(0, self.lengths - own + 1), 0)


def split_parts(panel: Panel, split: Split, scale_by: str = "series") -> list[SplitPart]:
    """Split each series into training, validation and test rows; `scale_by` as in `DataModule`.

    Raises:
        ConfigError: a `split` of one part.
        DataError: a split without rows.
    """
    rows = split_panel(panel, split, seq_len=1, season=1)
    if set(rows) != {"train", "val", "test"}:
        raise ConfigError(f"data.split={split} is one part: leave it out, or give all three")
    has_scale = (rows["train"][1] > rows["train"][0]) | (scale_by == "all")
    parts = []
    for name, (first, last) in rows.items():
        used = last > first
        if not used.any():
            raise DataError(
                f"{panel.n_rows} rows leave none for the {name} part: give more rows, or another data.split"
            )
        begins = date_at(panel.local_dates(first[used]).sort_values(), 0)
        ends = date_at(panel.local_dates(last[used] - 1).sort_values(), -1)
        parts.append(SplitPart(name, first, last, first - panel.starts, has_scale, begins, ends))
    return parts


@dataclass(frozen=True)
class BaselineScores:
    """Scores of the baselines, best first, on `windows` test windows (every `every`-th of them)."""

    scores: dict[str, dict[str, float]]
    windows: int
    every: int
    season: int
