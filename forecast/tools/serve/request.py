"""Requests for forecasts: the fields, and their rows as the source of a panel. Imports no torch."""

import copy
import re
import warnings
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pydantic_core
from jaxtyping import Shaped
from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from forecast.data.calendars import UtcOffset, utc_offset_of
from forecast.data.covariates import encode_categories
from forecast.data.files.cells import FRAME, FUTURE, Cells
from forecast.data.files.columns import ColumnRoles
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.sources import TableSource
from forecast.data.files.table_rows import TableRows, rows_from_cells
from forecast.data.files.text import quote
from forecast.data.panel import Panel
from forecast.system.errors import ConfigError, DataError

MAX_HORIZON = 10_000  # largest number of steps in a request, which bounds the time and the memory of its answer

PlainDates = Shaped[np.ndarray, " rows"]  # datetime64[s]
PLAIN_DATE = re.compile(r"(1[7-9]|2[01])\d\d-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?)?")  # of a year that each reading takes

Columns = Mapping[str, list[Any]]
"""Columns of equal length by name; a cell is a number, a text, true or false, or None where the value is missing."""

CELL = {"anyOf": [{"type": kind} for kind in ("number", "string", "boolean", "null")]}
ROWS = WithJsonSchema(
    {
        "anyOf": [
            {"type": "array", "items": {"type": "object", "additionalProperties": CELL}},
            {"type": "object", "additionalProperties": {"type": "array", "items": CELL}},
        ]
    }
)


class ForecastRequest(BaseModel):
    """A request: the rows to forecast from, the steps and the intervals."""

    model_config = ConfigDict(extra="forbid", strict=True)

    rows: Annotated[Any, ROWS] = Field(
        description="The newest rows of each series, at least seq_len of them: a list with one object per row, or "
        "one object with a list per column, which is faster. Dates are ISO 8601; null is a missing value."
    )
    future: Annotated[Any, ROWS] = Field(
        None, description="Rows of the future covariates after the end of each series, laid out as rows."
    )
    horizon: int | None = Field(
        None,
        ge=1,
        le=MAX_HORIZON,
        description="Steps to forecast; null: pred_len. Beyond it the model reads its own forecasts.",
    )
    levels: list[float] | None = Field(
        None, max_length=20, description="Levels of the intervals in percent; null: those of the run; []: none."
    )


def read_request(body: bytes) -> ForecastRequest:
    """Parse the JSON of a request. Raises DataError for the first field that is wrong, with its name."""
    try:
        content = pydantic_core.from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise DataError(f"the body is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise DataError('the body is not a JSON object: write {"rows": ...}')
    try:
        return ForecastRequest.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        field = ".".join(map(str, first["loc"]))
        known = ", ".join(ForecastRequest.model_fields)
        if first["type"] == "extra_forbidden":
            raise DataError(f"{field}: there is no such field; the fields are {known}") from None
        raise DataError(f"{field}: {first['msg']}") from None


def to_columns(field: str, given: Any, read: Container[str], max_rows: int) -> dict[str, list[Any]]:
    """The columns of the rows in a field of a request. A cell that is not given is None.

    Args:
        field: name of the field, for messages.
        given: a list of objects, or an object of lists.
        read: names of the columns that are read; the others have no cells.
        max_rows: largest number of rows.

    Raises DataError: the rows are laid out otherwise, or are too many.
    """
    if isinstance(given, list) and given and all(isinstance(row, dict) for row in given):
        names = dict.fromkeys(name for row in given for name in row)
        lengths = {"rows": len(given)}
        columns = {name: [row.get(name) for row in given] if name in read else [] for name in names}
    elif isinstance(given, dict) and given and all(isinstance(cells, list) for cells in given.values()):
        columns, lengths = given, {name: len(cells) for name, cells in given.items()}
    else:
        columns, lengths = {}, {"rows": 0}
    n_rows = max(lengths.values())
    if min(lengths.values()) != n_rows:
        raise DataError(f"{field}: the columns have different lengths: {lengths}")
    if not n_rows:
        raise DataError(
            f'{field}: write a list of objects, as in [{{"date": "2026-01-01", "load": 1.5}}], or an object of lists'
        )
    if n_rows > max_rows:
        raise DataError(f"{field}: {n_rows:,} rows are more than the {max_rows:,} that this server accepts")
    return columns


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
    """Read the columns that have a role, as those of a DataFrame are read.

    Args:
        field: name of the field of the request, for messages.
        given: the columns.
        roles: the columns to read.
        options: of the training data, such as whether dates are the ends of their steps.

    Raises DataError: a column is missing, or a cell is not what its role needs.
    """
    if len(roles.id_columns) > 1 and roles.id in given:
        roles = replace(roles, id_columns=(str(roles.id),))  # joined already
    with named(field):
        if roles.date not in given:
            raise DataError(f"{FRAME}: no column {quote(str(roles.date))}: it has the dates, as in 2026-01-31T06:00")
        roles = roles.resolve(str(FRAME), list(given))
        columns = {name: to_column(name, given[name], roles) for name in roles.all if name in given}
        frame = pd.DataFrame(columns, copy=False)
        path = FUTURE if field == str(FUTURE) else FRAME
        return rows_from_cells(Cells(path, frame, first_line=0, unit="row"), roles, options)


@contextmanager
def named(field: str) -> Iterator[None]:
    """Raise DataError with the name of the field of a request, and without advice on settings.

    UTC offsets that change are usual in requests: the warning of them is left out.
    """
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*the offset from UTC changes")
            yield
    except DataError as error:
        raise DataError(error.problem.replace(str(FRAME), field)) from None


def to_column(column: str, cells: list[Any], roles: ColumnRoles) -> Any:
    """The cells of a column: an array of texts, of true and false, or of numbers in float64, NaN for None.

    Raises DataError for the first cell that is not what the role of the column needs.
    """
    kinds = set(map(type, cells)) - {type(None)}
    if column == roles.date or column in roles.id_columns:
        allowed: set[type] = {str} if column == roles.date else {str, int, float}
        if not kinds <= allowed:
            raise refuse_cell(column, cells, allowed, "a date" if column == roles.date else "an id")
        return pd.array([None if cell is None else str(cell) for cell in cells], dtype="str")
    if kinds == {str} and (column in roles.covariates or column in roles.static):
        return pd.array(cells, dtype="str")
    if kinds == {bool}:
        return pd.array(cells, dtype=object if None in cells else bool)
    if not kinds <= {int, float, bool}:
        raise refuse_cell(column, cells, {int, float, bool}, "a number")
    if bool in kinds:
        warnings.warn(f"true and false in {column} are read as 1 and 0", stacklevel=2)
    try:
        return np.array(cells, dtype=np.float64)
    except OverflowError:
        row = next(row for row, cell in enumerate(cells) if isinstance(cell, int) and abs(cell) > 1 << 1023)
        raise DataError(f"{FRAME}, row {row}, column {column}: the number is too large") from None


def refuse_cell(column: str, cells: list[Any], allowed: set[type], what: str) -> DataError:
    """The error of the first cell that is none of the allowed types."""
    row, cell = next((row, cell) for row, cell in enumerate(cells) if cell is not None and type(cell) not in allowed)
    return DataError(f"{FRAME}, row {row}, column {column}: {cell!r} is not {what}")


@dataclass
class RequestReader:
    """Reads the rows of requests as `forecast predict` reads a file.

    Attributes:
        source: the columns that are read, with the options of the training data.
        state: the UTC offset of training (see `utc_offset_of`) and the `categories`.
        last: the panel of a request of plain rows, see `read_plain`, which other such requests repeat.
    """

    source: RequestSource
    state: Mapping[str, Any]
    last: Panel | None = field(default=None, init=False)

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
        plain = read_plain(rows, roles) if future is None else None
        if plain is not None and (panel := self._repeat_last(*plain)) is not None:
            return panel
        with named("rows"):
            panel = self.source.of(rows, future).read().at_utc_offset(self.utc_offset)
            panel = encode_categories(str(FRAME), panel, self.state["categories"])
        if plain is not None and is_plain(panel, *plain):
            self.last = panel
        return panel

    def _repeat_last(self, dates: PlainDates, numbers: Mapping[str, np.ndarray]) -> Panel | None:
        """The panel of plain rows that have the columns, the step and the length of the last ones; else None."""
        last = self.last
        if last is None or len(dates) != len(last.grid) or {*numbers} != {*last.columns}:
            return None
        steps = np.diff(dates)
        if (steps != np.diff(last.grid[:2].to_numpy())).any():
            return None
        values = np.column_stack([numbers[name] for name in last.columns])
        if dates[0] != last.grid.to_numpy()[0]:
            of_dates = dates.astype(last.grid.to_numpy().dtype)
            grid = pd.DatetimeIndex(of_dates, freq=last.grid.freq, name=last.grid.name)  # type: ignore[reportArgumentType]
            last = self.last = replace(last, grid=grid)
        return replace(last, values=values)


def read_plain(rows: Columns, roles: ColumnRoles) -> tuple[PlainDates, dict[str, np.ndarray]] | None:
    """The dates and numbers of one series, if dates are texts without UTC offset and no number is missing; else None.

    Reading them needs a fraction of the time that reading any rows does, for which see `read_columns`.
    """
    dates = rows.get(str(roles.date), ())
    numbers = {name: cells for name, cells in rows.items() if name in roles.values}
    if roles.id_columns or roles.static or not dates or {*map(type, dates)} != {str}:
        return None
    if not all(map(PLAIN_DATE.fullmatch, dates)) or any(
        {*map(type, cells)} - {int, float} for cells in numbers.values()
    ):
        return None
    try:
        arrays = {name: np.array(cells, dtype=np.float64) for name, cells in numbers.items()}
        is_finite = all(np.isfinite(cells).all() for cells in arrays.values())  # JSON has 1e999
        return (np.array(dates, dtype="datetime64[s]"), arrays) if is_finite else None
    except (ValueError, OverflowError):  # no date, such as 30 February, or too large a number
        return None


def is_plain(panel: Panel, dates: PlainDates, numbers: Mapping[str, np.ndarray]) -> bool:
    """Whether a panel has these dates, evenly spaced, and these numbers, unchanged, and nothing else.

    A step of weeks, months or years begins on certain days, which other dates with the same step may not be.
    """
    others = panel.has_ids or panel.future is not None or panel.texts or panel.indicators or panel.calendar
    is_fixed = isinstance(panel.grid.freq, pd.offsets.Tick | pd.offsets.Day)
    if others or not is_fixed or len(dates) != len(panel.grid) or {*numbers} != {*panel.columns} or len(dates) < 2:
        return False
    values = np.column_stack([numbers[name] for name in panel.columns])
    steps = np.diff(dates)
    is_same = np.array_equal(panel.grid.to_numpy(), dates) and np.array_equal(np.asarray(panel.values), values)
    return is_same and bool((steps == steps[0]).all())
