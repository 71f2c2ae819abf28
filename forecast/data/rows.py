"""Scaled rows and calendar features, from which windows are read."""

import warnings
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Float32, Int64
from torch import Tensor

from forecast.data.row_ranges import PerSeries
from forecast.data.scaling.scaler import Scaler
from forecast.data.stored_values import StoredValues
from forecast.data.time_features import time_feature_names, time_features
from forecast.data.utc_offset import UtcOffset


@runtime_checkable
class Rows(Protocol):
    """Rows of numbers (rows, columns), float32, in memory, on a device or on disk."""

    @property
    def device(self) -> torch.device: ...

    @property
    def n_columns(self) -> int: ...

    @property
    def is_on_disk(self) -> bool: ...

    def __getitem__(self, rows: Int64[Tensor, "*shape"] | slice) -> Float32[Tensor, "*shape columns"]:
        """The rows with these numbers."""
        ...

    def windows(
        self, first: Int64[Tensor, " batch"], length: int
    ) -> Float32[Tensor, "batch {length} columns"]:
        """Windows of `length` rows that begin at these rows."""
        ...

    def to(self, device: torch.device | str) -> "Rows":
        """The rows on another device; rows on disk stay where they are."""
        ...


class TensorRows:
    """Rows in a tensor."""

    is_on_disk = False

    def __init__(self, tensor: Float32[Tensor, "rows columns"]) -> None:
        self.tensor = tensor

    @property
    def device(self) -> torch.device:
        return self.tensor.device

    @property
    def n_columns(self) -> int:
        return self.tensor.shape[1]

    def __getitem__(self, rows: Any) -> Float32[Tensor, "*shape columns"]:
        return self.tensor[rows]

    def windows(
        self, first: Int64[Tensor, " batch"], length: int
    ) -> Float32[Tensor, "batch {length} columns"]:
        return slide(self.tensor, length).index_select(0, first)

    def to(self, device: torch.device | str) -> "TensorRows":
        return TensorRows(self.tensor.to(device))


class DiskRows:
    """Scaled rows of values on disk; read, scaled and converted when they are indexed."""

    device, is_on_disk = torch.device("cpu"), True

    def __init__(self, values: StoredValues, scaler: Scaler, starts: PerSeries) -> None:
        """`starts` are the first rows of the series that the scaler scales."""
        self.values, self.scaler = values, scaler
        self._starts = torch.from_numpy(starts)
        self._raw = tensor_of(values.remapped_for_random_access())

    @property
    def n_columns(self) -> int:
        return len(self.values.index)

    def __getitem__(self, rows: Any) -> Float32[Tensor, "*shape columns"]:
        if isinstance(rows, slice):
            rows = torch.arange(*rows.indices(len(self.values)))
        return self.windows(rows.flatten(), 1)[:, 0].unflatten(0, rows.shape)

    def windows(
        self, first: Int64[Tensor, " batch"], length: int
    ) -> Float32[Tensor, "batch {length} columns"]:
        return self._scale(slide(self._raw, length).index_select(0, first), first).contiguous()

    def to(self, device: torch.device | str) -> "DiskRows":
        return self

    def _scale(
        self, raw: Float[Tensor, "batch steps all_columns"], first: Int64[Tensor, " batch"]
    ) -> Float32[Tensor, "batch steps columns"]:
        """Scale windows that begin at these rows."""
        series = (torch.bucketize(first, self._starts, right=True) - 1).clamp(min=0)
        values = tensor_of(self.values.choose(raw.numpy()))
        if len(series) and bool((series == series[0]).all()):
            return self.scaler.transform(
                values, int(series[0])
            ).float()  # without a copy of the scale for each row
        return self.scaler.transform(values, series).float()


class DatedRows:
    """Calendar features of dates, of their local time, computed when they are indexed."""

    device, is_on_disk = torch.device("cpu"), False

    def __init__(
        self, grid: pd.DatetimeIndex, freq: str, holidays: str | None, utc_offset: UtcOffset
    ) -> None:
        self.grid, self.freq, self.holidays, self.utc_offset = grid, freq, holidays, utc_offset

    @property
    def n_columns(self) -> int:
        return len(time_feature_names(self.freq, self.holidays))

    def __getitem__(self, rows: Int64[Tensor, "*shape"] | slice) -> Float32[Tensor, "*shape columns"]:
        if isinstance(rows, slice):
            rows = torch.arange(len(self.grid))[rows]
        dates = self.utc_offset.local(self.grid[rows.flatten().numpy()])
        features = time_features(dates, self.freq, self.holidays)
        return torch.from_numpy(features).float().unflatten(0, rows.shape)

    def windows(
        self, first: Int64[Tensor, " batch"], length: int
    ) -> Float32[Tensor, "batch {length} columns"]:
        return self[first[:, None] + torch.arange(length)]

    def to(self, device: torch.device | str) -> "DatedRows":
        return self


def slide(table: Float[Tensor, "rows columns"], length: int) -> Float[Tensor, "starts {length} columns"]:
    """A view whose entry i holds the rows i … i + length − 1."""
    return table.unfold(0, length, 1).transpose(1, 2)


def tensor_of(values: Float[np.ndarray, "*shape"]) -> Float[Tensor, "*shape"]:
    """A read-only array as a tensor, without a copy."""
    # PyTorch warns that the array is read-only
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return torch.from_numpy(values)
