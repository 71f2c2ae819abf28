"""Columns of a file that look like dates."""

import csv
import io
import re
import warnings
from collections.abc import Sequence
from itertools import islice

from pandas.tseries.api import guess_datetime_format

from forecast.data.files.date_formats import has_short_year
from forecast.data.files.text import quote
from forecast.system.errors import DataError
from forecast.system.location import Location

DEFAULT_NAMES = ("date", "ds")
"""Names of the date column where the user gives none."""

_SAMPLED, _HEAD = 50, 1 << 20
"""Cells of a column, and bytes of a file, that are looked at."""

_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(\D.*)?|.*[A-Za-z]{3}.*\d.*")


def choose_date_column(path: Location, wanted: str, present: Sequence[str], dates: Sequence[str]) -> str:
    """The date column: `wanted`, or if that is a default name and missing, the only one of `dates`, with a warning.

    Raises DataError if there are several.
    """
    if wanted not in DEFAULT_NAMES or wanted in present or not dates:
        return wanted
    if len(dates) > 1:
        raise DataError(
            f"{path}: no column {quote(wanted)}, and several look like dates: set data.date_column to one of "
            f"{', '.join(dates)}"
        )
    warnings.warn(
        f"{path}: no column {quote(wanted)}: {quote(dates[0])} looks like dates and is used (data.date_column)",
        stacklevel=2,
    )
    return dates[0]


def find_date_columns(raw: bytes, separator: str) -> list[str]:
    """The names of the columns of a CSV file whose first cells look like dates."""
    head = raw[:_HEAD].decode(errors="ignore")
    records = csv.reader(io.StringIO(head, newline=""), delimiter=separator)
    try:
        rows = list(islice(records, _SAMPLED + 1))
    except csv.Error:  # of a field too long
        return []
    if any(map(_is_date, rows[0])):  # no header
        return []
    if len(head) >= _HEAD:
        rows = rows[:-1]  # which may be cut
    columns = {name.strip(): [row[i] for row in rows[1:] if i < len(row)] for i, name in enumerate(rows[0])}
    return [name for name, cells in columns.items() if name and cells and all(map(_is_date, cells))]


def _is_date(cell: str) -> bool:
    text = cell.strip().replace(" 24:", " 00:")
    if not _DATE.fullmatch(text):
        return False
    with warnings.catch_warnings(action="ignore"):
        return has_short_year(text) or any(
            guess_datetime_format(text, dayfirst=dayfirst) for dayfirst in (False, True)
        )
