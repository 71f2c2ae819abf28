"""A sheet of an Excel workbook as the text of a CSV file, so that it is checked and parsed in the same way."""

import csv
import io
import warnings
import zipfile
from datetime import datetime, time

from forecast.data.files.read_options import ReadOptions
from forecast.system.errors import DataError, NotInstalled
from forecast.system.location import Location
from forecast.system.memory import available

_MEMORY_PER_BYTE = 2
"""Bytes of memory that reading a sheet needs per byte of its XML."""


def sheet_as_csv(location: Location, file: io.BufferedIOBase, options: ReadOptions) -> bytes:
    """The rows of a sheet as lines of CSV in UTF-8, with the separator and the decimal sign of `options`.

    The sheet is `options.sheet`; None: the only one. Row n of the sheet is line n. Formulas count as the values that
    Excel saved with them.

    Raises:
        DataError: there is no such sheet, there are several, or the workbook is damaged or too large.
        NotInstalled: openpyxl is not installed.
    """
    try:
        import openpyxl
    except ModuleNotFoundError:
        raise NotInstalled(f"{location}, an Excel workbook", "excel", "openpyxl") from None
    _check_size(location, file)
    try:
        with warnings.catch_warnings(action="ignore"):  # of styles and extensions, which do not matter here
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            sheet = book[_choose(location, book.sheetnames, options.sheet)]
            text = io.StringIO()
            writer = csv.writer(text, delimiter=options.separator, lineterminator="\n")
            for row in sheet.iter_rows(values_only=True):
                writer.writerow([_write(value, options.decimal_sign) for value in row])
    except DataError:
        raise
    except Exception as error:  # whatever a damaged part of the XML causes
        reason = " ".join(str(error).split())
        raise DataError(f"{location}: cannot be read as an Excel workbook: {reason}") from None
    return text.getvalue().encode()


def _choose(location: Location, sheets: list[str], wanted: str | None) -> str:
    names = ", ".join(sheets)
    if wanted is not None:
        if str(wanted) not in sheets:
            raise DataError(f"{location}: no sheet {str(wanted)!r} (data.sheet); there are {names}")
        return str(wanted)
    if len(sheets) != 1:
        raise DataError(f"{location}: {len(sheets)} sheets: set data.sheet to one of {names}")
    return sheets[0]


def _write(value: object, decimal: str) -> str:
    """A cell as text: numbers with the decimal sign of the options, dates in ISO 8601."""
    if value is None:
        return ""
    if isinstance(value, datetime | time):
        return str(value)
    if isinstance(value, float):
        return (str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)).replace(
            ".", decimal
        )
    return str(value)


def _check_size(location: Location, file: io.BufferedIOBase) -> None:
    """Raise DataError for a workbook that unpacks to more than fits into memory."""
    with zipfile.ZipFile(file) as archive:
        needed = _MEMORY_PER_BYTE * sum(member.file_size for member in archive.infolist())
    file.seek(0)
    if needed > available():
        raise DataError(
            f"{location}: needs some {needed / 2**30:,.1f} GiB of memory, and {available() / 2**30:,.1f} GiB are free"
        )
