"""CSV and Parquet files as sources of a panel."""

import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from os import PathLike
from typing import Any

from forecast.data.files.column_roles import ColumnRoles
from forecast.data.files.read import holds_text, read_file
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.remedies import MAX_TEXT, Settings, advise
from forecast.data.files.series_ids import IdColumn
from forecast.data.files.static_file import read_static
from forecast.data.files.table_rows import TableRows
from forecast.data.files.table_source import TableSource
from forecast.data.files.text import read_text
from forecast.data.panel import Panel
from forecast.system.errors import ConfigError, DataError
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
    _text: bytes | None = field(default=None, init=False, repr=False)  # read instead of the file

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

    def read(self) -> Panel:
        """The panel. The message of a DataError names settings that read the file, where some were found."""
        try:
            return super().read()
        except DataError as error:
            self.add_advice(error)
            raise

    def add_advice(self, error: DataError, keys: Collection[str] | None = None) -> None:
        """Add to an error of this file the settings, of `keys` (None: all), that read the file."""
        if not error.remedies:
            return
        text = read_text(self.path, self._options()) if holds_text(self.path) else None
        given = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        read_whole = partial(self._count_missing, text)
        if text is None or len(text) <= MAX_TEXT or b"\n" not in text[:MAX_TEXT]:
            advise(error, given, read_whole, read_whole, keys)
        else:
            head = text[: text.rindex(b"\n", 0, MAX_TEXT) + 1]
            advise(error, given, partial(self._count_missing, head), read_whole, keys)

    def _count_missing(self, text: bytes | None, settings: Settings) -> int:
        """The missing rows, with more settings, of the file or a text of it. Raises DataError if most dates are."""
        given = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        source_class: type[FileSource] = type(self)
        if "data" in settings:
            source_class = LongSource
            given = {
                key: value
                for key, value in given.items()
                if key not in ("id_column", "date_column", "target")
            }
        chosen = {key: value for key, value in settings.items() if key != "data"}
        source = source_class(**{**given, **chosen})
        source._text, source.roles = text, replace(source.roles, optional=self.roles.optional)
        with warnings.catch_warnings(action="ignore"):
            panel = TableSource.read(source)
        missing = int(panel.missing.max())
        if "date_format" in settings and 3 * missing > 2 * len(panel.values):
            raise DataError(f"{self.path}: most dates are missing")
        return missing

    def _static_in_table(self) -> tuple[str, ...]:
        return super()._static_in_table() if self.static_path is None else ()

    def _options(self) -> ReadOptions:
        return ReadOptions(**{name: getattr(self, name) for name in ReadOptions.option_names()})

    def _read_given(self, options: ReadOptions) -> TableRows:
        return read_file(self.path, self.roles, self.date_column, options, self._text)

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
