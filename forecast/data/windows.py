"""Windows of a panel, gathered a batch at a time."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from forecast.data.fill import Fill
from forecast.data.step_features import Rows, StepFeatures, TensorRows


class Batch(NamedTuple):
    """Some windows of one split: scaled values, float32. Missing ones are completed in `past`, NaN in `future`."""

    past: Float[Tensor, "batch seq_len n_features"]
    past_time: Float[Tensor, "batch seq_len n_time_features"]
    future: Float[Tensor, "batch pred_len n_targets"]
    future_time: Float[Tensor, "batch pred_len n_time_features"]
    index: Int64[Tensor, " batch"]  # number of the window within its split
    series: Int64[Tensor, " batch"]  # number of the series that the window lies in


class Windows:
    """The windows of one split, numbered consecutively across series.

    All splits share `values` and `time`; nothing is copied before a batch is gathered.

    Args:
        values: scaled rows of the panel (rows, n_features), NaN where missing.
        time: calendar features, future covariates and static features of the rows.
        starts: for each series, the first rows of its windows; all ranges have the same step.
        first_rows: first row of each series (series,); nothing before it may be read.
        seq_len, pred_len: rows of the past and of the future of a window.
        target_index: columns of `values` that are forecast.
        fill: how missing values of the past are completed; None: no value is missing.
    """

    def __init__(
        self,
        values: Rows,
        time: StepFeatures,
        *,
        starts: Sequence[range],
        first_rows: Int64[Tensor, " series"],
        seq_len: int,
        pred_len: int,
        target_index: list[int],
        fill: Fill | None = None,
    ) -> None:
        device = values.device
        self.values, self.time, self.first_rows = values, time, first_rows.to(device)
        self.fill = fill and fill.to(device)
        self.starts, self.seq_len, self.pred_len, self.target_index = starts, seq_len, pred_len, target_index
        self.stride = starts[0].step
        counts = torch.tensor([len(rows) for rows in starts], device=device)
        self._ends = counts.cumsum(0)  # number of the window after the last one of each series
        # window i of series s begins at row i · stride + _shifts[s]
        firsts = torch.tensor([rows.start for rows in starts], device=device)
        self._shifts = firsts - (self._ends - counts) * self.stride
        self.count = int(self._ends[-1])
        self._has_all_columns = target_index == list(range(values.n_columns))
        self._target_columns = torch.tensor(target_index, device=device)

    def __len__(self) -> int:
        return self.count

    @property
    def device(self) -> torch.device:
        return self.values.device

    @property
    def overlap(self) -> int:
        """Number of consecutive dates whose windows share a step; series may be shifted against each other by one."""
        return -(-self.pred_len // (self.stride if len(self.starts) == 1 else 1))

    def count_horizons(self, every: int | float = 1, pred_len: int | None = None) -> float:
        """Count the horizons that the rows of every n-th window hold: one in each series, and one for each `pred_len`
        further rows, but at most one for each of these windows."""
        spacing = min(1, self.stride * every / (pred_len or self.pred_len))
        counts = [len(rows) for rows in self.starts if len(rows)]
        further = (sum(counts) - len(counts)) / every
        return float(min(len(counts) + further * spacing, math.ceil(sum(counts) / every)))

    def series(self, index: Int64[Tensor, " batch"]) -> Int64[Tensor, " batch"]:
        """The number of the series that each window lies in."""
        return torch.bucketize(index, self._ends, right=True)

    def origins(self, index: Int64[Tensor, " batch"]) -> Int64[Tensor, " batch"]:
        """The first row that each window forecasts."""
        return index * self.stride + self._shifts[self.series(index)] + self.seq_len

    def gather(self, index: Int64[Tensor, " batch"]) -> Batch:
        """The windows with these numbers, in this order. `index` lies on the device of the windows."""
        future = self.values.windows(self.origins(index), self.pred_len)
        return self.gather_past(index)._replace(
            future=future if self._has_all_columns else future.index_select(2, self._target_columns)
        )

    def gather_past(self, index: Int64[Tensor, " batch"]) -> Batch:
        """The windows with these numbers, with NaN for `future`, whose rows may lie after the end of the panel."""
        series, origins = self.series(index), self.origins(index)
        first = origins - self.seq_len
        past = read_past(self.values, self.fill, first, self.seq_len, series)
        return Batch(
            past=past,
            past_time=self.time.past(first, self.seq_len, series),
            future=past.new_full((len(index), self.pred_len, len(self.target_index)), torch.nan),
            future_time=self.time.ahead(origins, self.pred_len, series),
            index=index,
            series=series,
        )

    def measured(self, index: Int64[Tensor, " batch"]) -> Bool[Tensor, "batch seq_len n_features"]:
        """Whether the values in the pasts of these windows were measured, not completed."""
        return ~self.values.windows(self.origins(index) - self.seq_len, self.seq_len).isnan()

    def targets(self, rows: Int64[Tensor, "*shape"] | slice) -> Float[Tensor, "*shape n_targets"]:
        """The scaled targets of these rows of the panel, NaN where missing."""
        return self.values[rows][..., self.target_index]

    def with_starts(self, starts: Sequence[range], *, pred_len: int | None = None) -> "Windows":
        """Windows of the same rows that begin at other rows; `pred_len` may be longer or shorter."""
        return self._like(starts=starts, pred_len=pred_len or self.pred_len)

    def to(self, device: torch.device | str) -> "Windows":
        """The same windows of a copy of the rows on another device."""
        return self._like(values=self.values.to(device), time=self.time.to(device))

    def with_rows(self, values: Rows, time: StepFeatures) -> "Windows":
        """The same windows of a copy of the rows."""
        return self._like(values=values, time=time)

    def of_targets(self, targets: Sequence[int]) -> "Windows":
        """Windows of some of the targets alone, by their positions; the rows must be in memory."""
        columns = [self.target_index[target] for target in targets]
        return self._like(
            values=TensorRows(self.values[:][:, columns]),
            target_index=list(range(len(columns))),
            fill=self.fill and self.fill.select(columns),
        )

    def _like(self, **changes: Any) -> "Windows":
        """The same windows with other arguments of the constructor."""
        names = ("values", "time", "starts", "first_rows", "seq_len", "pred_len", "target_index", "fill")
        return Windows(**{name: getattr(self, name) for name in names} | changes)


def read_past(
    values: Rows,
    fill: Fill | None,
    first: Int64[Tensor, " batch"],
    length: int,
    series: Int64[Tensor, " batch"],
) -> Float[Tensor, "batch {length} n_features"]:
    """Windows of `length` rows before a forecast, with missing values completed."""
    past = values.windows(first, length)
    return past if fill is None else fill.complete(past, series)
