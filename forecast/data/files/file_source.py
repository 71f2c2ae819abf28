"""CSV and Parquet files as sources of a panel."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

from forecast.data.files.column_roles import ColumnRoles
from forecast.data.files.read import read_file
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.series_ids import IdColumn
from forecast.data.files.static_file import read_static
from forecast.data.files.table_rows import TableRows
from forecast.data.files.table_source import TableSource
from forecast.data.panel import Panel
from forecast.system.errors import ConfigError
from forecast.system.location import locate


@dataclass(kw_only=True)
class FileSource(TableSource, ReadOptions):
    """A CSV file, also compressed, a Parquet file, a folder of Parquet files, or a sheet of an Excel workbook.

    Args:
        path: the file, or its URL; see `forecast.system.location`.
        static_path: a file of the static covariates, see `forecast.data.files.static_file.read_static`.
        future_path: a file of future covariates after the ends of the series; its rows follow those of `path`.
        date_format, timezone, ...: how text is parsed, see `ReadOptions`.
    """

    path: Any  # a path or a URL when given, then a Location
    static_path: str | PathLike[str] | None = None
    future_path: str | PathLike[str] | None = None

    def __post_init__(self) -> None:
        if not self.path:
            raise ConfigError("data.path=null: data=csv and data=long need a file (data.path=FILE)")
        if self.static_path is not None and not self.static_covariates:
            raise ConfigError("data.static_path needs data.static_covariates: the columns to take from it")
        if self.static_path is not None and self.id_column is None:
            raise ConfigError("data.static_path has one row per series, which needs data.id_column")
        if self.future_path is not None and not self.future_covariates:
            raise ConfigError("data.future_path needs data.future_covariates: the columns to take from it")
        if self.future_path is not None and self.start is not None:
            raise ConfigError("a file of the future needs dates, and data.start numbers rows without dates")
        TableSource.__post_init__(self)
        ReadOptions.__post_init__(self)
        self.path = locate(self.path)

    def _static_in_table(self) -> tuple[str, ...]:
        return super()._static_in_table() if self.static_path is None else ()

    def _options(self) -> ReadOptions:
        return ReadOptions(**{name: getattr(self, name) for name in ReadOptions.option_names()})

    def _read_given(self, options: ReadOptions) -> TableRows:
        return read_file(self.path, self.roles, self.date_column, options)

    def _read_future(self, roles: ColumnRoles, options: ReadOptions) -> TableRows | None:
        if self.future_path is None:
            return None
        return read_file(locate(self.future_path), roles, self.date_column, options)

    def _finish(self, panel: Panel) -> Panel:
        if self.static_path is None:
            return panel
        path, names = locate(self.static_path), list(map(str, self.static_covariates))
        options = replace(self._options(), skip_rows=None)  # a file of another kind
        return replace(panel, static=read_static(path, panel.ids, self.roles.id_columns, names, options))


@dataclass(kw_only=True)
class LongSource(FileSource):
    """A file with one row for each series and date, in any order; its columns have the field's usual names."""

    id_column: IdColumn = "unique_id"
    date_column: str | Sequence[str] = "ds"
    target: str | None = "y"


def read_table(path: str | PathLike[str], **options: object) -> Panel:
    """Read a CSV or Parquet file as a panel, with the options of `FileSource`."""
    return FileSource(path=path, **options).read()  # type: ignore[arg-type]
