"""A file of static covariates, with one row for each series, or for each store of the series of stores."""

from collections.abc import Sequence

import pandas as pd
import pyarrow as pa

from forecast.data.files.cells import Cells, read_cells
from forecast.data.files.columns import ColumnRoles, name_ids, read_ids, take_parts
from forecast.data.files.read import is_parquet, read_numbers_or_texts
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.text import quote
from forecast.system.errors import DataError
from forecast.system.location import Location, opened


def read_static(
    path: Location, ids: pd.Index, id_columns: tuple[str, ...], names: Sequence[str], options: ReadOptions
) -> pd.DataFrame:
    """Read the static covariates of series, by those of the id columns that their file has.

    Args:
        path: the file.
        ids: of the series.
        id_columns: the columns whose texts the ids join.
        names: the covariates.
        options: how the file is parsed.

    Raises:
        DataError: a column or a series is missing, or a series comes twice.
    """
    cells = _read_cells(path, id_columns, names, options)
    present = tuple(name for name in id_columns if name in cells.frame)
    roles = ColumnRoles(present or id_columns, "", targets=(), static=tuple(names))
    roles.resolve(str(path), list(cells.frame.columns))
    codes, keys = read_ids(cells, present)
    columns = {name: read_numbers_or_texts(cells, name, options).to_numpy() for name in names}
    table = pd.DataFrame(columns, index=keys[codes])
    if not table.index.is_unique:
        twice = quote(table.index[table.index.duplicated()][0])
        raise DataError(f"{path}: {name_ids(present)} {twice} appears twice: keep one row of it")
    wanted = take_parts(ids, id_columns, present)
    lacking = ~wanted.isin(table.index)
    if lacking.any():
        first = quote(wanted[lacking][0])
        raise DataError(f"{path}: no row for {lacking.sum():,} of {len(ids):,} series, such as {first}")
    return table.loc[wanted].set_axis(ids)


def _read_cells(
    path: Location, id_columns: tuple[str, ...], names: Sequence[str], options: ReadOptions
) -> Cells:
    """The cells of a Parquet file or a CSV file; ids are text."""
    if not is_parquet(path):
        return read_cells(path, (), options, [*id_columns, *names])
    try:
        with opened(path) as (file, _):
            frame = pd.read_parquet(file)
            frame = frame.astype(dict.fromkeys({*id_columns} & {*frame}, "string"))
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path}: cannot be read as Parquet: {' '.join(str(error).split())}") from None
    return Cells(path, frame, first_line=0, unit="row")
