"""Many series in one long table, with one row for each series and date, as a source of a panel."""

import difflib
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64, Int64

from forecast.data.files.align import lay_out
from forecast.data.files.cells import quote
from forecast.data.files.long import Columns, LongRows, read_long, read_long_frame, read_static
from forecast.data.files.unfilled import UnfilledPanel
from forecast.data.panel import Panel
from forecast.system.errors import ConfigError, DataError


class LongSource:
    """A long CSV or Parquet file.

    Args:
        path: the file.
        id_column, date_column: the columns that name the series and the date of a row.
        target, columns: the target, or several; `columns` replaces `target`.
        past_covariates: columns that are read and not forecast.
        future_covariates: columns that are known beyond the end of each series too.
        static_covariates: columns that do not change within a series, in the same file or in `static_path`, which has
            one row for each series.
        future_path: a file of future covariates after the ends of the series; its rows follow those of `path`.
        ids: the series to use; default: all.
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
        date_format: str | None = None,
        separator: str = ",",
        decimal: str = ".",
        thousands: str | None = None,
        freq: str | None = None,
        fill: str | None = None,
    ) -> None:
        if path is None:
            raise ConfigError("data=long needs data.path=FILE")
        if columns is None and target is None:
            raise ConfigError("data.target=null: name the column to forecast, or several (data.columns)")
        if columns is not None and not columns:
            raise ConfigError("data.columns=[]: name a column to forecast, or leave it out (null)")
        if ids is not None and not ids:
            raise ConfigError("data.ids=[]: name a series, or leave it out (null) for all of them")
        if static_path is not None and not static_covariates:
            raise ConfigError("data.static_path needs data.static_covariates: the columns to take from it")
        if future_path is not None and not future_covariates:
            raise ConfigError("a file of the future holds future covariates, and there are none here")
        self.path: Path | None = Path(path).expanduser()
        self.static_path, self.future_path = static_path, future_path
        self.ids = None if ids is None else [str(name) for name in ids]
        self.fill, self._freq = fill, freq
        targets = tuple(map(str, columns)) if columns is not None else (str(target),)
        self.static_covariates = tuple(map(str, static_covariates))
        in_file = () if static_path is not None else self.static_covariates
        self.long_columns = Columns(
            id_column, date_column, (*targets, *map(str, past_covariates)), tuple(map(str, future_covariates)),
            in_file, past=len(past_covariates),
        )  # fmt: skip
        self.long_columns.check()
        self._reading = {
            "date_format": date_format, "separator": separator, "decimal": decimal, "thousands": thousands,
        }  # fmt: skip

    def prepare(self) -> None:
        """Nothing to download."""

    def read_rows(self) -> LongRows:
        """The rows of the file as they stand in it."""
        assert self.path is not None
        return read_long(self.path, self.long_columns, **self._reading)

    def read(self) -> Panel:
        return self._lay_out(self._read_chosen_rows(), self.fill)

    def read_unfilled(self) -> UnfilledPanel:
        """The panel with missing values as NaN, whatever `fill` says."""
        rows = self._read_chosen_rows()
        measured = np.isfinite(rows.values), np.isfinite(rows.known)  # before they are filled in place
        with warnings.catch_warnings(action="ignore"):  # of filled values
            panel = self._lay_out(rows, "zero")
        series = panel.ids.get_indexer(rows.ids)[rows.codes]
        offset = np.searchsorted(panel.grid.to_numpy(), rows.dates) - panel.grid_starts[series]
        place = panel.starts[series] + offset
        values, future = (
            _blank_missing(block, place, mask)
            for block, mask in zip((np.asarray(panel.values), panel.future), measured, strict=True)
        )
        assert values is not None
        in_file = np.zeros(len(values), dtype=bool)
        in_file[place] = True
        return UnfilledPanel(replace(panel, values=values, future=future, observed=None), in_file)

    def _read_chosen_rows(self) -> LongRows:
        rows = self.read_rows()
        if self.future_path is not None:
            ahead = replace(self.long_columns, values=(), static=(), past=0)
            rows = rows.followed_by(read_long(self.future_path, ahead, **self._reading))
        return self._chosen(rows)

    def _lay_out(self, rows: LongRows, fill: str | None) -> Panel:
        panel = lay_out(rows, freq=self._freq, fill=fill)
        if self.static_path is not None:
            panel = replace(panel, static=self._static_of(panel.ids))
        return panel

    def _chosen(self, rows: LongRows) -> LongRows:
        """The rows of `ids`. Raises ConfigError for an id that is not there."""
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


def _blank_missing(
    block: Float64[np.ndarray, "rows columns"] | None,
    place: Int64[np.ndarray, " file_rows"],
    measured: Bool[np.ndarray, "file_rows columns"],
) -> Float64[np.ndarray, "rows columns"] | None:
    """The columns with NaN where the file has no number; `place` is the row of the panel of each row of the file."""
    if block is None:
        return None
    known = np.zeros(block.shape, dtype=bool)
    known[place] = measured
    return np.where(known, block, np.nan)


class LongFrameSource(LongSource):
    """A long DataFrame; the options are those of `LongSource`."""

    def __init__(self, frame: pd.DataFrame, **options: object) -> None:
        super().__init__(path="the DataFrame", **options)  # type: ignore[arg-type]
        self.frame, self.path = frame, None

    def read_rows(self) -> LongRows:
        return read_long_frame(self.frame, self.long_columns)
