"""Windows over many series, and what a model is told of their rows beside the values."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float32, Int64
from torch import Tensor

from forecast.data.windows import Batch, Windows


@dataclass(frozen=True)
class SeriesTime:
    """The time features of a row: its date's, what is known ahead of it, and what its series never changes.

    Row r of series s has the date number r + shifts[s]. Rows may lie beyond `known` only where it has no columns.
    """

    calendar: Float32[Tensor, "dates n_calendar"]
    shifts: Int64[Tensor, " series"]
    known: Float32[Tensor, "rows n_known"]
    static: Float32[Tensor, "series n_static"]

    @property
    def n_features(self) -> int:
        return sum(part.shape[1] for part in (self.calendar, self.known, self.static))

    def of(
        self, rows: Int64[Tensor, "batch steps"], series: Int64[Tensor, " batch"]
    ) -> Float[Tensor, "batch steps n_time_features"]:
        parts = [self.calendar[rows + self.shifts[series][:, None]]]
        if self.known.shape[1]:
            parts.append(self.known[rows])
        if self.static.shape[1]:
            parts.append(self.static[series][:, None].expand(-1, rows.shape[1], -1))
        return torch.cat(parts, dim=-1)

    def to(self, device: torch.device | str) -> "SeriesTime":
        return SeriesTime(*(part.to(device) for part in vars(self).values()))


class SeriesWindows(Windows):
    """The windows of one split of many series, none crossing from one to the next.

    `first_rows` holds the row at which each series begins: nothing before it may be read.
    """

    def __init__(
        self,
        values: Float[Tensor, "rows n_features"],
        time: SeriesTime,
        *,
        starts: Sequence[range],
        first_rows: Int64[Tensor, " series"],
        seq_len: int,
        pred_len: int,
        target_index: list[int],
    ) -> None:
        self.values, self.time, self.first_rows = values, time, first_rows
        self._number(starts, seq_len, pred_len, target_index)

    def gather(self, index: Int64[Tensor, " batch"]) -> Batch:
        """The windows of these numbers, in this order. `index` lies on the device of `values`."""
        series, origins = self.series(index), self.origins(index)[:, None]
        past = origins + torch.arange(-self.seq_len, 0, device=index.device)
        future = origins + torch.arange(self.pred_len, device=index.device)
        return Batch(
            past=self.values[past],
            past_time=self.time.of(past, series),
            future=self.values[future][..., self.target_index],
            future_time=self.time.of(future, series),
            index=index,
        )

    def begins(self, index: Int64[Tensor, " batch"]) -> Int64[Tensor, " batch"]:
        return self.first_rows[self.series(index)]

    def over(self, values: Float[Tensor, "rows n_features"], time: SeriesTime) -> "SeriesWindows":
        """The same windows over another copy of the table, such as one on a device."""
        return SeriesWindows(
            values,
            time,
            starts=self.starts,
            first_rows=self.first_rows.to(values.device),
            seq_len=self.seq_len,
            pred_len=self.pred_len,
            target_index=self.target_index,
        )
