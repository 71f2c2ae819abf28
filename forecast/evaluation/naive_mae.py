"""The denominator of MASE: the mean absolute error of the seasonal naive on the training rows of each series."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from forecast.data.row_ranges import RowRanges, ranges, series_slices
from forecast.data.rows import Rows
from forecast.data.scaling.scaler import Scaler

ROWS_AT_ONCE = 1 << 15
"""Number of rows of a long series that are read at once."""


@dataclass(frozen=True)
class TargetValues:
    """The targets of a panel, read in original units.

    Attributes:
        values: scaled columns of the panel.
        columns: the targets among them.
        scaler: of the targets.
    """

    values: Rows
    columns: Sequence[int]
    scaler: Scaler

    def of_series(self, series: int, rows: slice) -> Float64[Tensor, "rows n_targets"]:
        """The values of these rows, which are of one series."""
        return self.scaler.inverse(self.values[rows][:, self.columns], series)

    def of_rows(
        self, series: Int64[np.ndarray, " rows"], rows: Int64[np.ndarray, " rows"]
    ) -> Float64[Tensor, "rows n_targets"]:
        """The values of these rows; row i is of series[i]."""
        found = self.values[torch.from_numpy(rows).to(self.values.device)][:, None, self.columns]
        return self.scaler.inverse(found, torch.from_numpy(series))[:, 0]


def seasonal_naive_mae(
    values: TargetValues, rows: RowRanges, season: int
) -> Float64[Tensor, "series n_targets"]:
    """Mean |y(t) − y(t − season)| over these rows of each series, in original units.

    Pairs with a missing value do not count. A series with no more rows than a season uses season 1. A series without a
    pair gets NaN. Source: Hyndman and Koehler 2006.
    """
    lengths = rows.stop - rows.first
    lag = np.where(lengths > season, season, 1)
    later = RowRanges(rows.first + lag, rows.stop)  # the rows t
    found = np.full((len(lengths), len(values.columns)), np.nan)
    for some in series_slices(np.maximum(lengths, 1)):
        series = np.flatnonzero(lengths[some] > lag[some]) + some.start
        if len(series) == 1:
            found[series] = _mean_change(values, int(series[0]), later, int(lag[series[0]]))
        elif len(series):
            found[series] = _mean_changes(values, series, later, lag[series])
    return torch.from_numpy(found)


def _mean_change(
    values: TargetValues, series: int, later: RowRanges, lag: int
) -> Float64[np.ndarray, " n_targets"]:
    """Mean |y(t) − y(t − lag)| of one series, of which `ROWS_AT_ONCE` rows are in memory at once."""
    total, count, last = 0.0, 0, int(later.stop[series])
    for begin in range(int(later.first[series]), last, ROWS_AT_ONCE):
        end = min(begin + ROWS_AT_ONCE, last)
        now, before = (values.of_series(series, slice(begin - back, end - back)) for back in (0, lag))
        change = (now - before).abs().cpu()
        total, count = total + change.nansum(0), count + change.isfinite().sum(0)
    return (total / count).numpy()  # type: ignore[union-attr]


def _mean_changes(
    values: TargetValues,
    series: Int64[np.ndarray, " some"],
    later: RowRanges,
    lag: Int64[np.ndarray, " some"],
) -> Float64[np.ndarray, "some n_targets"]:
    """Mean |y(t) − y(t − lag)| of each of several series, whose rows are in memory together."""
    first, last = later.first[series], later.stop[series]
    pairs, rows = last - first, ranges(first, last)
    own = np.repeat(series, pairs)
    now, before = (values.of_rows(own, each) for each in (rows, rows - np.repeat(lag, pairs)))
    change = (now - before).abs().cpu().numpy()
    begins, there = pairs.cumsum() - pairs, np.isfinite(change)
    count = np.add.reduceat(there, begins, dtype=np.int64)
    total = np.add.reduceat(np.where(there, change, 0.0), begins)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
