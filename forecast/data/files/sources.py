"""Files and DataFrames as sources of a panel."""

import copy
import difflib
import re
from collections.abc import Container, Mapping, Sequence, Set
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import date
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
from jaxtyping import Bool

from forecast.data.calendars import CalendarSetting, check_year, make_calendar
from forecast.data.files.cells import FRAME, FUTURE, DateColumn, date_name
from forecast.data.files.columns import ColumnRoles, IdColumn, check_as_of, list_id_columns
from forecast.data.files.grid import DUPLICATES, STEPS, align
from forecast.data.files.header import DEFAULT_NAMES, SAMPLED
from forecast.data.files.read import choose_layout, find_layout, read_file, read_static, rows_from_frame
from forecast.data.files.read_options import ReadOptions, StepOptions
from forecast.data.files.table_rows import TableRows
from forecast.data.files.text import is_date, quote
from forecast.data.panel import Panel
from forecast.data.source import Source
from forecast.system.errors import ConfigError, DataError, RowOrderError, TextColumns, check_choice, check_flag
from forecast.system.formatting import write_setting
from forecast.system.location import locate

_EARLIEST, _LATEST = pd.Timestamp("1678-01-01"), pd.Timestamp("2262-01-01")

Frame = Any
"""A DataFrame or a Series of pandas, or an eager DataFrame of Polars, PyArrow or another library of narwhals."""

AnySource = TypeVar("AnySource", bound="TableSource")


@dataclass(kw_only=True)
class ColumnOptions(Source):
    """Which columns and series of a table or a store are read.

    Args:
        columns: the targets, in this order. None: `target`, or all columns that have no other role.
        past_covariates: columns that are read and not forecast.
        future_covariates: columns that are known beyond the end of each series too. A series ends with the last value
            of a target, and the rows after it give future covariates.
        as_of: by future covariate, the column of its values as they were known in advance, such as forecasts of the
            temperature. A window reads the covariate before its forecast origin and this column after it.
        static_covariates: columns that do not change within a series, in every row of it; of a file, see `FileSource`.
        drop: columns that are not read.
        ids: the series to use, or a `PART` of them; None: all.
    """

    columns: Sequence[str | int] | None = None
    past_covariates: Sequence[str] = ()
    future_covariates: Sequence[str] = ()
    as_of: Mapping[str, str] | None = None
    static_covariates: Sequence[str] = ()
    drop: Sequence[str] = ()
    ids: Sequence[str] | None = None

    def choose_roles(self, ids: Sequence[str] = (), date: str = "", target: str | None = None) -> ColumnRoles:
        """The roles of the columns. Raises ConfigError for an option that is no list, and for a column of two roles."""
        for key in ("columns", "past_covariates", "future_covariates", "static_covariates", "drop", "ids"):
            check_list(key, getattr(self, key))
        as_of = check_as_of(self.as_of, self.future_covariates)
        targets = [target] if self.columns is None and ids and target is not None else self.columns
        given = (self.past_covariates, self.future_covariates, self.drop)
        past, future, drop = (tuple(map(str, names)) for names in given)
        roles = ColumnRoles(
            tuple(ids), date, None if targets is None else tuple(map(str, targets)), past, (*future, *as_of.values()),
            as_of=as_of, static=self._static_in_table(), drop=drop, target=target,
        )  # fmt: skip
        roles.check()
        return roles

    def _static_in_table(self) -> tuple[str, ...]:
        """The static covariates that are columns of the table itself."""
        return tuple(map(str, self.static_covariates))


@dataclass(kw_only=True)
class TableSource(ColumnOptions, StepOptions):
    """Which rows and columns of a table are read, and how they are checked.

    Args:
        id_column: the column that names the series of a row, or several, whose texts are joined; None: one series.
        date_column: the date column; of a CSV file also several, such as a date and a time.
        target: the target, where `columns` does not name several. None: `columns`.
        columns, past_covariates, ...: see `ColumnOptions`.
        rows: first and last date of the rows to use; None: no limit. A last date without a time includes its day.
        freq, stamp: see `StepOptions`.
        steps: `dates`: rows are `freq` apart, and a date without a row is missing. `rows`: each date with a row is a
            step, whatever the time between two rows.
        calendar: with `steps=rows`, the dates at which rows come after the end, see
            `forecast.data.calendars.find_calendar`.
        duplicates: see `forecast.data.files.grid.order_rows`.
        sort: sort the rows of each series by date, or refuse rows out of order. None: sort where there is `id_column`.
    """

    id_column: IdColumn = None
    date_column: DateColumn = "date"
    target: str | None = None
    rows: Any = None  # checked by `parse_span`
    steps: str = "dates"
    calendar: CalendarSetting = None
    sort: bool | None = None
    duplicates: str | None = None

    def __post_init__(self) -> None:
        if not self.date_column:
            raise ConfigError("data.date_column is empty: name the column of the dates")
        check_flag("data.sort", self.sort)
        if self.duplicates is not None:
            check_choice("data.duplicates", self.duplicates, DUPLICATES)
        check_choice("data.steps", self.steps, STEPS)
        if self.calendar is not None:
            if self.steps != "rows":
                problem = "data.calendar gives the dates of rows that are taken as steps"
                raise ConfigError(f"{problem}: set data.steps=rows")
            make_calendar(self.calendar, [])  # refuses an unknown one
        self._first, self._last = parse_span(self.rows)
        if self.ids is not None and self.id_column is None:
            raise ConfigError("data.ids names series, which needs data.id_column")
        if self.columns is None and self.target is None and self.id_column is not None:
            raise ConfigError("data.target=null: name the column to forecast, or several (data.columns)")
        id_columns = list_id_columns(self.id_column)
        self.roles = self.choose_roles(id_columns, date_name(self.date_column), self.target)

    def with_optional(self: AnySource, columns: Set[str]) -> AnySource:
        """The same source, in which these columns may be absent: then all their values are missing."""
        other = copy.copy(self)  # its other options are checked, and its paths complete
        other.roles = replace(self.roles, optional=frozenset(columns))
        return other

    def read_rows(self) -> TableRows:
        """The rows of the table in its order, followed by those of its future covariates."""
        options = self._options()
        rows = self._choose_dates(self._read_given(options))
        future = self._read_future(self.roles.of_future_rows(), options.of_rows_after(rows.utc_offset))
        return rows if future is None else rows.followed_by(future)

    def _options(self) -> ReadOptions:
        """How the rows are parsed: by those of the options that this source has."""
        return ReadOptions.of_settings(vars(self))

    def _read_given(self, options: ReadOptions) -> TableRows:
        """The rows of the table itself."""
        raise NotImplementedError

    def _read_future(self, roles: ColumnRoles, options: ReadOptions) -> TableRows | None:
        """The rows of future covariates after the ends of the series; None if there are none."""
        raise NotImplementedError

    def read(self) -> Panel:
        rows = self._choose_series(self.read_rows())
        rows.refuse_new_series()
        self.absent, self.without_role = rows.roles.absent, rows.roles.without_role
        sort = self.id_column is not None if self.sort is None else self.sort
        grid = {"freq": self.freq, "steps": self.steps, "calendar": self.calendar}
        return align(rows, sort=sort, duplicates=self.duplicates, **grid)

    def _choose_dates(self, rows: TableRows) -> TableRows:
        """The rows between the dates of `rows`. Raises DataError if there are none."""
        if self.rows is None:
            return rows
        given = f"data.rows={list(self.rows)}"
        first, last = rows.utc_offset.read_setting(given, (self._first, self._last))
        chosen = np.flatnonzero((rows.dates >= first) & (rows.dates <= last))
        if not len(chosen):
            dates = rows.utc_offset.shown(pd.DatetimeIndex([rows.dates.min(), rows.dates.max()]))
            span = " to ".join(map(str, dates))
            raise DataError(f"{rows.cells.path}: {given} leaves no row: there are {span}")
        return rows.take(chosen)

    def _choose_series(self, rows: TableRows) -> TableRows:
        """The rows of the series `ids`. Raises ConfigError for a series that is not there."""
        if self.ids is None:
            return rows
        present = rows.ids[np.bincount(rows.codes, minlength=len(rows.ids)) > 0]  # categories may have no row
        chosen = present[find_series(self.ids, present, str(rows.cells.path))]
        return rows.take(np.flatnonzero(rows.ids.isin(chosen)[rows.codes]))


PART = re.compile(r"\d+of\d+")
"""One of several equal parts of the series, as in data.ids=3of16."""


def find_series(ids: Sequence[str], present: pd.Index, where: str) -> Bool[np.ndarray, " series"]:
    """Whether each series that is `present` is one of `ids`, a list or a `PART`: the third, 19th, 35th ... for 3of16.

    Raises ConfigError for an id that is not there, or more parts than series.
    """
    if isinstance(ids, str):
        part, parts = map(int, ids.split("of"))
        if not 0 < part <= parts <= len(present):
            raise ConfigError(f"data.ids={ids}: there is no such part of {len(present):,} series in {where}")
        return np.arange(len(present)) % parts == part - 1
    wanted = [str(name) for name in ids]
    for name in wanted:
        if name not in present:
            near = difflib.get_close_matches(name, present[:10_000].tolist(), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ConfigError(f"data.ids: there is no series {quote(name)} in {where}{hint}")
    return present.isin(wanted)


def parse_span(rows: Any) -> tuple[pd.Timestamp, pd.Timestamp]:
    """The first and the last date of `data.rows`. Raises ConfigError for anything but two dates or null."""
    given = f"data.rows={rows if isinstance(rows, str) or not isinstance(rows, Sequence) else list(rows)}"
    if rows is None:
        return _EARLIEST, _LATEST  # type: ignore[reportReturnType]
    if isinstance(rows, str) or not isinstance(rows, Sequence) or len(rows) != 2:
        raise ConfigError(f"{given}: write two dates, as in data.rows=[2006-01-01,null]")
    bounds = [_EARLIEST, _LATEST]
    for number, bound in enumerate(rows):
        if bound is None:
            continue
        read = pd.to_datetime(str(bound), format="ISO8601", errors="coerce")
        if read is pd.NaT or len(str(bound)) < len("20060101"):  # a year, or a month
            raise ConfigError(f"{given}: write dates as 2006-01-01 or 2006-01-01T06:00")
        check_year(given, read)
        has_time = number == 0 or len(str(bound)) > len("2006-01-01")
        bounds[number] = read if has_time else read + pd.Timedelta(days=1) - pd.Timedelta(1, "ns")
    first, last = bounds
    if first.tz_localize(None) > last.tz_localize(None):
        raise ConfigError(f"{given}: the first date lies after the last one")
    return first, last  # type: ignore[reportReturnType]


def check_list(key: str, names: object) -> None:
    """Raise ConfigError unless the option `data.KEY` is null, a list of different names, or of ids a `PART`."""
    if names is None or (key == "ids" and PART.fullmatch(str(names))):
        return
    if isinstance(names, str) or not isinstance(names, Sequence):
        text = str(names)
        name = text[1:-1] if text.startswith("[") and text.endswith("]") else text
        raise ConfigError(f"data.{key}={names}: write a list, as in {write_setting(f'data.{key}', [name])}")
    if key in ("columns", "ids") and not names:
        what = "series" if key == "ids" else "column"
        raise ConfigError(f"data.{key}=[]: name a {what}, or leave it out (null)")
    if len(set(map(str, names))) < len(names):
        raise ConfigError(f"data.{key}={list(names)} must name columns, each once")


@dataclass(kw_only=True)
class FileSource(TableSource, ReadOptions):
    """A CSV file, also compressed, a Parquet file, a folder of Parquet files, or a sheet of an Excel workbook.

    Args:
        path: the file, or its URL; see `forecast.system.location`.
        static_path: a file of the static covariates, see `forecast.data.files.read.read_static`.
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

    def read(self) -> Panel:
        """The panel. The advice on rows that repeat dates, and on text, is the layout that the file seems to have."""
        try:
            panel = super().read()
        except (RowOrderError, TextColumns) as error:
            layout, reason = {}, ""
            if self.id_column is None:
                layout, reason = find_layout(self.path, self.date_column, self._options(), self.drop)
            if layout:
                settings = " ".join(write_setting(key, value) for key, value in layout.items())
                error.args = (f"{error.problem}; {reason}: set {settings}",)
                error.is_for_training = True
            raise
        if self.static_path is None:
            return panel
        path, names = locate(self.static_path), list(map(str, self.static_covariates))
        options = replace(self._options(), skip_rows=None)  # a file of another kind
        return replace(panel, static=read_static(path, panel.ids, self.roles.id_columns, names, options))

    def _static_in_table(self) -> tuple[str, ...]:
        return super()._static_in_table() if self.static_path is None else ()

    def _read_given(self, options: ReadOptions) -> TableRows:
        return read_file(self.path, self.roles, self.date_column, options)

    def _read_future(self, roles: ColumnRoles, options: ReadOptions) -> TableRows | None:
        if self.future_path is None:
            return None
        return read_file(locate(self.future_path), roles, self.date_column, options)


@dataclass(kw_only=True)
class LongSource(FileSource):
    """A file with one row for each series and date, in any order; its columns have the field's usual names."""

    id_column: IdColumn = "unique_id"
    date_column: DateColumn = "ds"
    target: str | None = "y"


def read_table(path: str | PathLike[str], **options: object) -> Panel:
    """Read a CSV or Parquet file as a panel, with the options of `FileSource`."""
    return FileSource(path=path, **options).read()  # type: ignore[arg-type]


@dataclass
class FrameSource(TableSource):
    """A DataFrame; ids and dates are columns or its index.

    Without `id_column`, a `date_column` that is no default name must name the index or a column, see `name_dates`. The
    rows of `future`, which is laid out as `frame`, follow those of `frame`.
    """

    frame: Frame
    _: KW_ONLY
    future: Frame | None = None
    path: Path | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.frame = as_frame(self.frame)
        if self.id_column is None:
            self.date_column = name_dates(self.frame, date_name(self.date_column))
        super().__post_init__()
        self.frame = self._with_dates(self.frame)

    def _with_dates(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The DataFrame, whose index of dates is named as the date column unless a column is."""
        is_column = self.roles.date in map(str, frame.columns) or frame.index.nlevels > 1
        is_index = not is_column and _looks_like_dates(frame.index.to_series())
        return frame.rename_axis(self.roles.date) if is_index else frame

    def read(self) -> Panel:
        """The panel. The message of a DataError names options as arguments, and not as keys of a command."""
        try:
            return super().read()
        except DataError as error:
            error.args = (re.sub(r"\bdata\.(?=[a-z_]+\b)", "", str(error)),)
            raise

    def _read_given(self, options: ReadOptions) -> TableRows:
        return rows_from_frame(self.frame, self.roles, options)

    def _read_future(self, roles: ColumnRoles, options: ReadOptions) -> TableRows | None:
        if self.future is None:
            return None
        if not roles.future:
            raise ConfigError("future needs data.future_covariates: the columns to take from it")
        return rows_from_frame(self._with_dates(as_frame(self.future)), roles, options, FUTURE)


def as_frame(frame: Frame) -> pd.DataFrame:
    """A frame of any library as a DataFrame of pandas; a Series as one column.

    A DatetimeIndex or PeriodIndex without a name becomes `date`; a name of the index that a column has too is changed.
    Raises DataError for anything else.
    """
    import narwhals as nw

    if isinstance(frame, pd.Series):
        frame = frame.to_frame(frame.name if frame.name is not None else "value")
    if isinstance(frame, pd.DataFrame):
        is_dates, taken = isinstance(frame.index, pd.DatetimeIndex | pd.PeriodIndex), {*map(str, frame.columns)}
        names = ["date"] if is_dates and frame.index.name is None else frame.index.names
        while clash := {*map(str, names)} & taken:
            names = [f"{name}_index" if str(name) in clash else name for name in names]
        return frame.rename_axis(names)
    try:
        return nw.from_native(frame, eager_only=True).to_pandas()
    except TypeError:
        name = f"{type(frame).__module__.partition('.')[0]}.{type(frame).__name__}"
        needed = "a DataFrame of pandas, Polars or PyArrow is needed"
        raise DataError(f"{needed}, not {name}; collect a LazyFrame first") from None


def to_library_of(frame: Frame | None, table: pd.DataFrame) -> Frame:
    """A table as a frame of the library of `frame`, with its index as a column; for pandas, the table itself."""
    import narwhals as nw

    if frame is None or isinstance(frame, pd.DataFrame | pd.Series):
        return table
    arrow = pa.Table.from_pandas(table.reset_index(), preserve_index=False)
    library = nw.from_native(frame, eager_only=True).implementation
    return nw.from_arrow(arrow, backend=library).to_native()


def name_dates(frame: pd.DataFrame, wanted: str) -> str:
    """The name of the dates of a table of `as_frame`, of its index or of a column.

    They are `wanted`. If that is a default name, they are the DatetimeIndex, or the beginnings of the PeriodIndex; in a
    table that has neither, the column `date` or `ds`, or the only column that looks like dates. Raises DataError if
    there are none, or several columns of other names.
    """
    index = str(frame.index.name)
    dates = [str(name) for name, column in frame.items() if _looks_like_dates(column)]
    is_index = isinstance(frame.index, pd.DatetimeIndex | pd.PeriodIndex)
    if wanted in DEFAULT_NAMES:
        found = [index] if is_index else [name for name in DEFAULT_NAMES if name in dates] or dates[:2]
    elif wanted in dates:
        return wanted
    else:
        is_named = index == wanted and _looks_like_dates(frame.index.to_series())
        found = [index] if is_named else []
    if found and (len(found) == 1 or found[0] in DEFAULT_NAMES):
        return found[0]
    there = f"give the rows an index of dates, such as pd.date_range('2024-01-01', periods={len(frame)}, freq='h')"
    there = f"name one of the columns of dates ({', '.join(dates)}) (date_column)" if dates else there
    raise DataError(f"{FRAME}: neither the index nor one column {quote(wanted)} holds dates: {there}")


def find_roles(
    frame: Frame, ids: Sequence[str], date_column: str | None, target: str | None, others: Container[str]
) -> tuple[dict[str, Any], str]:
    """The columns of ids, dates and the target that are not given, as `find_layout` finds those of a file.

    Args:
        frame: see `FrameSource`.
        ids: the id columns; if empty, those that tell rows of one date apart.
        date_column: None: the index or column of any name that holds dates.
        target: None: all columns, or in a frame of many series the only column of numbers.
        others: columns with another role.

    Returns:
        The names by role, None for those that the reading chooses; and why there are ids, if they are not given.
    """
    if not isinstance(date_column, str | None):
        raise ConfigError(f"date_column={date_column}: a DataFrame has its dates in one column or its index: join them")
    table = as_frame(frame)
    is_in_index = None not in table.index.names and (table.index.nlevels > 1 or table.index.has_duplicates)
    table = (table.reset_index() if is_in_index else table).rename(columns=str)
    dates = date_column or name_dates(table, DEFAULT_NAMES[0])
    known = [dates, *ids, *(name for name in table if name in others or name == target)]
    if ids:
        numbers = table.select_dtypes("number").columns.difference(known)
        target = numbers[0] if target is None and "y" not in table and len(numbers) == 1 else target
        return {"id_column": [*ids], "date_column": dates, "target": target}, ""
    layout, why = {}, ""
    if dates in table:
        layout, why = choose_layout(table, dates, known, lambda names: pd.DataFrame(table[names]))
    if "data.date_column" in layout and "data" not in layout:
        both = " and ".join(layout["data.date_column"])
        raise DataError(f"{FRAME}: {why}: join {both} into one column, or the index, of dates")
    if "data" not in layout:
        return {"id_column": None, "date_column": date_column, "target": target}, ""
    found = list_id_columns(layout.get("data.id_column", "unique_id"))
    usual = "y" if "y" in table else None
    return {"id_column": [*found], "date_column": dates, "target": target or layout.get("data.target", usual)}, why


def _looks_like_dates(column: pd.Series) -> bool:
    """Whether a column has the type of dates or of periods, or begins with dates or with texts of dates."""
    if isinstance(column.dtype, pd.PeriodDtype) or pd.api.types.is_datetime64_any_dtype(column):
        return True
    first = column.dropna().head(SAMPLED)
    are_dates = (is_date(cell) if isinstance(cell, str) else isinstance(cell, date) for cell in first)
    return len(first) > 0 and all(are_dates)


def read_frame(frame: Frame, **options: object) -> Panel:
    """Read a DataFrame as a panel, with the options of `FrameSource`."""
    return FrameSource(frame, **options).read()  # type: ignore[arg-type]
