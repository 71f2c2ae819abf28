"""Rows of a long table from an Arrow table: Parquet files and DataFrames."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float64, Int32

from forecast.data.files.cells import Cells, quote
from forecast.data.files.dates import dates_and_clock
from forecast.data.files.long_rows import Columns, LongRows
from forecast.data.files.timezone import without_zone
from forecast.system.errors import DataError


def rows_from_arrow(cells: Cells, table: pa.Table, columns: Columns, date_format: str | None) -> LongRows:
    """Convert an Arrow table. Raises DataError for missing ids or dates, and columns of the wrong type."""
    if not table.num_rows:
        raise DataError(f"{cells.path}: no rows")
    id_column, date_column = table[columns.id], table[columns.date]
    for name, column in ((columns.id, id_column), (columns.date, date_column)):
        if column.null_count:
            row = int(column.is_null().to_numpy().argmax())
            raise cells.refuse("no id" if name == columns.id else "no date", row=row, column=name)
    codes, categories = _categories(id_column)
    kind = date_column.type
    if is_text(kind):
        texts = Cells(
            cells.path, date_column.to_pandas().astype(str).to_frame(columns.date), first_line=0, unit="row"
        )
        read, clock = dates_and_clock(texts, columns.date, date_format)
        dates = read.to_numpy("datetime64[ns]")
    elif pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        try:
            dates = _copy(date_column, pa.timestamp("ns"), np.empty(table.num_rows, dtype="datetime64[ns]"))
        except pa.ArrowInvalid:
            raise DataError(
                f"{cells.path}: column {quote(columns.date)} has dates before 1678 or after 2261"
            ) from None
        zone = kind.tz if pa.types.is_timestamp(kind) else None
        read = pd.DatetimeIndex(dates) if zone is None else pd.DatetimeIndex(dates, tz="UTC").tz_convert(zone)
        read, clock = without_zone(cells.path, read)
        dates = read.to_numpy("datetime64[ns]")
    else:
        raise DataError(f"{cells.path}: column {quote(columns.date)} is {kind}, not dates")

    def numbers(names: Sequence[str]) -> Float64[np.ndarray, "rows columns"]:
        read = np.empty((table.num_rows, len(names)))
        for i, name in enumerate(names):
            kind = table[name].type
            if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
                    or pa.types.is_boolean(kind) or pa.types.is_null(kind)):  # fmt: skip
                raise DataError(f"{cells.path}: column {quote(name)} is {kind}, not numbers")
            column = table[name] if not pa.types.is_boolean(kind) else table[name].cast(pa.int8())
            _copy(column, pa.float64(), read[:, i])
        return read

    static: dict[str, pd.Series] = {}
    for name in columns.static:
        column = table[name]
        if is_text(column.type) or pa.types.is_dictionary(column.type):
            static[name] = pd.Series(pd.Categorical.from_codes(*_categories(column)))
        else:
            static[name] = pd.Series(numbers([name])[:, 0])
    return LongRows(
        cells,
        columns,
        categories,
        codes,
        dates,
        numbers(columns.values),
        numbers(columns.known),
        static,
        clock,
    )


def _copy(column: pa.ChunkedArray, kind: pa.DataType, into: np.ndarray) -> np.ndarray:
    """Fill an array with a column, chunk by chunk: casting the whole column would need as much memory again."""
    row, safe = 0, pa.types.is_timestamp(kind)
    for chunk in column.chunks:
        into[row : row + len(chunk)] = chunk.cast(kind, safe=safe).to_numpy(zero_copy_only=False)
        row += len(chunk)
    return into


def _categories(column: pa.ChunkedArray) -> tuple[Int32[np.ndarray, " rows"], pd.Index]:
    """Return the code of each row, −1 if missing, and the text of each code."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    chunks = encoded.unify_dictionaries().chunks
    codes = [pc.fill_null(chunk.indices, -1).to_numpy().astype(np.int32) for chunk in chunks]
    names = pd.Index(chunks[0].dictionary.to_pandas().astype(str), dtype=str)
    return np.concatenate(codes), names


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column is of strings, dictionary-encoded or not."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
