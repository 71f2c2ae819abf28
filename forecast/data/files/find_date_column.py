"""Columns of a file that look like dates."""

import warnings
from collections.abc import Sequence

from forecast.data.files.header import Header
from forecast.data.files.header_hints import find_date_columns
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.series_in_rows import refuse_series_in_rows
from forecast.data.files.text import quote
from forecast.system.errors import DataError, Remedy
from forecast.system.location import Location

DEFAULT_NAMES = ("date", "ds")
"""Names of the date column where the user gives none."""


def find_date_column(path: Location, wanted: str, raw: bytes, header: Header, options: ReadOptions) -> str:
    """The date column of a CSV file: `wanted`, or if that is missing, see `choose_date_column`.

    If `options` number the rows (`start`), it is `wanted`. Raises DataError also for a file with one series a row.
    """
    if wanted in header.names:
        return wanted
    refuse_series_in_rows(path, raw, options.separator, header)
    if options.start is not None:
        return wanted
    if len(list(filter(None, header.names))) == 1:  # the separator is another one
        return wanted
    dates = find_date_columns(raw, options, header.names)
    return choose_date_column(path, wanted, header.names, dates)


def choose_date_column(path: Location, wanted: str, present: Sequence[str], dates: Sequence[str]) -> str:
    """The date column: `wanted`, or if that is a default name and missing, the only one of `dates`, with a warning.

    Raises DataError if there are several.
    """
    if wanted not in DEFAULT_NAMES or wanted in present or not dates:
        return wanted
    if len(dates) > 1:
        remedies = [
            Remedy({"date_column": name, "drop": [other for other in dates if other != name]})
            for name in dates
        ]
        problem = f"{path}: no column {quote(wanted)}, and several look like dates ({', '.join(dates)})"
        raise DataError(problem, remedies=remedies)
    warnings.warn(
        f"{path}: no column {quote(wanted)}: {quote(dates[0])} looks like dates and is used (data.date_column)",
        stacklevel=2,
    )
    return dates[0]
