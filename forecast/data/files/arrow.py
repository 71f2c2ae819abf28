"""Rows of a long table from an Arrow table: Parquet files and DataFrames."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float64, Int32

from forecast.data.files.advice import refuse_text_as_target
from forecast.data.files.cells import COVARIATES, FRAME, Cells
from forecast.data.files.columns import ColumnRoles, Ids, Texts, convert_texts, join_ids
from forecast.data.files.date_column import number_dates
from forecast.data.files.dates import read_dates
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.table_rows import TableRows
from forecast.data.files.text import quote
from forecast.data.files.timezone import place_in_time, without_zone
from forecast.data.utc_offset import UtcOffset
from forecast.system.errors import DataError, TextColumns, TooFewRows


def rows_from_arrow(cells: Cells, table: pa.Table, roles: ColumnRoles, options: ReadOptions) -> TableRows:
    """Convert an Arrow table. Raises DataError for missing ids or dates, and columns of the wrong type."""
    if not table.num_rows:
        raise TooFewRows(f"{cells.path}: no rows")
    for name in set(roles.numbers) - set(table.column_names):
        table = table.append_column(name, pa.nulls(table.num_rows, pa.float64()))
    parts = [_categories(table[name]) for name in roles.id_columns]
    codes, ids = join_ids(cells, roles.id_columns, parts, table.num_rows)
    unit = "us"
    if options.start is None:
        if table[roles.date].null_count:
            row = int(table[roles.date].is_null().to_numpy().argmax())
            raise cells.error("no date", row=row, column=roles.date)
        dates, utc_offset = _dates(cells, table[roles.date], roles.date, options, codes)
        unit = getattr(table[roles.date].type, "unit", unit)
    else:
        dates, utc_offset = number_dates(codes, options), UtcOffset()
    static: dict[str, pd.Series] = {}
    for name in roles.static:
        column = table[name]
        if is_text(column.type) or pa.types.is_dictionary(column.type):
            static[name] = pd.Series(pd.Categorical.from_codes(*_categories(column)))
        else:
            static[name] = pd.Series(_numbers(cells, table, [name], roles, options, {})[:, 0])
    texts: Texts = {}
    return TableRows(
        cells=cells,
        roles=roles,
        ids=ids,
        codes=codes,
        dates=dates.to_numpy("datetime64[ns]"),
        values=_numbers(cells, table, roles.values, roles, options, texts),
        future=_numbers(cells, table, roles.future, roles, options, texts),
        static=static,
        utc_offset=utc_offset,
        unit="ns" if unit == "ns" else "us",
        texts=texts,
        booleans=frozenset(name for name in roles.numbers if pa.types.is_boolean(table[name].type)),
    )


def _dates(
    cells: Cells, column: pa.ChunkedArray, name: str, options: ReadOptions, codes: Int32[np.ndarray, " rows"]
) -> tuple[pd.DatetimeIndex, UtcOffset]:
    """Return the dates of a column of texts or dates, and their UTC offset."""
    kind = column.type
    if is_text(kind):
        frame = column.to_pandas().astype(str).to_frame(name)
        return read_dates(Cells(cells.path, frame, first_line=0, unit="row"), name, options, codes)
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        raise DataError(f"{cells.path}: column {quote(name)} is {describe_type(kind)}, not dates")
    try:
        dates = _copy(column, pa.timestamp("ns"), np.empty(len(column), dtype="datetime64[ns]"))
    except pa.ArrowInvalid:
        raise DataError(f"{cells.path}: column {quote(name)} has dates before 1678 or after 2261") from None
    zone = kind.tz if pa.types.is_timestamp(kind) else None
    read = pd.DatetimeIndex(dates)
    if zone is not None:
        read = read.tz_localize("UTC").tz_convert(options.timezone or zone)
    return place_in_time(cells, name, *without_zone(read), options, codes)


def _numbers(
    cells: Cells,
    table: pa.Table,
    names: Sequence[str],
    roles: ColumnRoles,
    options: ReadOptions,
    texts: Texts,
) -> Float64[np.ndarray, "rows columns"]:
    """Return columns as numbers. Covariates may be text: then as codes, and `texts` receives their categories."""
    read = np.empty((table.num_rows, len(names)))
    for i, name in enumerate(names):
        kind = table[name].type
        if name in roles.covariates and is_text(kind):
            read[:, i] = convert_texts(cells, name, *_categories(table[name]), options, texts)
            continue
        if name in roles.covariates and pa.types.is_dictionary(kind):  # pandas' categories of numbers
            read[:, i], categories = _categories(table[name])
            texts[name] = categories.tolist()
            continue
        if not (is_number(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)):
            raise _refuse_column(cells, table, name, roles)
        column = table[name] if not pa.types.is_boolean(kind) else table[name].cast(pa.int8())
        _copy(column, pa.float64(), read[:, i])
        read[:, i] = options.blank(read[:, i])
    return read


def _refuse_column(cells: Cells, table: pa.Table, name: str, roles: ColumnRoles) -> DataError:
    """The error of a table of which the column `name` should have numbers and has none."""
    texts = [other for other in roles.targets or () if is_text(table[other].type)]
    if roles.target in texts:
        numbers = [field.name for field in table.schema if is_number(field.type)]
        return refuse_text_as_target(cells.path, roles, numbers)
    drop, covariates = " (data.drop)", COVARIATES
    if cells.path == FRAME:
        drop, covariates = "", COVARIATES.replace("data.", "")
    what = f"column {quote(name)} is {describe_type(table[name].type)}, not numbers"
    advice = f": leave it out{drop}, or make it a covariate ({covariates})"
    error = DataError(f"{cells.path}: {what}", advice)
    return TextColumns(error, texts) if name in texts else error


def _copy(column: pa.ChunkedArray, kind: pa.DataType, into: np.ndarray) -> np.ndarray:
    """Fill an array with a column, chunk by chunk: casting the whole column would need as much memory again."""
    row, safe = 0, pa.types.is_timestamp(kind)
    for chunk in column.chunks:
        into[row : row + len(chunk)] = chunk.cast(kind, safe=safe).to_numpy(zero_copy_only=False)
        row += len(chunk)
    return into


def _categories(column: pa.ChunkedArray) -> Ids:
    """Return the code of each row, −1 if missing, and the text of each code."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    chunks = encoded.unify_dictionaries().chunks
    codes = [pc.fill_null(chunk.indices, -1).to_numpy().astype(np.int32) for chunk in chunks]
    names = pd.Index(chunks[0].dictionary.to_pandas().astype(str), dtype=str)
    return np.concatenate(codes), names


def describe_type(kind: pa.DataType) -> str:
    """The type of a column in a message: text, or Arrow's name."""
    return "text" if is_text(kind) else str(kind)


def is_number(kind: pa.DataType) -> bool:
    """Return whether a column is of numbers, whole or not."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column is of strings, dictionary-encoded or not."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
