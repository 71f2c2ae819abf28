"""The cells of a CSV file: its bytes unpacked and decoded, its header checked, its lines of one length."""

import codecs
import csv
import gzip
import io
import re
import warnings
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float64

from forecast.errors import DataError

_MAX_COLUMNS = 100_000
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True)
class Cells:
    """One column of cells per name, from the lines of the file that begin at `first_line`."""

    path: Path
    frame: pd.DataFrame
    first_line: int = 2

    def refuse(self, message: str, *, row: int | None = None, column: str | None = None) -> DataError:
        """The error that says where the file is wrong."""
        where = [str(self.path)]
        if row is not None:
            where.append(f"line {row + self.first_line}")
        if column is not None:
            where.append(f"column {quote(column)}")
        return DataError(f"{', '.join(where)}: {message}")


def quote(text: object) -> str:
    """What a file says, fit for one line of a message."""
    shown = repr(str(text))
    return shown if len(shown) <= 60 else f"{shown[:56]}...'"


def read_cells(path: Path, *, date_column: str, separator: str, decimal: str, thousands: str | None) -> Cells:
    """Read a CSV file, packed or not. Dates stay text; other columns become numbers where all cells are.

    Raises DataError for what is no CSV file: missing, empty, binary, lines of different lengths, names
    missing or given twice.
    """
    raw = _unpack(path)
    header, width = _read_header(path, raw, separator)
    if date_column not in header:
        raise DataError(f"{path}: no column {quote(date_column)} {_names_hint(header, separator)}")
    try:
        with warnings.catch_warnings(action="error", category=pd.errors.ParserWarning):
            frame = pd.read_csv(
                io.BytesIO(raw),
                sep=separator,
                decimal=decimal,
                thousands=thousands,
                header=None,
                skiprows=1,
                names=list(range(width)),
                index_col=False,
                dtype={header.index(date_column): str},
                skip_blank_lines=False,  # so that rows keep the numbers of their lines
                low_memory=False,
            )
    except pd.errors.EmptyDataError:
        frame = pd.DataFrame()
    except pd.errors.ParserError as error:
        raise DataError(f"{path}{_explain(str(error))}") from None
    except pd.errors.ParserWarning:
        raise DataError(f"{path}: lines of more fields than lines 1 and 2: correct them") from None
    filled = frame.notna().any(axis=1).to_numpy()
    if not filled.any():
        raise DataError(f"{path}: a header and no rows")
    rows = int(filled.nonzero()[0][-1]) + 1
    if not filled[:rows].all():
        raise Cells(path, frame).refuse("an empty line: delete it", row=int(filled.argmin()))
    columns = {}
    for number, name in enumerate(header + [""] * (width - len(header))):
        column = frame.iloc[:rows, number]
        if name:
            columns[name] = column
        elif column.count():
            raise DataError(f"{path}, line 1: field {number + 1} has values and no name: name or delete it")
    return Cells(path, pd.DataFrame(columns))


def read_numbers(
    cells: Cells, name: str, *, decimal: str, thousands: str | None = None
) -> Float64[np.ndarray, " rows"]:
    """A column as numbers, missing ones NaN. Raises DataError for the first cell that is not a number."""
    column = cells.frame[name]
    if column.dtype.kind in "iuf":
        return column.to_numpy(dtype=np.float64)
    texts = column.astype("string")
    plain = texts if thousands is None else texts.str.replace(thousands, "", regex=False)
    plain = plain.str.replace(decimal, ".", regex=False)
    numbers = pd.Series(pd.to_numeric(plain, errors="coerce")).to_numpy(dtype=np.float64, na_value=np.nan)
    bad = np.isnan(numbers) & texts.notna().to_numpy()
    if bad.any():
        row = int(bad.argmax())
        advice = "correct it, or choose the number columns (data.columns)"
        if re.fullmatch(r"\s*[-+]?[\d.,' ]+\s*", texts.iloc[row]):
            advice = "set data.decimal and data.thousands to the signs that the file uses"
        raise cells.refuse(f"{quote(texts.iloc[row])} is not a number: {advice}", row=row, column=name)
    return numbers


def _unpack(path: Path) -> bytes:
    """The file's text as UTF-8, without a byte-order mark."""
    if not path.exists():
        raise DataError(f"{path}: no such file")
    if not path.is_file():
        raise DataError(
            f"{path}: not a file but a {'folder' if path.is_dir() else 'device'}: give a CSV file"
        )
    try:
        raw = _read(path)
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    try:
        raw = raw.decode("utf-16").encode() if raw.startswith(_UTF16) else raw.removeprefix(codecs.BOM_UTF8)
        raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}, line {line}: not text in UTF-8: save the file as UTF-8") from None
    if not raw.strip():
        raise DataError(f"{path}: empty")
    if b"\0" in raw:
        line = raw.count(b"\n", 0, raw.index(b"\0")) + 1
        raise DataError(f"{path}, line {line}: a zero byte: this is no text, or the file is damaged")
    return raw


def _read(path: Path) -> bytes:
    if path.suffix == ".gz":
        with gzip.open(path) as file:
            return file.read()
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            files = [name for name in archive.namelist() if not name.startswith("__MACOSX/")]
            if len(files) != 1:
                raise zipfile.BadZipFile(f"{len(files)} files in it, where one is expected")
            return archive.read(files[0])
    return path.read_bytes()


def _read_header(path: Path, raw: bytes, separator: str) -> tuple[list[str], int]:
    """The names in line 1, and the number of fields in the longer of lines 1 and 2."""
    lines = io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8", newline=None)
    first = lines.readline()
    if first.count(separator) >= _MAX_COLUMNS:
        raise DataError(
            f"{path}, line 1: {first.count(separator) + 1:,} columns; at most {_MAX_COLUMNS:,} are read"
        )
    header = [name.strip() for name in next(csv.reader([first], delimiter=separator), [])]
    for number, name in enumerate(header):
        if name and name in header[:number]:
            both = f"fields {header.index(name) + 1} and {number + 1}"
            raise DataError(f"{path}, line 1: column {quote(name)} appears twice ({both}): rename one")
    width = len(next(csv.reader([lines.readline()], delimiter=separator), []))
    return header, max(width, len(header))


def _names_hint(header: list[str], separator: str) -> str:
    if len(header) == 1:
        for other in ";\t,|":
            if other != separator and other in header[0]:
                return f"in line 1, which looks separated by {other!r}: set data.separator"
    names = ", ".join(quote(name) for name in header[:8]) + (", ..." if len(header) > 8 else "")
    return f"in line 1 ({names}): set data.date_column to the name of the dates"


def _explain(error: str) -> str:
    """pandas' words for a broken line, as ours."""
    if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", error):
        expected, line, saw = found.groups()
        return f", line {line}: {saw} fields, where the lines above have {expected}: correct it"
    if found := re.search(r"EOF inside string starting at row (\d+)", error):
        return f", line {int(found[1]) + 1}: a quote is opened and never closed"
    return f": not a CSV file: {' '.join(error.split())}"
