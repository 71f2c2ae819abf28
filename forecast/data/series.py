"""Many series as training data: one model over all of them, each on its own scale."""

import difflib
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from forecast.data.calendar import season_length
from forecast.data.csvfile import quote
from forecast.data.layout import lay_out
from forecast.data.long import Columns, LongRows, read_long, read_long_frame, read_static
from forecast.data.module import ForecastData
from forecast.data.panel import Panel, PerSeries
from forecast.data.scaled_panel import ScaledPanel
from forecast.data.series_scaler import BY
from forecast.data.series_windows import SeriesWindows
from forecast.data.split import split_series
from forecast.errors import ConfigError, DataError


class SeriesData(ForecastData):
    """The series of a long file `path`, a row a series and date; the other options are those of `ForecastData`.

    `columns` are the target columns, default `target` alone. `past_covariates` are read with them and not forecast
    (features M and MS); `future_covariates` are known over the horizon too, `static_covariates` never change within a
    series (in the same file, or with `static_path` in one of a row a series): both reach the model beside the time
    features. `future_path` is a file of what is known after the series' ends, its rows as if they stood in the first.
    `scale_by` series or all; `ids` leaves the others out.

    A series too short for a window in a split has none there, with a warning; one without training rows has none at
    all, for nothing says on what scale it lies. After `setup()`: `panel`, what `ForecastData` names but `rows`, and
    `series_rows`: for each split the first row of every series and the row after its last.
    """

    def __init__(
        self,
        *,
        path: str | Path | None,
        id_column: str = "unique_id",
        date_column: str = "ds",
        target: str | None = "y",
        columns: Sequence[str] | None = None,
        past_covariates: Sequence[str] = (),
        future_covariates: Sequence[str] = (),
        static_covariates: Sequence[str] = (),
        static_path: str | Path | None = None,
        future_path: str | Path | None = None,
        ids: Sequence[str] | None = None,
        scale_by: str = "series",
        date_format: str | None = None,
        separator: str = ",",
        decimal: str = ".",
        thousands: str | None = None,
        freq: str | None = None,
        fill: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(target=target, **options)
        if path is None:
            raise ConfigError("data=long needs data.path=FILE")
        if columns is None and target is None:
            raise ConfigError("data.target=null: name the column to forecast, or several (data.columns)")
        if columns is not None and not columns:
            raise ConfigError("data.columns=[]: name a column to forecast, or leave it out (null)")
        if ids is not None and not ids:
            raise ConfigError("data.ids=[]: name a series, or leave it out (null) for all of them")
        if scale_by not in BY:
            raise ConfigError(f"data.scale_by={scale_by} is not one of {', '.join(BY)}")
        if self.features == "S" and past_covariates:
            raise ConfigError(
                "features=S reads the target alone: leave data.past_covariates out, or set features=MS"
            )
        if static_path is not None and not static_covariates:
            raise ConfigError("data.static_path needs data.static_covariates: the columns to take from it")
        if future_path is not None and not future_covariates:
            raise ConfigError("a file of the future holds future covariates, and there are none here")
        self.path, self.static_path, self.future_path = Path(path).expanduser(), static_path, future_path
        self.all_targets = tuple(map(str, columns)) if columns is not None else (str(target),)
        self.ids = None if ids is None else [str(name) for name in ids]
        self.scale_by, self.fill, self._freq = scale_by, fill, freq
        values = (str(target),) if self.features == "S" else (*self.all_targets, *map(str, past_covariates))
        self.static_covariates = tuple(map(str, static_covariates))
        in_file = () if static_path is not None else self.static_covariates
        self.long_columns = Columns(
            id_column, date_column, values, tuple(map(str, future_covariates)), in_file,
            past=0 if self.features == "S" else len(past_covariates),
        )  # fmt: skip
        self.long_columns.check()
        self._reading = {
            "date_format": date_format, "separator": separator, "decimal": decimal, "thousands": thousands,
        }  # fmt: skip

    def read_rows(self) -> LongRows:
        """The rows of the file as they stand in it."""
        return read_long(self.path, self.long_columns, **self._reading)

    def read(self) -> Panel:  # type: ignore[override]
        rows = self.read_rows()
        if self.future_path is not None:
            ahead = replace(self.long_columns, values=(), static=(), past=0)
            rows = rows.followed_by(read_long(self.future_path, ahead, **self._reading))
        panel = lay_out(self._chosen(rows), freq=self._freq, fill=self.fill)
        if self.static_path is not None:
            panel = replace(panel, static=self._static_of(panel.ids))
        return panel

    def _chosen(self, rows: LongRows) -> LongRows:
        """The rows of `ids`. Raises ConfigError for one that is not there."""
        if self.ids is None:
            return rows
        present = rows.ids[np.bincount(rows.codes, minlength=len(rows.ids)) > 0]  # categories may have no row
        for name in self.ids:
            if name not in present:
                near = difflib.get_close_matches(name, present[:10_000].tolist(), n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise ConfigError(f"data.ids: there is no series {quote(name)} in {self.path}{hint}")
        return rows.take(np.flatnonzero(rows.ids.isin(self.ids)[rows.codes]))

    def _static_of(self, ids: pd.Index) -> pd.DataFrame:
        assert self.static_path is not None
        signs = {key: self._reading[key] for key in ("separator", "decimal", "thousands")}
        table = read_static(self.static_path, self.long_columns.id, self.static_covariates, **signs)
        lacking = ids.difference(table.index)
        if len(lacking):
            raise DataError(
                f"{self.static_path}: no row for {len(lacking):,} of {len(ids):,} series, such as {quote(lacking[0])}"
            )
        table = table.loc[ids]
        if table.isna().any(axis=None):
            name = table.columns[table.isna().any().argmax()]
            series = quote(table.index[table[name].isna()][0])
            raise DataError(f"{self.static_path}, column {quote(name)}: series {series} has no value")
        return table

    def setup(self, stage: str | None = None) -> None:
        if self._is_set_up:
            return
        panel: Panel = self._table or self.read()  # type: ignore[assignment]
        panel = panel.on_clock((self._saved_state or {}).get("clock")).until(self.pred_len)
        self.columns, self.freq = self.all_targets, panel.freq
        self.season = self._season or season_length(panel.freq)
        target = self._find_target(self.columns)
        self.feature_columns = panel.columns
        self.target_columns = self.columns if self.features == "M" else (target,)
        self.n_features, self.n_targets = len(self.feature_columns), len(self.target_columns)
        self.target_index = [self.feature_columns.index(name) for name in self.target_columns]
        self.panel = self.table = panel  # type: ignore[assignment]
        self.series_rows = split_series(panel, self.split)
        if self.split == "test":  # the first rows are history alone
            first, last = self.series_rows["test"]
            self.series_rows["test"] = np.minimum(first + self.seq_len, last), last
        self._scale_panel()
        self._warn_of_utc(panel.clock)
        self._is_set_up = True

    def _scale_panel(self) -> None:
        """Take scales and encodings from the training rows or a checkpoint, and cut windows."""
        state, rows = self._saved_state, self.series_rows
        if state is None and "train" not in rows:
            raise ConfigError("data.split=test has no training rows to fit a scaler on: use a checkpoint's")
        if state is not None:
            self._check_columns(state)
        # a series that is new to the checkpoint is scaled by its rows before the first forecast
        first, last = rows["train"] if "train" in rows else (self.panel.starts, rows["test"][0])
        self.scaled = ScaledPanel.of(
            str(self.path),
            self.panel,
            state,
            first,
            last,
            kind=self.scaler_kind,
            by=self.scale_by,
            holidays=self.holidays,
        )
        self.scaler = self.scaled.scaler  # type: ignore[assignment]
        self.target_scaler = self.scaled.scaler.select(self.target_index)  # type: ignore[assignment]
        self._values, self._time = self.scaled.values, self.scaled.time  # type: ignore[assignment]
        self.n_time_features = self.scaled.time.n_features
        self._device_copy = None
        self._cut_series()

    def _check_columns(self, state: dict[str, Any]) -> None:
        for what in ("feature_columns", "target_columns"):
            mine, theirs = ", ".join(getattr(self, what)), ", ".join(state[what])
            if mine != theirs:
                raise DataError(
                    f"{self.name}: {what.replace('_', ' ')} {mine}, where the checkpoint was trained on {theirs}: "
                    "choose the same (data.columns, data.target, data.past_covariates, features)"
                )

    def _cut_series(self) -> None:
        self.windows, short = {}, []
        first_rows = torch.from_numpy(self.panel.starts)
        for split, (first, last) in self.series_rows.items():
            starts = self._window_starts(split, first, last)
            without = sum(not rows for rows in starts)
            if without == len(starts):
                longest = int((last - first).max())
                raise DataError(
                    f"{self.name}: no series has a window in the {split} split, whose longest one has {longest:,} rows "
                    f"(seq_len={self.seq_len}, pred_len={self.pred_len}): give more rows, shorter windows or another "
                    "data.split"
                )
            short += [f"{without:,} {split}"] if without else []
            self.windows[split] = SeriesWindows(
                self._values, self._time, starts=starts, first_rows=first_rows, seq_len=self.seq_len,
                pred_len=self.pred_len, target_index=self.target_index,
            )  # fmt: skip
        self.n_windows = {split: len(windows) for split, windows in self.windows.items()}
        if short:
            warnings.warn(
                f"{self.name}: of {len(self.panel):,} series some have too few rows for a window: {', '.join(short)}",
                stacklevel=2,
            )

    def _window_starts(self, split: str, first: PerSeries, last: PerSeries) -> list[range]:
        """Of each series, the rows at which its windows' pasts begin; a past may lie before its split."""
        stride = 1 if split == "train" else self.eval_stride
        begin = first if split == "train" else np.maximum(self.panel.starts, first - self.seq_len)
        end = np.where(self.scaled.has_scale, last - self.seq_len - self.pred_len + 1, begin)
        begin = begin + (end - 1 - begin) % stride
        return [range(a, max(a, b), stride) for a, b in zip(begin.tolist(), end.tolist(), strict=True)]

    def unscale_targets(
        self, values: Float[Tensor, "batch steps n_targets"], series: Int64[Tensor, " batch"]
    ) -> Float64[Tensor, "batch steps n_targets"]:
        """Scaled windows of these series in the data's own units."""
        return self.target_scaler.inverse(values, series)  # type: ignore[call-arg]

    def by_name(self, each: Float[Tensor, "known n"], names: Sequence[str]) -> Float[Tensor, "series n"]:
        """What is known of series with these names, for the series here; NaN for one that is not among them."""
        place = pd.Index(names).get_indexer(self.panel.ids)
        found = torch.full((len(place), each.shape[1]), torch.nan, dtype=each.dtype)
        old = np.flatnonzero(place >= 0)
        found[old] = each[place[old]]
        return found

    def describe(self) -> str:
        panel, (count, start, end) = self.panel, self.extent()
        shortest, longest = int(panel.lengths.min()), int(panel.lengths.max())
        rows = f"{shortest:,} to {longest:,}" if shortest < longest else f"{longest:,}"
        return f"{len(panel):,} series, {count:,} rows ({rows} each), every {self.freq}, {start} to {end}"

    def extent(self) -> tuple[int, pd.Timestamp, pd.Timestamp]:
        return self.panel.n_rows, self.panel.first_date, self.panel.last_date

    def dates(self, rows: Int64[np.ndarray, " some"]) -> pd.DatetimeIndex:
        return self.panel.dates(rows)

    def names_of(self, series: Int64[Tensor, " some"]) -> pd.Categorical:
        """The ids of these series."""
        return pd.Categorical.from_codes(series.cpu().numpy(), categories=self.panel.ids)  # type: ignore[arg-type]

    def state_dict(self) -> dict[str, Any]:
        """What a forecast needs of the training data: Lightning keeps it in the checkpoint."""
        return {
            **self.scaled.state_dict(),
            "feature_columns": list(self.feature_columns),
            "target_columns": list(self.target_columns),
            "freq": self.freq,
            "clock": self.panel.clock,
            "n_time_features": self.n_time_features,
            "trained_until": self.trained_until,
        }

    @property
    def trained_until(self) -> str:
        first, last = self.series_rows["train"]
        return str(self.panel.dates(last[last > first] - 1).max())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Use a checkpoint's scales, whatever the rows here; before or after `setup()`.

        Raises DataError where the checkpoint was trained on other columns.
        """
        if self._is_set_up and self.scaled.is_scaled_by(state_dict):  # its own
            return
        self._saved_state = state_dict
        if self._is_set_up:
            self._scale_panel()


class SeriesFrame(SeriesData):
    """The same from a DataFrame."""

    def __init__(self, frame: pd.DataFrame, **options: Any) -> None:
        super().__init__(path="the DataFrame", **options)
        self.frame = frame

    def read_rows(self) -> LongRows:
        return read_long_frame(self.frame, self.long_columns)
