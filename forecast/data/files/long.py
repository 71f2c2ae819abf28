"""Reading of long tables (`unique_id, ds, y`, covariates; one row per series and date): CSV, Parquet, DataFrame."""

import difflib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float64

from forecast.data.files.arrow import is_text, rows_from_arrow
from forecast.data.files.cells import MISSING, Cells, quote, read_cells, read_numbers
from forecast.data.files.dates import dates_and_clock
from forecast.data.files.long_rows import Columns, LongRows
from forecast.system.errors import DataError

PARQUET = (".parquet", ".pq")


def read_long(
    path: str | Path,
    columns: Columns,
    *,
    date_format: str | None = None,
    separator: str = ",",
    decimal: str = ".",
    thousands: str | None = None,
) -> LongRows:
    """Read a CSV file (also compressed), a Parquet file (.parquet, .pq), or a folder of Parquet files.

    Raises:
        DataError: a column is missing, an id is empty, or a number or date cannot be parsed.
    """
    path = Path(path).expanduser()
    if path.suffix not in PARQUET and not path.is_dir():
        cells = read_cells(
            path,
            date_column=columns.date,
            separator=separator,
            decimal=decimal,
            text_columns=(columns.id, *columns.static),
        )
        return _from_cells(cells, columns, date_format, decimal, thousands)
    wanted = [columns.id, columns.date, *columns.numbers, *columns.static]
    try:
        schema = pq.read_schema(next(path.rglob("*.parquet")) if path.is_dir() else path)
        _check_names(str(path), schema.names, wanted)
        text = [name for name in wanted if is_text(schema.field(name).type) and name != columns.date]
        table = pq.read_table(path, columns=wanted, read_dictionary=text)
    except (OSError, pa.ArrowException, StopIteration) as error:
        reason = (isinstance(error, OSError) and error.strerror) or " ".join(str(error).split())
        raise DataError(f"{path}: cannot be read as Parquet: {reason or 'no such files in it'}") from None
    return rows_from_arrow(Cells(path, pd.DataFrame(), first_line=0, unit="row"), table, columns, date_format)


def read_long_frame(frame: pd.DataFrame, columns: Columns) -> LongRows:
    """Read a long table from a DataFrame. Ids and dates may be its index. Messages count rows from 0."""
    if columns.id in frame.index.names or columns.date in frame.index.names:
        frame = frame.reset_index()
    wanted = [columns.id, columns.date, *columns.numbers, *columns.static]
    _check_names("the DataFrame", list(map(str, frame.columns)), wanted)
    try:
        table = pa.Table.from_pandas(frame.rename(columns=str)[wanted], preserve_index=False)
    except pa.ArrowException as error:
        raise DataError(f"the DataFrame: {' '.join(str(error).split())}") from None
    return rows_from_arrow(
        Cells(Path("the DataFrame"), pd.DataFrame(), first_line=0, unit="row"), table, columns, None
    )


def read_static(
    path: str | Path,
    id_column: str,
    names: Sequence[str],
    *,
    separator: str = ",",
    decimal: str = ".",
    thousands: str | None = None,
) -> pd.DataFrame:
    """Read a file of static covariates: one row per series with its id. Raises DataError for a repeated id."""
    path = Path(path).expanduser()
    if path.suffix in PARQUET:
        try:
            frame = pd.read_parquet(path)
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{path}: cannot be read as Parquet: {' '.join(str(error).split())}") from None
    else:
        cells = read_cells(
            path,
            date_column=id_column,
            separator=separator,
            decimal=decimal,
            text_columns=(id_column, *names),
        )
        _check_names(str(path), list(cells.frame.columns), [id_column, *names])
        columns = {name: _numbers_or_texts(cells, name, decimal, thousands) for name in names}
        frame = pd.DataFrame({id_column: cells.frame[id_column].str.strip(), **columns})
    _check_names(str(path), list(frame.columns), [id_column, *names])
    frame = pd.DataFrame(frame.astype({id_column: str}).set_index(id_column)[list(names)])
    if not frame.index.is_unique:
        twice = quote(frame.index[frame.index.duplicated()][0])
        raise DataError(f"{path}: series {twice} appears twice: keep one row per series")
    return frame


def _from_cells(
    cells: Cells, columns: Columns, date_format: str | None, decimal: str, thousands: str | None
) -> LongRows:
    wanted = [columns.id, columns.date, *columns.numbers, *columns.static]
    _check_names(str(cells.path), list(cells.frame.columns), wanted)
    texts = cells.frame[columns.id].str.strip()
    empty = texts.isna().to_numpy()
    if empty.any():
        raise cells.refuse("no id", row=int(empty.argmax()), column=columns.id)
    codes, ids = pd.factorize(texts)
    dates, clock = dates_and_clock(cells, columns.date, date_format)

    def numbers(names: Sequence[str]) -> Float64[np.ndarray, "rows columns"]:
        read = [read_numbers(cells, name, decimal=decimal, thousands=thousands) for name in names]
        return np.stack(read, axis=1) if read else np.empty((len(codes), 0))

    static: dict[str, Any] = {}
    for name in columns.static:
        column = _numbers_or_texts(cells, name, decimal, thousands)
        static[name] = column if column.dtype.kind == "f" else column.astype("category")
    return LongRows(
        cells, columns, pd.Index(ids, dtype=str), codes.astype(np.int32), dates.to_numpy("datetime64[ns]"),
        numbers(columns.values), numbers(columns.known), static, clock,
    )  # fmt: skip


def _numbers_or_texts(cells: Cells, name: str, decimal: str, thousands: str | None) -> pd.Series:
    """Convert a text column to float64 if all its cells are numbers or missing, else return it unchanged."""
    column = cells.frame[name]
    numbers = replace(cells, frame=pd.DataFrame({name: column.mask(column.isin(MISSING))}))
    try:
        return pd.Series(read_numbers(numbers, name, decimal=decimal, thousands=thousands))
    except DataError:
        return pd.Series(column)


def _check_names(where: str, present: Sequence[str], wanted: Sequence[str]) -> None:
    for name in wanted:
        if name not in present:
            near = difflib.get_close_matches(name, present, n=1)
            hint = f"; did you mean {quote(near[0])}?" if near else ""
            shown = ", ".join(map(quote, present[:12])) + (", ..." if len(present) > 12 else "")
            raise DataError(
                f"{where}: no column {quote(name)}; there are {shown}{hint} (data.id_column, data.date_column, "
                "data.target and the covariates say which to read, data.static_path a file of the static ones)"
            )
