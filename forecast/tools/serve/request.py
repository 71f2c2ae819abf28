"""Requests for forecasts: the fields, and their rows as DataFrames."""

import re
from typing import Annotated, Any, Literal

import pandas as pd
import pydantic_core
from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from forecast.evaluation.names import BASELINES
from forecast.system.errors import DataError

OFFSET = re.compile(r"[T ]\d\d.*(Z|[+-]\d\d(:?\d\d)?)$")
"""The UTC offset of a date with a time in ISO 8601."""

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
    """What to forecast, and from which rows."""

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
        description="Steps to forecast; null: pred_len. Beyond it the model reads its own forecasts.",
    )
    start: str | None = Field(
        None, description="Date of the first step; null: the first date after the end of each series."
    )
    levels: list[float] | None = Field(
        None,
        max_length=20,
        description="Levels of the intervals in percent; null: those of the run; []: none.",
    )
    intervals: Literal["auto", "conformal", "quantile", "adaptive"] = Field(
        "auto", description="Method of the intervals."
    )
    baseline: str | None = Field(
        None, description=f"One of {', '.join(BASELINES)}, which then forecasts in place of the model."
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


def read_rows(
    field: str, given: Any, date_column: str, *, dates_are_index: bool, max_rows: int
) -> pd.DataFrame:
    """Make a DataFrame of the rows in a field of a request.

    Args:
        field: name of the field, for messages.
        given: a list of objects, or an object of lists.
        date_column: name of the dates.
        dates_are_index: make the dates the index, as for a single series.
        max_rows: largest number of rows.

    Raises:
        DataError: the rows are laid out otherwise, are too many, or a date is not ISO 8601.
    """
    n_rows = count_rows(field, given)
    if n_rows > max_rows:
        raise DataError(f"{field}: {n_rows:,} rows are more than the {max_rows:,} that this server accepts")
    frame = pd.DataFrame(given)
    if date_column not in frame:
        raise DataError(f"{field}: no {date_column!r}, which holds the dates; there are {list(frame)[:20]}")
    for name in [column for column in frame if frame[column].dtype == object]:
        check_cells(field, name, frame[name].tolist())
    frame[date_column] = read_dates(field, date_column, frame[date_column].tolist())
    return frame.set_index(date_column) if dates_are_index else frame


def count_rows(field: str, given: Any) -> int:
    """The number of rows. Raises DataError if they are neither a list of objects nor an object of lists."""
    if isinstance(given, list) and given and all(isinstance(row, dict) for row in given):
        return len(given)
    if isinstance(given, dict) and given and all(isinstance(column, list) for column in given.values()):
        lengths = {name: len(column) for name, column in given.items()}
        if len(set(lengths.values())) > 1:
            raise DataError(f"{field}: the columns have different lengths: {lengths}")
        if n_rows := next(iter(lengths.values())):
            return n_rows
    raise DataError(
        f'{field}: write a list of objects, as in [{{"date": "2026-01-01", "load": 1.5}}], or an object of lists'
    )


def check_cells(field: str, column: str, given: list[Any]) -> None:
    """Raise DataError for the first cell that is a list or an object, or a text in a column that has numbers too."""
    has_numbers = any(isinstance(cell, int | float) for cell in given)
    for row, cell in enumerate(given):
        if isinstance(cell, dict | list) or (has_numbers and isinstance(cell, str)):
            raise DataError(f"{field}: {column} of row {row}: {cell!r} is not a number")


def read_dates(field: str, column: str, given: list[Any]) -> pd.DatetimeIndex:
    """Parse ISO 8601 dates. Dates with different UTC offsets are converted to UTC.

    Raises:
        DataError: for the first text that is no date, or where some dates have a UTC offset and others have none.
    """
    texts = [date if isinstance(date, str) else "" for date in given]
    has_offset = [OFFSET.search(text) is not None for text in texts]
    if any(has_offset) and not all(has_offset):
        row = has_offset.index(not has_offset[0])
        raise DataError(f"{field}: {column} of row {row}: give all dates with a UTC offset, or none")
    parsed = pd.to_datetime(pd.Index(texts), format="ISO8601", errors="coerce", utc=has_offset[0])
    if parsed.hasnans:
        row = int(parsed.isna().argmax())
        raise DataError(f"{field}: {column} of row {row}: {given[row]!r} is not a date in ISO 8601")
    return pd.DatetimeIndex(parsed)
