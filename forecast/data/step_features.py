"""Step features of windows: calendar features, future covariates, masks of missing values, and static features."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float32, Int64
from torch import Tensor

from forecast.data.future_covariates import FutureCovariates
from forecast.data.panel import Panel
from forecast.data.rows import DatedRows, Rows, TensorRows


@dataclass(frozen=True)
class StepFeatures:
    """Calendar features, future covariates with their masks, and static features, in this order.

    Row r of series s has the calendar features of row r + shifts[s] of `calendar`. `future` is None without future
    covariates.
    """

    calendar: Rows
    shifts: Int64[Tensor, " series"]
    future: FutureCovariates | None
    static: Float32[Tensor, "series n_static"]

    @property
    def n_features(self) -> int:
        return self.calendar.n_columns + (self.future.n_columns if self.future else 0) + self.static.shape[1]

    def past(
        self, first: Int64[Tensor, " batch"], length: int, series: Int64[Tensor, " batch"]
    ) -> Float32[Tensor, "batch {length} n_time_features"]:
        """Windows of `length` rows before a forecast origin, which begin at the rows `first` of these series."""
        covariates = None if self.future is None else self.future.past_windows(first, length)
        return self._join(first, length, series, covariates)

    def ahead(
        self, origins: Int64[Tensor, " batch"], length: int, series: Int64[Tensor, " batch"]
    ) -> Float32[Tensor, "batch {length} n_time_features"]:
        """Windows of `length` rows after these forecast origins, as they are known at the origins.

        Rows may lie after the last row of the panel where there are no future covariates.
        """
        covariates = None if self.future is None else self.future.known_windows(origins, length)
        return self._join(origins, length, series, covariates)

    def _join(
        self,
        first: Int64[Tensor, " batch"],
        length: int,
        series: Int64[Tensor, " batch"],
        covariates: Float32[Tensor, "batch {length} columns"] | None,
    ) -> Float32[Tensor, "batch {length} n_time_features"]:
        parts = [self.calendar.windows(first + self.shifts[series], length)]
        if covariates is not None:
            parts.append(covariates)
        if self.static.shape[1]:
            parts.append(self.static[series][:, None].expand(-1, length, -1))
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def to(self, device: torch.device | str) -> "StepFeatures":
        future = self.future and self.future.to(device)
        return StepFeatures(self.calendar.to(device), self.shifts.to(device), future, self.static.to(device))


def calendar_rows(panel: Panel, timezone: str | None, holidays: str | None) -> Rows:
    """The calendar features of local times in a time zone."""
    rows = DatedRows(panel.grid, panel.freq, holidays, replace(panel.utc_offset, timezone=timezone))
    return rows if panel.is_on_disk else TensorRows(rows[:])
