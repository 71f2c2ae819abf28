"""Reading of tables into rows: CSV files, Parquet files and DataFrames."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float64, Int32

from forecast.data.files.arrow import is_text, rows_from_arrow
from forecast.data.files.cells import FRAME, MISSING, Cells, quote, read_cells, read_numbers
from forecast.data.files.covariates import read_covariates
from forecast.data.files.dates import read_dates
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.table_rows import ColumnRoles, TableRows
from forecast.data.files.undated import number_dates
from forecast.data.panel import TABLE_ID
from forecast.system.errors import DataError

PARQUET = (".parquet", ".pq")


def read_file(
    path: Path, roles: ColumnRoles, date_column: str | Sequence[str], options: ReadOptions
) -> TableRows:
    """Read a CSV file (also compressed), a Parquet file (.parquet, .pq), or a folder of Parquet files.

    Raises:
        DataError: a column is missing, an id is empty, or a number or date cannot be parsed.
    """
    if path.suffix in PARQUET or os.path.isdir(path):
        return _read_parquet(path, roles, options)
    texts = (*roles.keys, *roles.static)
    dated = date_column if options.start is None else ()
    cells = read_cells(path, dated, options, [name for name in texts if name != roles.date])
    return rows_from_cells(cells, _resolve(path, roles, list(cells.frame.columns), options), options)


def _resolve(path: Path, roles: ColumnRoles, present: list[str], options: ReadOptions) -> ColumnRoles:
    """The roles with the targets by name. Raises DataError for a column of dates in a file that has `start`."""
    if options.start is None:
        return roles.resolve(str(path), present)
    if roles.date in present:
        raise DataError(
            f"{path}: column {quote(roles.date)} has dates, and data.start={options.start} numbers the rows: leave it "
            f"out, or set data.drop=[{roles.date}] and data.date_column=none"
        )
    return roles.resolve(str(path), [*present, roles.date])


def _read_parquet(path: Path, roles: ColumnRoles, options: ReadOptions) -> TableRows:
    try:
        if path.is_dir() and not any(path.rglob("*.parquet")):
            raise DataError(
                f"{path}: not a file but a folder: give a CSV file, or a folder of .parquet files"
            )
        schema = pq.read_schema(next(path.rglob("*.parquet")) if path.is_dir() else path)
        roles = _resolve(path, roles, schema.names, options)
        names = [name for name in roles.all if name != roles.date]
        text = [name for name in names if is_text(schema.field(name).type)]
        names += [roles.date] if options.start is None else []
        table = pq.read_table(path, columns=names, read_dictionary=text)
    except (OSError, pa.ArrowException) as error:
        reason = (isinstance(error, OSError) and error.strerror) or " ".join(str(error).split())
        raise DataError(f"{path}: cannot be read as Parquet: {reason}") from None
    return rows_from_arrow(Cells(path, pd.DataFrame(), first_line=0, unit="row"), table, roles, options)


def rows_from_frame(frame: pd.DataFrame, roles: ColumnRoles) -> TableRows:
    """Read a DataFrame. Ids and dates may be its index; periods begin at their dates. Messages count rows from 0."""
    where = str(FRAME)
    if set(roles.keys) & set(frame.index.names):
        frame = frame.reset_index()
    frame = frame.rename(columns=str)
    if not frame.columns.is_unique:
        twice = quote(frame.columns[frame.columns.duplicated()][0])
        raise DataError(f"{where} has two columns {twice}: rename one")
    roles = roles.resolve(where, list(frame.columns))
    if isinstance(frame[roles.date].dtype, pd.PeriodDtype):
        frame = frame.assign(**{roles.date: frame[roles.date].dt.to_timestamp()})
    try:
        table = pa.Table.from_pandas(pd.DataFrame(frame[list(roles.all)]), preserve_index=False)
    except pa.ArrowException as error:
        raise DataError(f"{where}: {' '.join(str(error).split())}") from None
    cells = Cells(FRAME, pd.DataFrame(), first_line=0, unit="row")
    return rows_from_arrow(cells, table, roles, ReadOptions())


def read_static(path: Path, id_column: str, names: Sequence[str], options: ReadOptions) -> pd.DataFrame:
    """Read a file of static covariates: one row per series with its id. Raises DataError for a repeated id."""
    roles = ColumnRoles(id_column, id_column, tuple(names))
    if path.suffix in PARQUET:
        try:
            frame = pd.read_parquet(path)
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{path}: cannot be read as Parquet: {' '.join(str(error).split())}") from None
        roles.resolve(str(path), list(frame.columns))
    else:
        cells = read_cells(path, id_column, options, names)
        roles.resolve(str(path), list(cells.frame.columns))
        columns = {name: _numbers_or_texts(cells, name, options) for name in names}
        frame = pd.DataFrame({id_column: cells.frame[id_column].str.strip(), **columns})
    frame = pd.DataFrame(frame.astype({id_column: str}).set_index(id_column)[list(names)])
    if not frame.index.is_unique:
        twice = quote(frame.index[frame.index.duplicated()][0])
        raise DataError(f"{path}: series {twice} appears twice: keep one row per series")
    return frame


def rows_from_cells(cells: Cells, roles: ColumnRoles, options: ReadOptions) -> TableRows:
    """Parse the cells of a CSV file. Raises DataError for the first id, date or number that cannot be parsed."""
    codes, ids = _series(cells, roles.id)
    if options.start is None:
        dates, utc_offset = read_dates(cells, roles.date, options, codes)
    else:
        dates, utc_offset = number_dates(codes, options), None
    static = {}
    for name in roles.static:
        column = _numbers_or_texts(cells, name, options)
        static[name] = column if column.dtype.kind == "f" else column.astype("category")
    targets = read_columns(cells, roles.targets or (), options)
    past, texts = read_covariates(cells, roles.past, options)
    future, texts_of_future = read_covariates(cells, roles.future, options)
    return TableRows(
        cells,
        roles,
        ids,
        codes,
        dates.to_numpy("datetime64[ns]"),
        np.hstack([targets, past]) if roles.past else targets,
        future,
        static,
        utc_offset,
        "ns" if dates.unit == "ns" else "us",
        texts=texts | texts_of_future,
    )


def _series(cells: Cells, id_column: str | None) -> tuple[Int32[np.ndarray, " rows"], pd.Index]:
    """Return the number of the series of each row, and the ids."""
    if id_column is None:
        return np.zeros(len(cells.frame), dtype=np.int32), pd.Index([TABLE_ID])
    texts = cells.frame[id_column].str.strip()
    if texts.isna().any():
        raise cells.refuse("no id", row=int(texts.isna().argmax()), column=id_column)
    codes, ids = pd.factorize(texts)
    return codes.astype(np.int32), pd.Index(ids, dtype=str)


def read_columns(
    cells: Cells, names: Sequence[str], options: ReadOptions
) -> Float64[np.ndarray, "rows columns"]:
    """Return columns as numbers. Raises DataError for the first cell that is not a number."""
    numbers = np.empty((len(cells.frame), len(names)))
    for i, name in enumerate(names):
        numbers[:, i] = read_numbers(cells, name, options)
    return numbers


def _numbers_or_texts(cells: Cells, name: str, options: ReadOptions) -> pd.Series:
    """Convert a text column to float64 if all its cells are numbers or missing, else return it unchanged."""
    column = cells.frame[name]
    numbers = replace(cells, frame=pd.DataFrame({name: column.mask(column.isin(MISSING))}))
    try:
        return pd.Series(read_numbers(numbers, name, options))
    except DataError:
        return pd.Series(column)
