"""DataFrames as sources of a panel."""

from dataclasses import KW_ONLY, dataclass, field
from datetime import date
from pathlib import Path

import pandas as pd

from forecast.data.files.column_roles import ColumnRoles
from forecast.data.files.date_columns import date_name, is_date
from forecast.data.files.find_date_column import DEFAULT_NAMES
from forecast.data.files.header_hints import SAMPLED
from forecast.data.files.read import rows_from_frame
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.table_rows import TableRows
from forecast.data.files.table_source import TableSource
from forecast.data.files.text import quote
from forecast.data.panel import Panel
from forecast.system.errors import ConfigError, DataError


@dataclass
class FrameSource(TableSource):
    """A DataFrame; ids and dates are columns or its index.

    Without `id_column`, a `date_column` that is no default name must name the index or a column, see `name_dates`. The
    rows of `future`, which is laid out as `frame`, follow those of `frame`.
    """

    frame: pd.DataFrame | pd.Series
    _: KW_ONLY
    future: pd.DataFrame | None = None
    path: Path | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.frame = as_frame(self.frame)
        if self.id_column is None:
            self.date_column = name_dates(self.frame, date_name(self.date_column))
        super().__post_init__()
        self.frame = self._with_dates(self.frame)

    def _with_dates(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The DataFrame with an index named as the date column, or if a column is, without names of the index."""
        if self.id_column is not None:
            return frame
        if self.roles.date in map(str, frame.columns):
            return frame.rename_axis([None] * frame.index.nlevels)
        return frame.rename_axis(self.roles.date) if has_dates(frame.index) else frame

    def _read_given(self, options: ReadOptions) -> TableRows:
        return rows_from_frame(pd.DataFrame(self.frame), self.roles, options)

    def _read_future(self, roles: ColumnRoles, options: ReadOptions) -> TableRows | None:
        if self.future is None:
            return None
        if not roles.future:
            raise ConfigError("future needs data.future_covariates: the columns to take from it")
        return rows_from_frame(self._with_dates(as_frame(self.future)), roles, options)


def as_frame(frame: pd.DataFrame | pd.Series) -> pd.DataFrame:
    """A Series as a DataFrame of one column. Raises DataError for what is neither."""
    if isinstance(frame, pd.Series):
        return frame.to_frame(frame.name if frame.name is not None else "value")
    if not isinstance(frame, pd.DataFrame):
        raise DataError(f"a pandas DataFrame or Series is needed, not {type(frame).__name__}")
    return frame


def has_date_index(frame: pd.DataFrame) -> bool:
    return isinstance(frame.index, pd.DatetimeIndex | pd.PeriodIndex)


def name_dates(frame: pd.DataFrame, wanted: str) -> str:
    """The name of the dates of a table, of its index or of a column.

    They are `wanted`. If that is a default name, they are the DatetimeIndex, or the beginnings of the PeriodIndex; in a
    table that has neither, the column `date` or `ds`, or the only column that looks like dates. A name of the index
    that a column has too is changed.

    Raises:
        DataError: nothing of the name `wanted` holds dates, or no column, or several columns of other names.
    """
    dates = [str(name) for name, column in frame.items() if looks_like_dates(column)]
    if wanted not in DEFAULT_NAMES:
        if wanted in dates:
            return wanted
        if str(frame.index.name) != wanted or not has_dates(frame.index):
            there = f"; these columns do: {', '.join(dates)}" if dates else ""
            raise DataError(
                f"the DataFrame: neither the index nor a column named {quote(wanted)} (date_column) holds dates{there}"
            )
        return name_index(frame)
    if has_date_index(frame):
        return name_index(frame)
    named = [name for name in DEFAULT_NAMES if name in dates]
    if not named and len(dates) != 1:
        if dates:
            raise DataError(
                f"the DataFrame has several columns of dates ({', '.join(dates)}): give one, such as "
                f"date_column={dates[0]!r}"
            )
        raise DataError(
            "the DataFrame has no DatetimeIndex and no column of dates: give rows without dates an index, such as "
            "frame.index = pd.date_range('2024-01-01', periods=len(frame), freq='h')"
        )
    return [*named, *dates][0]


def has_dates(index: pd.Index) -> bool:
    """Whether an index holds dates, periods or texts of dates."""
    return looks_like_dates(index.to_series())


def name_index(frame: pd.DataFrame) -> str:
    """The name of the index, `date` if it has none, with `_index` at its end where a column has that name."""
    name, columns = str(frame.index.name or "date"), {*map(str, frame.columns)}
    while name in columns:
        name += "_index"
    return name


def looks_like_dates(column: pd.Series) -> bool:
    """Whether a column has the type of dates or of periods, or begins with dates or with texts of dates."""
    if isinstance(column.dtype, pd.PeriodDtype) or pd.api.types.is_datetime64_any_dtype(column):
        return True
    first = column.dropna().head(SAMPLED)
    return len(first) > 0 and all(
        is_date(cell) if isinstance(cell, str) else isinstance(cell, date) for cell in first
    )


def read_frame(frame: pd.DataFrame | pd.Series, **options: object) -> Panel:
    """Read a DataFrame as a panel, with the options of `FrameSource`."""
    return FrameSource(frame, **options).read()  # type: ignore[arg-type]
