"""The base class of tables as sources of a panel: which rows and columns are read, and how they are checked."""

import copy
import difflib
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from jaxtyping import Bool

from forecast.data.calendars import CalendarSetting
from forecast.data.files.align import align
from forecast.data.files.column_roles import ColumnRoles, check_as_of
from forecast.data.files.date_columns import date_name
from forecast.data.files.grid import Spacing
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.series_ids import IdColumn, list_id_columns
from forecast.data.files.table_rows import TableRows
from forecast.data.files.text import quote
from forecast.data.panel import Panel
from forecast.data.source import Source
from forecast.data.utc_offset import check_year
from forecast.system.arguments import write_setting
from forecast.system.checks import check_flag
from forecast.system.errors import ConfigError, DataError

_EARLIEST, _LATEST = pd.Timestamp("1678-01-01"), pd.Timestamp("2262-01-01")

AnyTable = TypeVar("AnyTable", bound="TableSource")


@dataclass(kw_only=True)
class TableSource(Source):
    """Which rows and columns of a table are read, and how they are checked.

    Args:
        id_column: the column that names the series of a row, or several, whose texts are joined; None: one series.
        date_column: the date column; of a CSV file also several, such as a date and a time.
        target: the target, where `columns` does not name several. None: `columns`.
        columns: the targets, in this order. None: `target`, or all columns that have no other role.
        past_covariates: columns that are read and not forecast.
        future_covariates: columns that are known beyond the end of each series too.
        as_of: by future covariate, the column of its values as they were known in advance, such as forecasts of the
            temperature. A window reads the covariate before its forecast origin and this column after it.
        static_covariates: columns that do not change within a series, in the same file or in `static_path`, which has
            one row for each series.
        drop: columns that are not read.
        rows: first and last date of the rows to use; None: no limit. A last date without a time includes its day.
        ids: the series to use; None: all.
        freq: step between rows; None: inferred.
        stamp: whether a date is the `start` or the `end` of its step.
        steps: `dates`: rows are `freq` apart, and a date without a row is missing. `rows`: each date with a row is a
            step, whatever the time between two rows.
        calendar: with `steps=rows`, the dates at which rows come after the end, see
            `forecast.data.calendars.find_calendar`.
        duplicates: see `forecast.data.files.order.order_rows`.
        sort: sort the rows of each series by date, or refuse rows out of order. None: sort where there is `id_column`.
    """

    id_column: IdColumn = None
    date_column: str | Sequence[str] = "date"
    target: str | None = None
    columns: Sequence[str | int] | None = None
    past_covariates: Sequence[str] = ()
    future_covariates: Sequence[str] = ()
    as_of: Mapping[str, str] | None = None
    static_covariates: Sequence[str] = ()
    drop: Sequence[str] = ()
    rows: Any = None  # checked by `parse_span`
    ids: Sequence[str] | None = None
    freq: str | None = None
    stamp: str = "start"
    steps: str = "dates"
    calendar: CalendarSetting = None
    sort: bool | None = None
    duplicates: str | None = None

    def __post_init__(self) -> None:
        if not self.date_column:
            raise ConfigError("data.date_column is empty: name the column of the dates")
        check_flag("data.sort", self.sort)
        self._spacing = Spacing(self.freq, self.steps, self.calendar)
        self._first, self._last = parse_span(self.rows)
        for key in ("columns", "past_covariates", "future_covariates", "static_covariates", "drop", "ids"):
            check_list(key, getattr(self, key))
        if self.ids is not None and self.id_column is None:
            raise ConfigError("data.ids names series, which needs data.id_column")
        targets = self.columns
        if targets is None and self.id_column is not None:
            if self.target is None:
                raise ConfigError("data.target=null: name the column to forecast, or several (data.columns)")
            targets = [self.target]
        as_of = check_as_of(self.as_of, self.future_covariates)
        self.roles = ColumnRoles(
            list_id_columns(self.id_column),
            date_name(self.date_column),
            None if targets is None else tuple(map(str, targets)),
            past=tuple(map(str, self.past_covariates)),
            future=(*map(str, self.future_covariates), *as_of.values()),
            as_of=as_of,
            static=self._static_in_table(),
            drop=tuple(map(str, self.drop)),
            target=self.target,
        )
        self.roles.check()

    def with_optional(self: AnyTable, columns: Set[str]) -> AnyTable:
        """The same source, in which these columns may be absent: then all their values are missing."""
        other = copy.copy(self)  # its other options are checked, and its paths complete
        other.roles = replace(self.roles, optional=frozenset(columns))
        return other

    def _static_in_table(self) -> tuple[str, ...]:
        return tuple(map(str, self.static_covariates))

    def read_rows(self) -> TableRows:
        """The rows of the table in its order, followed by those of its future covariates."""
        options = self._options()
        rows = self._choose_dates(self._read_given(options))
        future = self._read_future(self.roles.of_future_rows(), options.of_rows_after(rows.utc_offset))
        return rows if future is None else rows.followed_by(future)

    def _options(self) -> ReadOptions:
        """How the rows are parsed."""
        return ReadOptions(stamp=self.stamp, freq=self.freq)

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
        return self._finish(align(rows, self._spacing, sort=sort, duplicates=self.duplicates))

    def _finish(self, panel: Panel) -> Panel:
        return panel

    def _choose_dates(self, rows: TableRows) -> TableRows:
        """The rows between the dates of `rows`. Raises DataError if there are none."""
        if self.rows is None:
            return rows
        try:
            first, last = (rows.utc_offset.read(date).to_datetime64() for date in (self._first, self._last))
        except ValueError as error:
            raise ConfigError(
                f"data.rows={list(self.rows)}: leave the offset from UTC out: {error}"
            ) from None
        chosen = np.flatnonzero((rows.dates >= first) & (rows.dates <= last))
        if not len(chosen):
            dates = rows.utc_offset.shown(pd.DatetimeIndex([rows.dates.min(), rows.dates.max()]))
            span = " to ".join(map(str, dates))
            raise DataError(f"{rows.cells.path}: data.rows={list(self.rows)} leaves no row: there are {span}")
        return rows.take(chosen)

    def _choose_series(self, rows: TableRows) -> TableRows:
        """The rows of the series `ids`. Raises ConfigError for a series that is not there."""
        if self.ids is None:
            return rows
        present = rows.ids[np.bincount(rows.codes, minlength=len(rows.ids)) > 0]  # categories may have no row
        chosen = present[find_series(self.ids, present, str(rows.cells.path))]
        return rows.take(np.flatnonzero(rows.ids.isin(chosen)[rows.codes]))


def find_series(ids: Sequence[str], present: pd.Index, where: str) -> Bool[np.ndarray, " series"]:
    """Whether each series that is `present` is one of `ids`. Raises ConfigError for an id that is not there."""
    wanted = [str(name) for name in ids]
    for name in wanted:
        if name not in present:
            near = difflib.get_close_matches(name, present[:10_000].tolist(), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ConfigError(f"data.ids: there is no series {quote(name)} in {where}{hint}")
    return present.isin(wanted)


def parse_span(rows: Any) -> tuple[pd.Timestamp, pd.Timestamp]:
    """The first and the last date of `data.rows`. Raises ConfigError for anything but two dates or null."""
    first, last = _EARLIEST, _LATEST
    if rows is None:
        return first, last  # type: ignore[return-value]
    if isinstance(rows, str) or not isinstance(rows, Sequence) or len(rows) != 2:
        raise ConfigError(f"data.rows={rows}: write two dates, as in data.rows=[2006-01-01,null]")
    dates = [
        pd.to_datetime(str(date), format="ISO8601", errors="coerce") for date in rows if date is not None
    ]
    is_short = [len(str(date)) < len("20060101") for date in rows if date is not None]  # a year, or a month
    if any(date is pd.NaT for date in dates) or any(is_short):
        raise ConfigError(f"data.rows={list(rows)}: write dates as 2006-01-01 or 2006-01-01T06:00")
    for date in dates:
        check_year(f"data.rows={list(rows)}", date)
    if rows[0] is not None:
        first = dates[0]
    if rows[1] is not None:
        has_time = len(str(rows[1])) > len("2006-01-01")
        last = dates[-1] if has_time else dates[-1] + pd.Timedelta(days=1) - pd.Timedelta(1, "ns")
    if first.tz_localize(None) > last.tz_localize(None):
        raise ConfigError(f"data.rows={list(rows)}: the first date lies after the last one")
    return first, last  # type: ignore[return-value]


def check_list(key: str, names: object) -> None:
    """Raise ConfigError unless the option `data.KEY` is null or a list of different names."""
    if names is None:
        return
    if isinstance(names, str) or not isinstance(names, Sequence):
        text = str(names)
        name = text[1:-1] if text.startswith("[") and text.endswith("]") else text
        raise ConfigError(f"data.{key}={names}: write a list, as in {write_setting(f'data.{key}', [name])}")
    if key in ("columns", "ids") and not names:
        raise ConfigError(
            f"data.{key}=[]: name a {'series' if key == 'ids' else 'column'}, or leave it out (null)"
        )
    if len(set(map(str, names))) < len(names):
        raise ConfigError(f"data.{key}={list(names)} must name columns, each once")
