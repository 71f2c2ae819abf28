"""The order of rows that a conversion needs, and advice on how to sort a file that memory need not hold."""

import numpy as np

from forecast.data.files.long_tables import describe_ids, find_id_columns
from forecast.data.files.table_rows import TableRows
from forecast.data.files.text import quote
from forecast.data.store.chunks import Chunks
from forecast.data.store.series_progress import SeriesProgress
from forecast.system.arguments import write_setting
from forecast.system.errors import RowOrderError


def refuse_interleaved(rows: TableRows, known: SeriesProgress, chunks: Chunks) -> None:
    """Raise DataError for the first row whose series is above it, with rows of another series between them."""
    begins = np.flatnonzero(np.diff(rows.codes, prepend=-1))
    series = rows.ids[rows.codes[begins]]
    again = series.duplicated() | (series.isin(known.ids) & (series != known.open_id))
    if again.any():
        row = int(begins[int(again.argmax())])
        advice = advise_sorting(rows, chunks)
        raise rows.error(
            f"rows of other series lie between this row and those of its series above: {advice}",
            row,
            rows.roles.id,
        )


def advise_on_order(error: RowOrderError, rows: TableRows, chunks: Chunks) -> str:
    """Advice on a row out of order, or that repeats a date, with settings that the conversion has."""
    if ids := find_id_columns(rows.cells, rows.roles):
        setting = write_setting("data.id_column", ids[0] if len(ids) == 1 else ids)
        return f"{describe_ids(ids)}: set {setting}"
    return error.advice if error.repeats else advise_sorting(rows, chunks)


def advise_sorting(rows: TableRows, chunks: Chunks) -> str:
    """Advice on how to sort the file by series and date: a command, where there is one."""
    keys = rows.roles.keys
    command = chunks.sort_command(rows, keys)
    how = f", with {command}" if command else ""
    data = "csv data.sort=true" if rows.roles.id is None else "long"
    advice = f"sort the file by {' and '.join(keys)} first{how}, or train in memory (data={data})"
    if rows.roles.id is None and rows.texts:
        name = next(iter(rows.texts))
        advice += f"; if {quote(name)} names series, set data.id_column={name}"
    return advice
