"""Requests for forecasts: the fields, and their rows as columns. Imports no torch."""

from collections.abc import Container
from typing import Annotated, Any, Literal

import pydantic_core
from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from forecast.evaluation.scores import BASELINES
from forecast.system.errors import DataError

MAX_COLUMNS = 10_000
MAX_HORIZON = 10_000
"""Largest number of steps in a request, which bounds the time and the memory of its answer."""

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
    """A request: the model, the rows to forecast from, and the intervals."""

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


def to_columns(field: str, given: Any, read: Container[str], max_rows: int) -> dict[str, list[Any]]:
    """The columns of the rows in a field of a request. A cell that is not given is None.

    Args:
        field: name of the field, for messages.
        given: a list of objects, or an object of lists.
        read: names of the columns that are read; the others have no cells.
        max_rows: largest number of rows.

    Raises:
        DataError: the rows are laid out otherwise, or are too many.
    """
    n_rows = count_rows(field, given)
    if n_rows > max_rows:
        raise DataError(f"{field}: {n_rows:,} rows are more than the {max_rows:,} that this server accepts")
    names = given if isinstance(given, dict) else dict.fromkeys(name for row in given for name in row)
    if len(names) > MAX_COLUMNS:
        raise DataError(
            f"{field}: {len(names):,} columns are more than the {MAX_COLUMNS:,} that are accepted"
        )
    if isinstance(given, dict):
        return given
    return {name: [row.get(name) for row in given] if name in read else [] for name in names}


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
