"""Data that stays on disk: windows of a store, read, scaled and dated a batch at a time."""

import warnings
from collections.abc import Iterator, Sequence
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Float32, Int64
from torch import Tensor

from forecast.data.calendar import time_feature_names, time_features
from forecast.data.module import ForecastData
from forecast.data.scaler import Scaler
from forecast.data.store import StoredTable, open_store
from forecast.data.table import Table
from forecast.data.windows import Batch, Windows, slide
from forecast.errors import ConfigError, DataError

EVALUATED = 50_000
"""Windows of validation and of test that count at most, unless `eval_stride` says otherwise."""

QUARTILE_ROWS = 1 << 20
"""Training rows, evenly spread, that `scaler=robust` takes its quartiles from at most."""

STRETCH = 1 << 23
"""Bytes of a store that are read at a time where all of it is read."""


class ScaledRows:
    """The rows of a store (rows, n_features), float32 and scaled, read where they are indexed."""

    device = torch.device("cpu")

    def __init__(self, table: StoredTable, index: Sequence[int], scaler: Scaler) -> None:
        self.table, self.scaler, self.raw = table, scaler, tensor_of(table.scattered())
        everything = list(index) == list(range(len(table.columns)))
        self._index = None if everything else torch.tensor(list(index))
        self.shape = torch.Size((len(self.raw), len(index)))

    def __len__(self) -> int:
        return len(self.raw)

    def __getitem__(self, rows: Any) -> Float32[Tensor, "*shape n_features"]:
        """Of these rows (a slice, or a tensor of any shape) all columns; of a pair, these rows' and those columns."""
        if isinstance(rows, tuple):
            rows, columns = rows
            return self[rows][:, columns]
        return self.scale(self.raw[rows])

    def scale(self, raw: Float[Tensor, "*shape columns"]) -> Float32[Tensor, "*shape n_features"]:
        chosen = raw if self._index is None else raw.index_select(-1, self._index)
        return self.scaler.transform(chosen).float()


class DatedRows:
    """The time features (rows, n_time_features) of a store, computed of the rows that are asked for."""

    def __init__(self, dates: pd.DatetimeIndex, freq: str, holidays: str | None) -> None:
        self.dates, self.freq, self.holidays = dates, freq, holidays

    def __getitem__(self, rows: Int64[Tensor, "*shape"]) -> Float32[Tensor, "*shape n_time_features"]:
        features = time_features(self.dates[rows.flatten().numpy()], self.freq, self.holidays)
        return torch.from_numpy(features).float().unflatten(0, rows.shape)


class StoredWindows(Windows):
    """Windows whose rows lie in a store. `values` and `time` are read where they are indexed."""

    values: ScaledRows  # type: ignore[assignment]
    time: DatedRows  # type: ignore[assignment]

    def __init__(
        self,
        values: ScaledRows,
        time: DatedRows,
        *,
        starts: Sequence[range],
        seq_len: int,
        pred_len: int,
        target_index: list[int],
    ) -> None:
        self.values, self.time = values, time
        self._number(starts, seq_len, pred_len, target_index)
        self._slid = slide(values.raw, seq_len + pred_len)

    def parts(self, overlap: int) -> Iterator[Float32[Tensor, "rows n_features"]]:
        """The rows that the windows cover, in parts that fit into memory; each begins so many rows before its own."""
        rows = self.starts[0]
        end = rows.stop + self.seq_len + self.pred_len - 1
        raw = self.values.table.values
        for own in stretches(range(rows.start, end), raw):
            part = raw[max(rows.start, own.start - overlap) : own.stop]
            yield self.values.scale(tensor_of(part))

    def gather(self, index: Int64[Tensor, " batch"]) -> Batch:
        first = self.origins(index) - self.seq_len
        values = self.values.scale(self._slid.index_select(0, first))
        time = self.time[first[:, None] + torch.arange(self.seq_len + self.pred_len)]
        past, future = values.split([self.seq_len, self.pred_len], dim=1)
        past_time, future_time = (part.contiguous() for part in time.split([self.seq_len, self.pred_len], 1))
        return Batch(past.contiguous(), past_time, future[..., self.target_index], future_time, index)


class StoreData(ForecastData):
    """The table in the store `path`, never read as a whole into memory; the other options are those of `ForecastData`.

    `columns` chooses and orders its columns, default all. `eval_stride` is 1 where validation and test have at most
    `EVALUATED` windows each, else so much that so many are left, evenly spread over the calendar.
    """

    def __init__(
        self,
        *,
        path: str | Path | None,
        columns: Sequence[str] | None = None,
        eval_stride: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(eval_stride=1 if eval_stride is None else eval_stride, **options)
        if path is None:
            raise ConfigError("data=store needs data.path=FOLDER, which python -m forecast.convert makes")
        self.path, self._chosen = Path(path).expanduser(), columns
        self._spreads = eval_stride is None

    def read(self) -> StoredTable:
        return open_store(self.path)

    def _choose_columns(self, table: Table) -> tuple[str, ...]:
        chosen = table.columns if self._chosen is None else tuple(map(str, self._chosen))
        if not chosen or len(set(chosen)) < len(chosen):
            raise ConfigError(f"data.columns={list(chosen)} must name columns, each once")
        for name in chosen:
            if name not in table.columns:
                raise DataError(
                    f"{self.path}: no column {name!r} (data.columns); there are {', '.join(table.columns[:20])}"
                )
        return chosen

    def _hold(self, table: Table) -> None:
        assert isinstance(table, StoredTable)
        self._stored = table
        self._index = [table.columns.index(name) for name in self.feature_columns]
        self.n_time_features = len(time_feature_names(table.freq, self.holidays))
        if self._spreads:
            counts = [len(rows) - self.pred_len + 1 for split, rows in self.rows.items() if split != "train"]
            self.eval_stride = spread_stride(max(counts, default=1), EVALUATED, self.season)

    def _fit_scaler(self, rows: range) -> Scaler:
        if self.scaler_kind in ("standard", "minmax"):
            return Scaler.fit_in_parts(self.scaler_kind, self._parts(rows), self.feature_columns)
        some = self._stored.values[rows.start : rows.stop : -(-len(rows) // QUARTILE_ROWS)]
        return Scaler.fit(self.scaler_kind, some[:, self._index].astype(np.float64), self.feature_columns)

    def _parts(self, rows: range) -> Iterator[Float[np.ndarray, "some n_features"]]:
        """The features of these rows, in data units, in parts that fit into memory."""
        for some in stretches(rows, self._stored.values):
            part = self._stored.values[some.start : some.stop]
            if not np.isfinite(part).all():
                raise DataError(
                    f"{self.path}: a number in it is not finite: the store is damaged; convert again"
                )
            everything = self._index == list(range(part.shape[1]))
            yield (part if everything else part[:, self._index]).astype(np.float64)

    def _scale(self, scaler: Scaler) -> None:
        extremes = np.array([self._stored.minimum, self._stored.maximum])[:, self._index]
        lost = ~scaler.transform(torch.from_numpy(extremes)).float().isfinite().all(dim=0)
        self._refuse_lost(lost)
        self._values = ScaledRows(self._stored, self._index, scaler)  # type: ignore[assignment]
        self._time = DatedRows(self._stored.dates, self._stored.freq, self.holidays)  # type: ignore[assignment]

    def windows_from(self, starts: Sequence[range]) -> StoredWindows:
        return StoredWindows(
            self._values,  # type: ignore[arg-type]
            self._time,  # type: ignore[arg-type]
            starts=starts,
            seq_len=self.seq_len,
            pred_len=self.pred_len,
            target_index=self.target_index,
        )

    def _near(self, device: torch.device, windows: Windows) -> Windows:
        return windows  # batches are gathered on the CPU, and Lightning moves them


def tensor_of(values: Float[np.ndarray, "rows columns"]) -> Float[Tensor, "rows columns"]:
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # it cannot be written to: good
        return torch.from_numpy(values)


def stretches(rows: range, values: Float[np.ndarray, "rows columns"]) -> Iterator[range]:
    """These rows in ranges of about `STRETCH` bytes."""
    step = max(1, STRETCH // (values.itemsize * values.shape[1]))
    for first in range(rows.start, rows.stop, step):
        yield range(first, min(first + step, rows.stop))


def spread_stride(windows: int, most: int, season: int) -> int:
    """The least stride that leaves at most so many windows, and meets every hour, weekday and phase of the season.

    It shares no factor with the season, nor with 2, 3, 5 and 7, of which calendars are made: a stride of 24 hours would
    only ever forecast from midnight.
    """
    stride = -(-windows // most)
    while stride > 1 and gcd(stride, season * 2 * 3 * 5 * 7) > 1:
        stride += 1
    return max(1, stride)
