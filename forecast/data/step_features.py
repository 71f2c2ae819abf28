"""Step features of windows: calendar features, future covariates, masks, static features."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Float32, Int64
from torch import Tensor

from forecast.data.calendars import UtcOffset
from forecast.data.panel import Panel
from forecast.data.row_ranges import PerSeries, StoredValues, find_measured
from forecast.data.scaler import Scaler
from forecast.data.time_features import time_feature_names, time_features

Index = Int64[Tensor, " batch"]
Steps = Float32[Tensor, "batch {length} columns"]


class Rows(ABC):
    """Rows of numbers (rows, columns), float32, in memory, on a device or on disk."""

    device, is_on_disk = torch.device("cpu"), False
    n_columns: int

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def windows(self, first: Index, length: int) -> Steps:
        """Windows of `length` rows that begin at these rows."""

    def __getitem__(self, rows: Int64[Tensor, "*shape"] | slice) -> Float32[Tensor, "*shape columns"]:
        if isinstance(rows, slice):
            rows = torch.arange(*rows.indices(len(self)))
        return self.windows(rows.flatten(), 1)[:, 0].unflatten(0, rows.shape)

    def to(self, device: torch.device | str) -> "Rows":
        """The rows on another device; only those in a tensor move."""
        return self


class TensorRows(Rows):
    def __init__(self, tensor: Float32[Tensor, "rows columns"]) -> None:
        self.tensor, self.device, self.n_columns = tensor, tensor.device, tensor.shape[1]

    def __len__(self) -> int:
        return len(self.tensor)

    def __getitem__(self, rows: Any) -> Float32[Tensor, "*shape columns"]:
        return self.tensor[rows]

    def windows(self, first: Index, length: int) -> Steps:
        return slide(self.tensor, length).index_select(0, first)

    def to(self, device: torch.device | str) -> "TensorRows":
        return TensorRows(self.tensor.to(device))


class DiskRows(Rows):
    """Scaled rows of values on disk; read, scaled and converted when they are indexed."""

    is_on_disk = True

    def __init__(self, values: StoredValues, scaler: Scaler, starts: PerSeries) -> None:
        """`starts` are the first rows of the series that the scaler scales."""
        self.values, self.scaler, self.n_columns = values, scaler, len(values.index)
        self._starts = torch.from_numpy(starts)
        self._raw = tensor_of(values.remapped_for_random_access())

    def __len__(self) -> int:
        return len(self.values)

    def windows(self, first: Index, length: int) -> Steps:
        raw = slide(self._raw, length).index_select(0, first)
        series = (torch.bucketize(first, self._starts, right=True) - 1).clamp(min=0)
        values = tensor_of(self.values.choose(raw.numpy()))
        return self.scaler.transform(values, series).float().contiguous()


class DatedRows(Rows):
    """Calendar features of dates, of their local time, computed when they are indexed."""

    def __init__(self, grid: pd.DatetimeIndex, freq: str, holidays: str | None, utc_offset: UtcOffset) -> None:
        self.grid, self.freq, self.holidays, self.utc_offset = grid, freq, holidays, utc_offset
        self.n_columns = len(time_feature_names(freq, holidays))

    def __len__(self) -> int:
        return len(self.grid)

    def windows(self, first: Index, length: int) -> Steps:
        rows = (first[:, None] + torch.arange(length)).flatten()
        dates = self.utc_offset.local(self.grid[rows.numpy()])
        features = torch.from_numpy(time_features(dates, self.freq, self.holidays)).float()
        return features.unflatten(0, (len(first), length))


def slide(table: Float[Tensor, "rows columns"], length: int) -> Float[Tensor, "starts {length} columns"]:
    """A view whose entry i holds the rows i … i + length − 1."""
    return table.unfold(0, length, 1).transpose(1, 2)


def tensor_of(values: Float[np.ndarray, "*shape"]) -> Float[Tensor, "*shape"]:
    """A read-only array as a tensor, without a copy."""
    # PyTorch warns that the array is read-only
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return torch.from_numpy(values)


class CarriedRows(Rows):
    """Scaled rows on disk, filled forward within each series (0 before the first value), and masks.

    A mask is 1 where the value of its column was measured. In memory, `_scaled_columns` does the same.
    """

    is_on_disk = True

    def __init__(self, rows: DiskRows, starts: PerSeries, masked: list[int]) -> None:
        """`starts` are the first rows of the series, `masked` the columns that have a mask."""
        self._rows, self._starts, self._masked = rows, starts, masked
        self.n_columns = rows.n_columns + len(masked)

    def __len__(self) -> int:
        return len(self._rows)

    def windows(self, first: Index, length: int) -> Steps:
        scaled = self._rows.windows(first, length)
        missing = scaled.isnan()
        masks = (~missing[..., self._masked]).float()
        if missing.any():
            before = self._values_before(first, missing[:, 0].any(dim=1))
            whole, step = torch.cat([before, scaled], dim=1), torch.arange(1, length + 1)[None, :, None]
            source = torch.where(missing, 0, step).cummax(dim=1).values
            scaled = whole.gather(1, source)
        return torch.cat([scaled, masks], dim=2) if self._masked else scaled

    def _values_before(self, first: Index, is_missing: Bool[Tensor, " batch"]) -> Float32[Tensor, "batch 1 columns"]:
        """The last values before each window that starts with a missing value; 0 if there is none."""
        found = torch.zeros(len(first), 1, self._rows.n_columns)
        rows = first[is_missing].numpy()
        if len(rows):
            starts = self._starts[np.searchsorted(self._starts, rows, side="right") - 1]
            sources = torch.from_numpy(find_measured(self._rows.values, starts, rows + 1, "last"))
            values = self._rows[sources.clamp(min=0)].diagonal(dim1=1, dim2=2)
            found[is_missing, 0] = torch.where(sources < 0, 0.0, values)
        return found


UNLIMITED = 1 << 40  # number of known steps of a covariate that is known over any horizon


@dataclass(frozen=True)
class FutureCovariates:
    """Columns of the future covariates among the step features of a window.

    Their names are those of `covariates.covariate_feature_names`.

    A covariate with a limit in `known_steps` has a mask, which is 1 where its value is known and 0 elsewhere. After
    its last known step it repeats the value of that step. A missing value is read as the one before it.
    """

    past: Rows
    ahead: Rows  # columns of the rows after a forecast origin, as they were known in advance
    known_steps: Int64[Tensor, " columns"]
    is_mask: Bool[Tensor, " columns"]

    @classmethod
    def of(cls, panel: Panel, scaler: Scaler, known_steps: Sequence[int | None]) -> "FutureCovariates":
        """Scale the future covariates of a panel that has some; `known_steps` is that of `Scales`."""
        assert panel.future is not None
        limits = [UNLIMITED if steps is None else steps for steps in known_steps]
        masked = [i for i, steps in enumerate(limits) if steps < UNLIMITED]
        past = _scaled_columns(panel, list(range(len(limits))), scaler, masked)
        ahead = _scaled_columns(panel, panel.ahead_index, scaler, masked) if panel.as_of else past
        is_mask = torch.tensor([False] * len(limits) + [True] * len(masked))
        return cls(past, ahead, torch.tensor([*limits, *(limits[i] for i in masked)]), is_mask)

    @property
    def n_columns(self) -> int:
        return self.past.n_columns

    @property
    def depends_on_origin(self) -> bool:
        """Whether what is read of a row depends on the forecast origin."""
        return self.ahead is not self.past or bool(self.is_mask.any())

    def known_windows(self, origins: Index, length: int) -> Steps:
        """Windows of `length` rows after these forecast origins, as they are known at the origins."""
        found = self.ahead.windows(origins, length)
        if not self.is_mask.any():
            return found
        last = origins[:, None] + self.known_steps.clamp(max=length) - 1
        repeated = self.ahead[last].diagonal(dim1=1, dim2=2).masked_fill(self.is_mask, 0.0)
        is_known = torch.arange(length, device=origins.device)[:, None] < self.known_steps
        return torch.where(is_known, found, repeated[:, None])

    def to(self, device: torch.device | str) -> "FutureCovariates":
        past = self.past.to(device)
        ahead = past if self.ahead is self.past else self.ahead.to(device)
        return FutureCovariates(past, ahead, self.known_steps.to(device), self.is_mask.to(device))


def _scaled_columns(panel: Panel, index: list[int], scaler: Scaler, masked: list[int]) -> Rows:
    """Scaled columns of the future covariates of a panel, then the masks of some of them.

    A missing value is the one above it in its series, or 0, the center after scaling.
    """
    assert panel.future is not None
    if isinstance(panel.future, StoredValues):
        return CarriedRows(DiskRows(panel.future.select(index), scaler, panel.starts), panel.starts, masked)
    scaled = scaler.transform_panel(panel.future[:, index], panel.starts, panel.stops)
    masks = (~scaled[:, masked].isnan()).float()
    if scaled.isnan().any():
        series = np.repeat(np.arange(len(panel)), panel.stops - panel.starts)
        carried = pd.DataFrame(scaled.numpy()).groupby(series).ffill().fillna(0.0)
        scaled = torch.tensor(carried.to_numpy(), dtype=torch.float32)
    return TensorRows(torch.cat([scaled, masks], dim=1))


def carry_into(
    excerpt: Panel, panel: Panel, chosen: Int64[np.ndarray, " chosen"], first: Int64[np.ndarray, " chosen"]
) -> Panel:
    """An excerpt of a panel in which future covariates that its first rows lack have the value before, as in training.

    The excerpt has rows of the series `chosen` of `panel`, from the rows `first` on.
    """
    if panel.future is None:
        return excerpt
    sources = find_measured(panel.future, panel.starts[chosen], first + 1, "last")
    values = np.diagonal(panel.future[sources.clip(min=0)], axis1=1, axis2=2)
    future = np.array(excerpt.future)
    future[excerpt.starts] = np.where(sources < 0, np.nan, values)
    return replace(excerpt, future=future)


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

    def past(self, first: Index, length: int, series: Index) -> Steps:
        """Windows of `length` rows before a forecast origin, which begin at the rows `first` of these series."""
        covariates = None if self.future is None else self.future.past.windows(first, length)
        return self._join(first, length, series, covariates)

    def ahead(self, origins: Index, length: int, series: Index) -> Steps:
        """Windows of `length` rows after these forecast origins, as they are known at the origins.

        Rows may lie after the last row of the panel where there are no future covariates.
        """
        covariates = None if self.future is None else self.future.known_windows(origins, length)
        return self._join(origins, length, series, covariates)

    def _join(
        self, first: Index, length: int, series: Index, covariates: Steps | None
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
