"""Tables as sources of a panel: files and DataFrames, of one series or of many."""

import difflib
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from forecast.data.files.align import align, align_unfilled
from forecast.data.files.cells import date_name, quote
from forecast.data.files.read import read_file, read_static, rows_from_frame
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.table_rows import ColumnRoles, TableRows
from forecast.data.files.unfilled import UnfilledPanel
from forecast.data.panel import Panel
from forecast.system.errors import ConfigError, DataError


@dataclass(kw_only=True)
class TableOptions:
    """Which rows and columns of a table are read, and how they are checked.

    Args:
        id_column: the column that names the series of a row; None: one series.
        date_column: the date column; of a CSV file also several, such as a date and a time.
        target: the target, where `columns` does not name several. None: `columns`.
        columns: the targets, in this order. None: `target`, or all columns that have no other role.
        past_covariates: columns that are read and not forecast.
        future_covariates: columns that are known beyond the end of each series too.
        static_covariates: columns that do not change within a series, in the same file or in `static_path`, which has
            one row for each series.
        drop: columns that are not read.
        ids: the series to use; None: all.
        freq: step between rows; None: inferred.
        fill, duplicates: see `forecast.data.files.align.align`.
        sort: sort the rows of each series by date, or refuse rows out of order. None: sort where there is `id_column`.
    """

    id_column: str | None = None
    date_column: str | Sequence[str] = "date"
    target: str | None = None
    columns: Sequence[str | int] | None = None
    past_covariates: Sequence[str] = ()
    future_covariates: Sequence[str] = ()
    static_covariates: Sequence[str] = ()
    drop: Sequence[str] = ()
    ids: Sequence[str] | None = None
    freq: str | None = None
    fill: str | None = None
    sort: bool | None = None
    duplicates: str | None = None

    def __post_init__(self) -> None:
        if not self.date_column:
            raise ConfigError("data.date_column is empty: name the column of the dates")
        for key in ("columns", "past_covariates", "future_covariates", "static_covariates", "drop", "ids"):
            _check_list(key, getattr(self, key))
        if self.ids is not None and self.id_column is None:
            raise ConfigError("data.ids names series, which needs data.id_column")
        targets = self.columns
        if targets is None and self.id_column is not None:
            if self.target is None:
                raise ConfigError("data.target=null: name the column to forecast, or several (data.columns)")
            targets = [self.target]
        self.roles = ColumnRoles(
            self.id_column,
            date_name(self.date_column),
            None if targets is None else tuple(map(str, targets)),
            *(tuple(map(str, names)) for names in (self.past_covariates, self.future_covariates)),
            static=self._static_in_table(),
            drop=tuple(map(str, self.drop)),
        )
        self.roles.check()

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Names of the options."""
        return tuple(field.name for field in fields(TableOptions))

    def _static_in_table(self) -> tuple[str, ...]:
        return tuple(map(str, self.static_covariates))

    def read_rows(self) -> TableRows:
        """The rows of the table, in its order."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Nothing to download."""

    def read(self) -> Panel:
        return self._finish(align(self._choose_series(self.read_rows()), fill=self.fill, **self._checks()))

    def read_unfilled(self) -> UnfilledPanel:
        """The panel with missing values as NaN, whatever `fill` says."""
        unfilled = align_unfilled(self._choose_series(self.read_rows()), **self._checks())
        return replace(unfilled, panel=self._finish(unfilled.panel))

    def _checks(self) -> dict[str, Any]:
        sort = self.id_column is not None if self.sort is None else self.sort
        return {"freq": self.freq, "sort": sort, "duplicates": self.duplicates}

    def _finish(self, panel: Panel) -> Panel:
        return panel

    def _choose_series(self, rows: TableRows) -> TableRows:
        """The rows of the series `ids`. Raises ConfigError for a series that is not there."""
        if self.ids is None:
            return rows
        wanted = [str(name) for name in self.ids]
        present = rows.ids[np.bincount(rows.codes, minlength=len(rows.ids)) > 0]  # categories may have no row
        for name in wanted:
            if name not in present:
                near = difflib.get_close_matches(name, present[:10_000].tolist(), n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise ConfigError(f"data.ids: there is no series {quote(name)} in {rows.cells.path}{hint}")
        return rows.take(np.flatnonzero(rows.ids.isin(wanted)[rows.codes]))


@dataclass(kw_only=True)
class FileSource(TableOptions):
    """A CSV file, also compressed, a Parquet file, or a folder of Parquet files.

    Args:
        path: the file.
        static_path: a file of the static covariates, one row for each series.
        future_path: a file of future covariates after the ends of the series; its rows follow those of `path`.
        date_format, timezone, stamp, separator, decimal, thousands, encoding, na_values: see `ReadOptions`.
    """

    path: Any  # str or Path when given, then a Path
    static_path: str | Path | None = None
    future_path: str | Path | None = None
    date_format: str | None = None
    timezone: str | None = None
    stamp: str = "start"
    separator: str = ","
    decimal: str = "."
    thousands: str | None = None
    encoding: str | None = None
    na_values: Sequence[float | str] = ()
    reading: ReadOptions = field(init=False)

    def __post_init__(self) -> None:
        if not self.path:
            raise ConfigError("data.path is missing: give a file (data.path=FILE)")
        if self.static_path is not None and not self.static_covariates:
            raise ConfigError("data.static_path needs data.static_covariates: the columns to take from it")
        if self.static_path is not None and self.id_column is None:
            raise ConfigError("data.static_path has one row per series, which needs data.id_column")
        if self.future_path is not None and not self.future_covariates:
            raise ConfigError("a file of the future holds future covariates, and there are none here")
        super().__post_init__()
        self.path = Path(self.path).expanduser()
        self.reading = ReadOptions(**{name: getattr(self, name) for name in ReadOptions.names()})

    def _static_in_table(self) -> tuple[str, ...]:
        return super()._static_in_table() if self.static_path is None else ()

    def read_rows(self) -> TableRows:
        rows = read_file(self.path, self.roles, self.date_column, self.reading)
        if self.future_path is None:
            return rows
        ahead = replace(self.roles, targets=(), past=(), static=(), drop=())
        path = Path(self.future_path).expanduser()
        return rows.followed_by(read_file(path, ahead, self.date_column, self.reading))

    def _finish(self, panel: Panel) -> Panel:
        return panel if self.static_path is None else replace(panel, static=self._read_static(panel.ids))

    def _read_static(self, ids: pd.Index) -> pd.DataFrame:
        path = Path(str(self.static_path)).expanduser()
        names = list(map(str, self.static_covariates))
        table = read_static(path, str(self.id_column), names, self.reading)
        lacking = ids.difference(table.index)
        if len(lacking):
            raise DataError(
                f"{path}: no row for {len(lacking):,} of {len(ids):,} series, such as {quote(lacking[0])}"
            )
        table = table.loc[ids]
        if table.isna().any(axis=None):
            name = table.columns[table.isna().any().argmax()]
            series = quote(table.index[table[name].isna()][0])
            raise DataError(f"{path}, column {quote(name)}: series {series} has no value")
        return table


@dataclass(kw_only=True)
class LongSource(FileSource):
    """A file with one row for each series and date, in any order; its columns have the field's usual names."""

    id_column: str | None = "unique_id"
    date_column: str | Sequence[str] = "ds"
    target: str | None = "y"


@dataclass
class FrameSource(TableOptions):
    """A DataFrame; ids and dates are columns or its index.

    Without `id_column`, the dates are its DatetimeIndex, whatever `date_column` says. The rows of `future`, which is
    laid out in the same way, follow those of `frame`.
    """

    frame: pd.DataFrame | pd.Series
    _: KW_ONLY
    future: pd.DataFrame | None = None
    path: Path | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.id_column is None:
            self.date_column = str(getattr(self.frame, "index", pd.Index([])).name or "date")
        super().__post_init__()
        self.frame = self._with_dates(self.frame)

    def _with_dates(self, frame: pd.DataFrame | pd.Series) -> pd.DataFrame:
        """The DataFrame with an index named as the date column, if the dates are the index."""
        if isinstance(frame, pd.Series):
            frame = frame.to_frame(frame.name if frame.name is not None else "value")
        if not isinstance(frame, pd.DataFrame):
            raise DataError(f"a pandas DataFrame or Series is needed, not {type(frame).__name__}")
        if self.id_column is not None:
            return frame
        if not isinstance(frame.index, pd.DatetimeIndex):
            raise DataError(
                "the DataFrame needs a DatetimeIndex: frame.set_index(pd.to_datetime(frame['date']))"
            )
        return frame.rename_axis(self.roles.date)

    def read_rows(self) -> TableRows:
        rows = rows_from_frame(pd.DataFrame(self.frame), self.roles)
        if self.future is None:
            return rows
        if not self.roles.future:
            raise ConfigError("future holds future covariates, and there are none here")
        ahead = replace(self.roles, targets=(), past=(), static=(), drop=())
        return rows.followed_by(rows_from_frame(self._with_dates(self.future), ahead))


def read_table(path: str | Path, **options: object) -> Panel:
    """Read a CSV or Parquet file as a panel, with the options of `FileSource`."""
    return FileSource(path=path, **options).read()  # type: ignore[arg-type]


def read_frame(frame: pd.DataFrame | pd.Series, **options: object) -> Panel:
    """Read a DataFrame as a panel, with the options of `FrameSource`."""
    return FrameSource(frame, **options).read()  # type: ignore[arg-type]


def _check_list(key: str, names: object) -> None:
    if names is None:
        return
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise ConfigError(f"data.{key}={names}: write a list, as in data.{key}=[{names}]")
    if key in ("columns", "ids") and not names:
        raise ConfigError(f"data.{key}=[]: name one, or leave it out (null)")
    if len(set(map(str, names))) < len(names):
        raise ConfigError(f"data.{key}={list(names)} must name columns, each once")
