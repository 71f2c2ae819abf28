"""Reading of tables into rows: CSV files, Parquet files and DataFrames."""

import io
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float64

from forecast.data.files.advice import find_split_dates, refuse
from forecast.data.files.arrow import is_text, rows_from_arrow
from forecast.data.files.cells import FRAME, MISSING, Cells, parse_cells, read_numbers
from forecast.data.files.columns import ColumnRoles, find_booleans, read_covariates, read_ids
from forecast.data.files.date_column import DEFAULT_NAMES, choose_date_column, find_date_column, number_dates
from forecast.data.files.dates import read_dates
from forecast.data.files.header import read_header
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.series_in_rows import melt_series
from forecast.data.files.table_rows import TableRows
from forecast.data.files.text import UNREADABLE, cut_preamble, is_workbook, quote, read_text
from forecast.data.utc_offset import UtcOffset
from forecast.system.errors import ConfigError, DataError
from forecast.system.formatting import write_setting
from forecast.system.location import Location, is_folder, opened

PARQUET = (".parquet", ".pq")

_MAX_HEADER = 1 << 20
"""Bytes of a file in which the end of its first line is looked for."""


def read_file(
    path: Location,
    roles: ColumnRoles,
    date_column: str | Sequence[str],
    options: ReadOptions,
    text: bytes | None = None,
) -> TableRows:
    """Read a CSV file (also compressed), a sheet of an Excel workbook, a Parquet file, or a folder of Parquet files.

    Args:
        text: the text of the file, from `read_text`; None: it is read.

    Raises:
        DataError: a column is missing, an id is empty, or a number or date cannot be parsed.
    """
    if text is None and is_parquet(path):
        if options.melt:
            raise ConfigError(
                "data.melt=true is for CSV files and Excel workbooks: turn a Parquet file with pandas"
            )
        return _read_parquet(path, roles, options)
    if text is None and not holds_text(path):  # numbers in a workbook have no sign that could be misread
        options = replace(options, decimal=options.decimal or ".")
    raw = read_text(path, options) if text is None else text
    if options.skip_rows and _begins_with_header(raw, date_column, options):
        reason = "line 1 names the dates"
        warnings.warn(f"{path}: {reason}: data.skip_rows={options.skip_rows} is not applied", stacklevel=2)
        options = replace(options, skip_rows=None)
    raw = cut_preamble(path, raw, options)
    header = read_header(path, raw, options)
    if options.melt:
        cells, roles = melt_series(path, raw, header, roles, options), replace(roles, drop=())
    else:
        if date_column in DEFAULT_NAMES:
            date_column = find_date_column(path, str(date_column), raw, header, options)
            roles = replace(roles, date=date_column)
        texts = [name for name in (*roles.keys, *roles.static) if name != roles.date]
        dated = date_column if options.start is None else ()
        cells = parse_cells(path, raw, dated, options, texts, header=header)
    cells.warn_of_skipped()
    return rows_from_cells(cells, _resolve(path, roles, list(cells.frame.columns), options), options)


def _begins_with_header(raw: bytes, date_column: str | Sequence[str], options: ReadOptions) -> bool:
    """Whether the first line of a text names the date columns."""
    first = re.split(rb"[\r\n]", raw[:_MAX_HEADER], maxsplit=1)[0].decode(errors="replace")
    names = [name.strip(" \"'") for name in first.split(options.separator)]
    dated = [date_column] if isinstance(date_column, str) else date_column
    return options.given_names is None and bool(dated) and set(dated) <= set(names)


def _resolve(path: Location, roles: ColumnRoles, present: list[str], options: ReadOptions) -> ColumnRoles:
    """The roles with the targets by name. Raises DataError for a column of dates in a file that has `start`."""
    if options.start is None:
        return roles.resolve(str(path), present)
    if roles.date in present:
        raise DataError(
            f"{path}: column {quote(roles.date)} has dates, and data.start={options.start} numbers the rows: leave it "
            f"out, or set {write_setting('data.drop', [roles.date])} and data.date_column=none"
        )
    return roles.resolve(str(path), [*present, roles.date])


def is_parquet(path: Location) -> bool:
    """Return whether a location is a folder, a file with the suffix of Parquet, or a file with its content."""
    return is_folder(path) or path.suffix in PARQUET or _examine(path, lambda file: file.read(4) == b"PAR1")


def holds_text(path: Location) -> bool:
    """Return whether a location is a text file: neither Parquet nor an Excel workbook."""
    return not is_parquet(path) and not _examine(path, is_workbook)


def _examine(path: Location, test: Callable[[io.BufferedIOBase], bool]) -> bool:
    """The result of a test of a file; False if it cannot be opened."""
    try:
        with opened(path) as (file, _):
            return test(file)
    except UNREADABLE:  # the reader of text says why
        return False


def _read_parquet(path: Location, roles: ColumnRoles, options: ReadOptions) -> TableRows:
    try:
        if isinstance(path, Path) and path.is_dir():
            parts = list(path.rglob("*.parquet"))
            if not parts:
                raise DataError(
                    f"{path}: not a file but a folder: give a CSV file, or a folder of .parquet files"
                )
            roles, table = _read_columns_of(path, parts[0], path, roles, options)
        else:
            with opened(path) as (file, _):
                roles, table = _read_columns_of(path, file, file, roles, options)
    except (OSError, pa.ArrowException) as error:
        reason = (isinstance(error, OSError) and error.strerror) or " ".join(str(error).split())
        raise DataError(f"{path}: cannot be read as Parquet: {reason}") from None
    return rows_from_arrow(Cells(path, pd.DataFrame(), first_line=0, unit="row"), table, roles, options)


def _read_columns_of(
    path: Location,
    first: Path | io.BufferedIOBase,
    source: Path | io.BufferedIOBase,
    roles: ColumnRoles,
    options: ReadOptions,
) -> tuple[ColumnRoles, pa.Table]:
    """The roles with the targets by name, and their columns; `first` is a file with the schema of `source`."""
    schema = pq.read_schema(first)
    if options.start is None:
        dates = [
            field.name
            for field in schema
            if pa.types.is_timestamp(field.type) or pa.types.is_date(field.type)
        ]
        roles = replace(roles, date=choose_date_column(path, roles.date, schema.names, dates))
    roles = _resolve(path, roles, schema.names, options)
    columns = [name for name in roles.all if name in schema.names]
    text = [name for name in columns if is_text(schema.field(name).type) and name != roles.date]
    return roles, pq.read_table(source, columns=columns, read_dictionary=text)


def rows_from_frame(frame: pd.DataFrame, roles: ColumnRoles, options: ReadOptions) -> TableRows:
    """Read a DataFrame. Ids and dates may be its index; periods begin at their dates. Messages count rows from 0."""
    where = str(FRAME)
    by_index = set(roles.keys) <= set(frame.index.names)
    if set(roles.keys) & set(frame.index.names):
        frame = frame.reset_index()
    frame = frame.rename(columns=str)
    if not frame.columns.is_unique:
        twice = quote(frame.columns[frame.columns.duplicated()][0])
        raise DataError(f"{where} has two columns {twice}: rename one")
    roles = roles.resolve(where, list(frame.columns))
    if isinstance(frame[roles.date].dtype, pd.PeriodDtype):
        frame = frame.assign(**{roles.date: frame[roles.date].dt.to_timestamp()})
        options = replace(options, stamp="start")
    try:
        table = pa.Table.from_pandas(
            pd.DataFrame(frame[[name for name in roles.all if name in frame]]), preserve_index=False
        )
    except pa.ArrowException as error:
        raise DataError(f"{where}: {' '.join(str(error).split())}") from None
    cells = Cells(FRAME, pd.DataFrame(), first_line=0, unit="row", by_index=by_index)
    return rows_from_arrow(cells, table, roles, options)


def rows_from_cells(cells: Cells, roles: ColumnRoles, options: ReadOptions) -> TableRows:
    """Parse the cells of a CSV file. Raises DataError for the first id, date or number that cannot be parsed."""
    absent = {name: np.nan for name in roles.numbers if name not in cells.frame}
    cells = replace(cells, frame=cells.frame.assign(**absent)) if absent else cells
    codes, ids = read_ids(cells, roles.id_columns)
    if options.start is None:
        try:
            dates, utc_offset = read_dates(cells, roles.date, options, codes)
        except DataError as error:
            if found := find_split_dates(cells, roles):
                what, remedies = found
                raise DataError(f"{error}; {what}", remedies=[*remedies, *error.remedies]) from None
            raise
    else:
        dates, utc_offset = number_dates(codes, options), UtcOffset()
    static = {}
    for name in roles.static:
        column = read_numbers_or_texts(cells, name, options)
        static[name] = column if column.dtype.kind == "f" else column.astype("category")
    targets = read_targets(cells, roles, options)
    past, texts = read_covariates(cells, roles.past, options)
    future, texts_of_future = read_covariates(cells, roles.future, options)
    return TableRows(
        cells=cells,
        roles=roles,
        ids=ids,
        codes=codes,
        dates=dates.to_numpy("datetime64[ns]"),
        values=np.hstack([targets, past]) if roles.past else targets,
        future=future,
        static=static,
        utc_offset=utc_offset,
        unit="ns" if dates.unit == "ns" else "us",
        texts=texts | texts_of_future,
        booleans=find_booleans(cells, roles.numbers),
    )


def read_targets(
    cells: Cells, roles: ColumnRoles, options: ReadOptions
) -> Float64[np.ndarray, "rows n_targets"]:
    """Return the targets as numbers. Raises DataError that names every column with text."""
    names = roles.targets or ()
    if all(cells.frame[name].dtype.kind in "iufb" for name in names):
        return options.blank(np.ascontiguousarray(cells.frame[list(names)].to_numpy(dtype=np.float64)))
    numbers, refused = _parse_targets(cells, roles, options)
    if refused:
        raise refuse(cells, roles, options, refused)
    return np.column_stack(numbers)


def _parse_targets(
    cells: Cells, roles: ColumnRoles, options: ReadOptions
) -> tuple[list[Float64[np.ndarray, " rows"]], dict[str, DataError]]:
    """The targets that can be read as numbers, and the errors of the others by name."""
    numbers, refused = [], {}
    for name in roles.targets or ():
        try:
            numbers.append(read_numbers(cells, name, options))
        except DataError as error:
            refused[name] = error
    return numbers, refused


def read_numbers_or_texts(cells: Cells, name: str, options: ReadOptions) -> pd.Series:
    """Convert a text column to float64 if all its cells are numbers or missing, else return it unchanged."""
    column = cells.frame[name]
    numbers = replace(cells, frame=pd.DataFrame({name: column.mask(column.isin(MISSING))}))
    try:
        return pd.Series(read_numbers(numbers, name, options))
    except DataError:
        return pd.Series(column)
