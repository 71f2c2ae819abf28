"""Columns of a file that look like dates."""

import csv
import io
import warnings
from collections.abc import Sequence
from itertools import islice

from forecast.data.files.date_formats import is_date
from forecast.data.files.header import Header
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.series_in_rows import refuse_series_in_rows
from forecast.data.files.text import quote
from forecast.system.arguments import write_setting
from forecast.system.errors import DataError
from forecast.system.location import Location

DEFAULT_NAMES = ("date", "ds")
"""Names of the date column where the user gives none."""

SAMPLED, _HEAD = 50, 1 << 20
"""Cells of a column, and bytes of a file, that are looked at."""


def find_date_column(path: Location, wanted: str, raw: bytes, header: Header, options: ReadOptions) -> str:
    """The date column of a CSV file: `wanted`, or if that is missing, see `choose_date_column`.

    If `options` number the rows (`start`), it is `wanted`. Raises DataError also for a file with one series a row.
    """
    if wanted in header.names:
        return wanted
    refuse_series_in_rows(path, raw, options.separator, header)
    if options.start is not None:
        return wanted
    dates = find_date_columns(raw, options.separator, header.names)
    return choose_date_column(path, wanted, header.names, dates)


def choose_date_column(path: Location, wanted: str, present: Sequence[str], dates: Sequence[str]) -> str:
    """The date column: `wanted`, or if that is a default name and missing, the only one of `dates`, with a warning.

    Raises DataError if there are several.
    """
    if wanted not in DEFAULT_NAMES or wanted in present or not dates:
        return wanted
    if len(dates) > 1:
        settings = [write_setting("data.date_column", dates[0]), write_setting("data.drop", dates[1:])]
        raise DataError(
            f"{path}: no column {quote(wanted)}, and several look like dates ({', '.join(dates)}): set "
            f"{' '.join(settings)}, or choose another of them"
        )
    warnings.warn(
        f"{path}: no column {quote(wanted)}: {quote(dates[0])} looks like dates and is used (data.date_column)",
        stacklevel=2,
    )
    return dates[0]


def find_date_columns(raw: bytes, separator: str, header: Sequence[str]) -> list[str]:
    """The names of the columns of a CSV file whose first cells look like dates.

    Those that repeat fewest cells come first: of days, and of days with times, the latter.
    """
    head = raw[:_HEAD].decode(errors="ignore")
    records = csv.reader(io.StringIO(head, newline=""), delimiter=separator)
    try:
        rows = list(islice(records, SAMPLED + 1))
    except csv.Error:  # of a field too long
        return []
    if any(map(is_date, rows[0])):  # no header
        return []
    if len(head) >= _HEAD:
        rows = rows[:-1]  # which may be cut
    columns = {name: [row[i] for row in rows[1:] if i < len(row)] for i, name in enumerate(header)}
    found = [name for name, cells in columns.items() if name and cells and all(map(is_date, cells))]
    return sorted(found, key=lambda name: -len(set(columns[name])))
