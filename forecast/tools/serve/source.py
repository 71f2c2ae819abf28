"""The rows of a request as a source of a panel, and their reading for one model. Imports no torch."""

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from jaxtyping import Float64

from forecast.data.covariates import encode_categories
from forecast.data.files.cells import FRAME, Cells
from forecast.data.files.columns import ColumnRoles, Ids, Texts, convert_texts, join_ids, warn_of_booleans
from forecast.data.files.dates import are_far_away
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.sources import TableSource
from forecast.data.files.table_rows import TableRows
from forecast.data.files.timezone import place_in_time, without_zone, zone_name
from forecast.data.panel import Panel
from forecast.data.utc_offset import MIDNIGHT, OFFSET, YEARS, UtcOffset, utc_offset_of
from forecast.system.errors import ConfigError, DataError
from forecast.tools.serve.request import ForecastRequest, to_columns

Columns = Mapping[str, list[Any]]
"""Columns of equal length by name; a cell is a number, a text, true or false, or None where the value is missing."""

OFFSET_AT_END = re.compile(rf" ?{OFFSET}$")
"""The UTC offset at the end of a date that has one."""

TIME_WITH_OFFSET = re.compile(rf"[T ]\d\d.*{OFFSET}$")
"""A date with a time and a UTC offset, in ISO 8601."""

NO_CELLS = pd.DataFrame()
"""In place of the cells of a file, which messages on its lines show."""

NUMBERS, TEXTS = {int, float, bool, type(None)}, {str, type(None)}


@dataclass(kw_only=True)
class RequestSource(TableSource):
    """The rows of a request, as columns; those of `future` follow those of `given`."""

    given: Columns = field(default_factory=dict)
    future: Columns | None = None
    path: None = field(default=None, init=False)

    def of(self, given: Columns, future: Columns | None) -> "RequestSource":
        """The same source with the rows of another request; its options are not checked again."""
        other = copy.copy(self)
        other.given, other.future = given, future
        return other

    def _read_given(self, options: ReadOptions) -> TableRows:
        return read_columns("rows", self.given, self.roles, options)

    def _read_future(self, roles: ColumnRoles, options: ReadOptions) -> TableRows | None:
        if self.future is None:
            return None
        if not roles.future:
            raise ConfigError("future: this model reads no future covariates: leave it out")
        return read_columns("future", self.future, roles, options)


def read_columns(field: str, given: Columns, roles: ColumnRoles, options: ReadOptions) -> TableRows:
    """Read the columns that have a role.

    Args:
        field: name of the field of the request, for messages.
        given: the columns.
        roles: the columns to read.
        options: whether dates are the ends of their steps.

    Raises:
        DataError: a column is missing, or a cell is not what its role needs.
    """
    if len(roles.id_columns) > 1 and roles.id in given:
        roles = replace(roles, id_columns=(str(roles.id),))  # joined already
    roles = roles.resolve(str(FRAME), list(given))
    n_rows = len(given[roles.date])
    cells = Cells(FRAME, NO_CELLS, first_line=0, unit="row")
    parts = [read_ids(field, column, given[column]) for column in roles.id_columns]
    codes, ids = join_ids(cells, roles.id_columns, parts, n_rows)
    dates = read_dates(field, roles.date, given[roles.date])
    if are_far_away(dates):
        raise DataError(
            f"{field}: {roles.date} has dates before {YEARS[0]} or after {YEARS[1]}: leave them out"
        )
    dates, utc_offset = place_in_time(cells, roles.date, *without_zone(dates), options, codes)
    found_kinds = {name: set(map(type, given[name])) for name in roles.numbers if name in given}
    texts: Texts = {}
    values, future = (
        read_numbers(field, cells, given, names, roles, texts) for names in (roles.values, roles.future)
    )
    is_mixed = {name: len(kinds - {type(None)}) > 1 for name, kinds in found_kinds.items() if bool in kinds}
    warn_of_booleans([name for name in is_mixed if is_mixed[name]])
    return TableRows(
        cells=cells,
        roles=roles,
        ids=ids,
        codes=codes,
        dates=dates.to_numpy("datetime64[ns]"),
        values=values,
        future=future,
        static={name: read_static(field, name, given[name]) for name in roles.static},
        utc_offset=utc_offset,
        texts=texts,
        booleans=frozenset(name for name in is_mixed if not is_mixed[name]),
    )


def read_ids(field: str, column: str, given: list[Any]) -> Ids:
    """The number of the series of each row, and the ids. Raises DataError for a row without an id."""
    if set(map(type, given)) != {str}:
        for row, cell in enumerate(given):
            if not isinstance(cell, str | int | float):
                raise DataError(f"{field}: {column} of row {row}: {cell!r} is not an id")
        given = list(map(str, given))
    codes, ids = pd.factorize(np.array(given, dtype=object))
    return codes.astype(np.int32), pd.Index(ids, dtype=str)


def read_numbers(
    field: str, cells: Cells, given: Columns, names: Sequence[str], roles: ColumnRoles, texts: Texts
) -> Float64[np.ndarray, "rows columns"]:
    """Columns of numbers. Covariates may be text: then as codes, and `texts` receives their categories.

    Raises DataError for the first cell that is neither.
    """
    read = np.full((len(given[roles.date]), len(names)), np.nan)
    for i, name in enumerate(names):
        if name not in given:
            continue
        kinds = set(map(type, given[name]))
        if kinds <= NUMBERS:
            read[:, i] = to_floats(field, name, given[name])
        elif kinds <= TEXTS and name in roles.covariates:
            codes, found = pd.factorize(np.array(given[name], dtype=object))
            read[:, i] = convert_texts(cells, name, codes, pd.Index(found), ReadOptions(), texts)
        else:
            raise refuse_cell(field, name, given[name])
    return read


def to_floats(field: str, column: str, given: list[Any]) -> Float64[np.ndarray, " rows"]:
    """Numbers in float64, NaN for None. Raises DataError for a whole number that float64 does not hold."""
    try:
        return np.array(given, dtype=np.float64)
    except OverflowError:
        row = next(row for row, cell in enumerate(given) if isinstance(cell, int) and abs(cell) > 1 << 1023)
        raise DataError(f"{field}: {column} of row {row} is too large") from None


def refuse_cell(field: str, column: str, given: list[Any]) -> DataError:
    """The error of the first cell of a column that is not a number."""
    row, cell = next((row, cell) for row, cell in enumerate(given) if type(cell) not in NUMBERS)
    return DataError(f"{field}: {column} of row {row}: {cell!r} is not a number")


def read_static(field: str, column: str, given: list[Any]) -> pd.Series:
    """A static covariate: numbers or categories. Raises DataError for a cell that is neither."""
    kinds = set(map(type, given))
    if kinds <= TEXTS:
        codes, found = pd.factorize(np.array(given, dtype=object))
        return pd.Series(pd.Categorical.from_codes(codes, pd.Index(found, dtype=str)))
    if kinds <= NUMBERS:
        return pd.Series(to_floats(field, column, given))
    raise refuse_cell(field, column, given)


def read_dates(field: str, column: str, given: list[Any]) -> pd.DatetimeIndex:
    """Parse ISO 8601 dates: local times at the UTC offset that all have, or in UTC where their offsets differ.

    Raises:
        DataError: for the first text that is no date, or where some dates have a UTC offset and others have none.
    """
    for zone in (None, "UTC"):  # the usual layouts, all at once
        try:
            read = pa.array(given, pa.string()).cast(pa.timestamp("us", zone))
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            continue
        if not read.null_count:
            return at_common_offset(pd.DatetimeIndex(read.to_numpy(zero_copy_only=False), tz=zone), given)
    texts = [date if isinstance(date, str) else "" for date in given]
    has_offset = [TIME_WITH_OFFSET.search(text) is not None for text in texts]
    if any(has_offset) and not all(has_offset):
        row = has_offset.index(not has_offset[0])
        raise DataError(f"{field}: {column} of row {row}: give all dates with a UTC offset, or none")
    parsed = pd.to_datetime(pd.Index(texts), format="ISO8601", errors="coerce", utc=has_offset[0])
    if parsed.hasnans:
        row = int(parsed.isna().argmax())
        raise DataError(f"{field}: {column} of row {row}: {given[row]!r} is not a date in ISO 8601")
    return at_common_offset(pd.DatetimeIndex(parsed), texts)


def at_common_offset(dates: pd.DatetimeIndex, texts: list[Any]) -> pd.DatetimeIndex:
    """Convert dates in UTC to the UTC offset with which all texts end.

    Those of several offsets stay in UTC, or are days without an offset if each of them is a midnight.
    """
    if dates.tz is None:
        return dates
    ends = [OFFSET_AT_END.search(end) for end in {text[-6:] for text in texts}]  # at most +02:00
    names = {zone_name(end[0].lstrip()) for end in ends if end is not None}
    if len(names) == 1:
        return dates.tz_convert(names.pop())
    local = [OFFSET_AT_END.sub("", text) for text in texts]
    if all(re.search(MIDNIGHT, text) for text in local):
        return pd.DatetimeIndex(pd.to_datetime(local, format="ISO8601"))
    return dates


@dataclass(frozen=True)
class RequestReader:
    """Reads the rows of requests as `forecast predict` reads a file.

    Attributes:
        source: the columns that are read, with the options of the training data.
        state: the UTC offset of training (see `utc_offset_of`) and the `categories`.
    """

    source: RequestSource
    state: Mapping[str, Any]

    @classmethod
    def of_settings(cls, settings: Mapping[str, Any]) -> "RequestReader":
        """The reader of `forecast.tools.serve.trained.reading_settings`, in values that JSON can hold."""
        source = RequestSource(**settings["options"]).with_optional(frozenset(settings["unread"]))
        return cls(source, settings["data_state"])

    @property
    def utc_offset(self) -> UtcOffset:
        """That of the training data."""
        return utc_offset_of(self.state)

    def read(self, request: ForecastRequest, max_rows: int) -> Panel:
        """The rows of a request as a panel. Raises DataError, with the name of the field, if they cannot be read."""
        roles = self.source.roles
        # several id columns may be given joined
        read = roles.all if roles.id is None else (*roles.all, roles.id)
        rows, future = to_columns("rows", request.rows, read, max_rows), None
        if request.future is not None:
            future = to_columns("future", request.future, read, max_rows)
        for name, columns in {"rows": rows, "future": future or rows}.items():
            if roles.date not in columns:
                raise DataError(
                    f"{name}: no {roles.date!r}, which holds the dates; there are {list(columns)[:20]}"
                )
        try:
            panel = self.source.of(rows, future).read().at_utc_offset(self.utc_offset)
            return encode_categories(str(FRAME), panel, self.state["categories"])
        except DataError as error:
            raise DataError(str(error).replace(str(FRAME), "rows")) from None
