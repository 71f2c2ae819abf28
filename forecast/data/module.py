"""Data ready to train on: a table, split, scaled and cut into windows, as a LightningDataModule."""

import copy
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from forecast.data.calendar import season_length, time_features
from forecast.data.scaler import SCALERS, Scaler
from forecast.data.split import split_rows
from forecast.data.table import Table
from forecast.data.windows import WindowLoader, Windows
from forecast.errors import ConfigError, DataError
from forecast.rounding import plural

MODES = ("M", "S", "MS")
AUTO = "auto"
UNNAMED = ("csv", "long", "store")  # names that say no more than the kind of file


def windows_an_epoch(asked: int | str | None, count: int) -> int:
    """How many of `count` training windows an epoch trains on; None: all.

    `auto`: a seventh of them, 4,096 at least and 100,000 at most. Neighbours are much the same, so that a model which
    overfits after some passes has its best epoch long before the first pass; more rows want more windows, and past a
    hundred thousand the epochs only become long (docs/residual.md).
    """
    if asked == AUTO:
        asked = min(max(4_096, count // 7), 100_000)
    return count if asked is None else min(int(asked), count)


class ForecastData(L.LightningDataModule):
    """One table and its windows. A subclass gives `read()`; `setup()` does the rest, once, trainer or not.

    `features` says what the model reads and forecasts: `M` all columns from all, `S` the target from itself,
    `MS` the target from all columns. `split` is explained in `forecast.data.split`. `batch_size` counts
    windows over all processes of a run. An epoch trains on `windows_per_epoch` windows, sampled anew each time, default
    all, or `auto` (`windows_an_epoch`); of the windows of validation and test every `eval_stride`-th counts, the last
    one always.

    With `split="train"` or `split="test"` all rows are that one split's; `test` needs a checkpoint's scaler
    (`load_state_dict`), and its first forecast comes after `seq_len` rows, or a season where that is longer.

    After `setup()`: `table`, `rows` (of each split), `columns`, `feature_columns`, `target_columns`,
    `n_features`, `n_targets`, `n_time_features`, `freq`, `season`, `scaler` (of the features),
    `target_scaler`, `windows` and `n_windows` (by split: train, val, test).

    Raises ConfigError for options that cannot be, DataError for a table that cannot be used.
    """

    def __init__(
        self,
        *,
        name: str,
        seq_len: int,
        pred_len: int,
        split: Sequence[int | float | str] | str,
        features: str = "M",
        target: str | None = None,
        scaler: str = "standard",
        batch_size: int = 32,
        eval_batch_size: int | None = None,
        season: int | None = None,
        holidays: str | None = None,
        windows_per_epoch: int | str | None = None,
        eval_stride: int = 1,
        seed: int = 0,
    ) -> None:
        super().__init__()
        lengths = {"seq_len": seq_len, "pred_len": pred_len, "data.batch_size": batch_size}
        lengths["data.eval_stride"] = eval_stride
        optional = {
            "data.eval_batch_size": eval_batch_size,
            "data.season": season,
            "data.windows_per_epoch": None if windows_per_epoch == AUTO else windows_per_epoch,
        }
        lengths |= {key: value for key, value in optional.items() if value is not None}
        for key, value in lengths.items():
            if type(value) is not int or value < 1:
                raise ConfigError(f"{key}={value} must be a whole number of at least 1")
        if type(seed) is not int or seed < 0:
            raise ConfigError(f"seed={seed} must be a whole number of at least 0")
        if features not in MODES:
            raise ConfigError(f"features={features} is not one of {', '.join(MODES)}")
        if scaler not in SCALERS:
            raise ConfigError(f"data.scaler={scaler} is not one of {', '.join(SCALERS)}")
        self.name, self.seq_len, self.pred_len = name, seq_len, pred_len
        self.features, self.target = features, target
        self.split, self.scaler_kind, self.seed = split, scaler, seed
        self.batch_size, self.eval_batch_size = batch_size, eval_batch_size or batch_size
        self._windows_per_epoch, self.eval_stride = windows_per_epoch, eval_stride
        self._season, self.holidays = season, holidays
        self.tested = "test"  # the split that `test_dataloader` serves
        self._is_set_up = False
        self._table: Table | None = None  # read before, by `resplit`
        self._saved_state: dict[str, Any] | None = None

    @property
    def title(self) -> str:
        """What tables and pictures call it: a file of the user's own by the file's name, if it was given no other."""
        path: Path | None = getattr(self, "path", None)
        return path.name if path and self.name in UNNAMED else str(self.name)

    @property
    def windows_per_epoch(self) -> int:
        """Training windows of an epoch, once they are cut."""
        return windows_an_epoch(self._windows_per_epoch, self.n_windows["train"])

    @abstractmethod
    def read(self) -> Table:
        """The whole table, in the data's own units."""

    def setup(self, stage: str | None = None) -> None:
        if self._is_set_up:
            return
        table = self._table if self._table is not None else self.read()
        table = table.on_clock((self._saved_state or {}).get("clock"))
        self.columns = self._choose_columns(table)
        self.freq = table.freq
        self.season = self._season or season_length(table.freq)
        target = self._find_target(self.columns)
        self.feature_columns = (target,) if self.features == "S" else self.columns
        self.target_columns = self.columns if self.features == "M" else (target,)
        self.n_features, self.n_targets = len(self.feature_columns), len(self.target_columns)
        self.target_index = [self.feature_columns.index(name) for name in self.target_columns]
        self.rows = split_rows(table.dates, table.freq, self.split)
        if (
            self.split == "test"
        ):  # its first rows are history alone, the model's and the seasonal-naive rule's
            before = min(max(self.seq_len, self.season), len(table.dates))
            self.rows["test"] = range(before, len(table.dates))
        self._check_rows()
        self._hold(table)
        self._warn_of_utc(table.clock)
        if self._saved_state is None:
            if "train" not in self.rows:
                raise ConfigError(
                    "data.split=test has no training rows to fit a scaler on: use a checkpoint's"
                )
            scaler = self._fit_scaler(self.rows["train"])
        else:
            scaler = self._saved_scaler(self._saved_state)
        self._cut(scaler)
        self.table, self._is_set_up = table, True

    def _choose_columns(self, table: Table) -> tuple[str, ...]:
        return table.columns

    def _hold(self, table: Table) -> None:
        """Keep of the table what windows are made from."""
        features = table.values[:, [table.columns.index(name) for name in self.feature_columns]]
        self._features = np.ascontiguousarray(features)
        self._time = torch.from_numpy(time_features(table.dates, table.freq, self.holidays)).float()
        self.n_time_features = self._time.shape[1]

    def _warn_of_utc(self, clock: int | None) -> None:
        if self.holidays and clock == 0:
            warnings.warn(
                f"{self.title}: dates are UTC, so data.holidays={self.holidays} marks the days of UTC, which begin and "
                "end some hours before or after the country's",
                stacklevel=3,
            )

    def _fit_scaler(self, rows: range) -> Scaler:
        return Scaler.fit(self.scaler_kind, self._features[rows.start : rows.stop], self.feature_columns)

    def _find_target(self, columns: Sequence[str]) -> str:
        listed = ", ".join(columns[:20]) + (", ..." if len(columns) > 20 else "")
        if self.target is None:
            if self.features != "M" and len(columns) > 1:
                raise ConfigError(f"features={self.features} needs data.target, one of: {listed}")
            return columns[0]
        if self.target not in columns:
            raise ConfigError(f"data.target={self.target} is not a column of {self.name}: {listed}")
        return self.target

    def _check_rows(self) -> None:
        for split, rows in self.rows.items():
            needed = self.pred_len + (self.seq_len if split == "train" else 0)
            if len(rows) < needed:
                if self.split == "test":
                    needed, rows = needed + max(self.seq_len, self.season), range(rows.stop)
                raise DataError(
                    f"{self.name}: the {split} split has {len(rows):,} rows and needs {needed:,} "
                    f"(seq_len={self.seq_len}, pred_len={self.pred_len}): give more rows, shorter windows or "
                    "another data.split"
                )
        rows = len(self.rows.get("train", ()))
        if "train" in self.rows and self.season >= rows:
            whence = "data.season" if self._season else f"the season of {self.freq} data"
            raise DataError(
                f"{self.name}: {whence} is {self.season} rows, and the training rows are {rows:,}: give more rows, "
                "or set a shorter data.season (1: none)"
            )

    def _cut(self, scaler: Scaler) -> None:
        """Scale the table and cut every split into windows."""
        self.scaler = scaler
        self.target_scaler = scaler.select(self.target_index)
        self._scale(scaler)
        self._device_copy: tuple[Tensor, Tensor] | None = None
        starts = {split: [self._starts(split, rows)] for split, rows in self.rows.items()}
        self.windows = {split: self.windows_from(rows) for split, rows in starts.items()}
        self.n_windows = {split: len(windows) for split, windows in self.windows.items()}

    def _scale(self, scaler: Scaler) -> None:
        self._values = scaler.transform(torch.from_numpy(self._features)).float()
        self._refuse_lost(~self._values.isfinite().all(dim=0))

    def _refuse_lost(self, lost: Bool[Tensor, " n_features"]) -> None:
        if lost.any():
            column = self.feature_columns[int(lost.int().argmax())]
            raise DataError(
                f"{self.name}: column {column!r} has numbers too large for float32 once scaled: rescale it"
            )

    def windows_from(self, starts: Sequence[range]) -> Windows:
        """Windows over the scaled table whose pasts begin at these rows."""
        return Windows(
            self._values,
            self._time,
            starts=starts,
            seq_len=self.seq_len,
            pred_len=self.pred_len,
            target_index=self.target_index,
        )

    def _starts(self, split: str, rows: range) -> range:
        """The rows at which the pasts of a split's windows begin."""
        last = rows.stop - self.seq_len - self.pred_len
        if split == "train":
            return range(rows.start, last + 1)
        # The first target row of validation and test is their first row: the past may lie before it.
        first = rows.start - self.seq_len
        return range(first + (last - first) % self.eval_stride, last + 1, self.eval_stride)

    def describe(self) -> str:
        """The table in one line."""
        rows, first, last = self.extent()
        columns = plural(len(self.table.columns), "column")
        return f"{rows:,} rows × {columns}, every {self.freq}, {first} to {last}"

    def extent(self) -> tuple[int, pd.Timestamp, pd.Timestamp]:
        """Rows, the first date and the last."""
        dates = self.table.dates
        return len(dates), dates[0], dates[-1]  # pyright: ignore[reportReturnType]

    def dates(self, rows: Int64[np.ndarray, " some"]) -> pd.DatetimeIndex:
        """The dates of these rows of the table."""
        return self.table.dates[rows]

    def unscale_targets(
        self, values: Float[Tensor, "*shape n_targets"], series: Int64[Tensor, " batch"] | None = None
    ) -> Float64[Tensor, "*shape n_targets"]:
        """Scaled forecasts or truths in the data's own units; which series they are of makes no difference here."""
        return self.target_scaler.inverse(values)

    @property
    def trained_until(self) -> str:
        """The date of the last training row."""
        return str(self.table.dates[self.rows["train"].stop - 1])

    def resplit(self, split: Sequence[int | float | str] | str) -> "ForecastData":
        """The same table split in another way, the scaler fitted anew."""
        other = copy.copy(self)
        other.split, other.trainer, other._is_set_up, other._saved_state = split, None, False, None
        other._table = self.table
        other.setup()
        return other

    def train_dataloader(self) -> WindowLoader:
        return self._loader("train", self.batch_size, shuffle=True, per_epoch=self.windows_per_epoch)

    def val_dataloader(self) -> WindowLoader:
        return self._loader("val", self.eval_batch_size)

    def test_dataloader(self) -> WindowLoader:
        return self._loader(self.tested, self.eval_batch_size)

    def _loader(
        self, split: str, batch_size: int, shuffle: bool = False, per_epoch: int | None = None
    ) -> WindowLoader:
        windows, rank, world_size = self.windows[split], 0, 1
        if self.trainer is not None:
            rank, world_size = self.trainer.global_rank, self.trainer.world_size
            windows = self._near(self.trainer.strategy.root_device, windows)
        return WindowLoader(windows, batch_size, shuffle, self.seed, rank, world_size, per_epoch)

    def _near(self, device: torch.device, windows: Windows) -> Windows:
        """The windows where the model will read them."""
        return windows.over(*self._on_device(device)) if device.type == "cuda" else windows

    def _on_device(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """The scaled table and its time features on the device, one copy for all splits."""
        if self._device_copy is None or self._device_copy[0].device != device:
            self._device_copy = self._values.to(device), self._time.to(device)
        return self._device_copy

    def state_dict(self) -> dict[str, Any]:
        """What a forecast needs of the training data: Lightning keeps it in the checkpoint."""
        return {
            "scaler": self.scaler.state_dict(),
            "feature_columns": list(self.feature_columns),
            "target_columns": list(self.target_columns),
            "freq": self.freq,
            "clock": self.table.clock,
            "n_time_features": self.n_time_features,
            "trained_until": self.trained_until,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Use a checkpoint's scaler, whatever the rows here; before or after `setup()`.

        Raises DataError where the checkpoint was trained on other columns.
        """
        self._saved_state = state_dict
        if self._is_set_up:
            self._cut(self._saved_scaler(state_dict))

    def _saved_scaler(self, state: dict[str, Any]) -> Scaler:
        for what, mine in (("feature", self.feature_columns), ("target", self.target_columns)):
            trained = state[f"{what}_columns"]
            if list(mine) != trained:
                raise DataError(
                    f"{self.name}: {what} columns {', '.join(mine)}, where the checkpoint was trained on "
                    f"{', '.join(trained)}: choose the same (data.columns, data.target, features)"
                )
        return Scaler.from_state_dict(state["scaler"])
