"""The cells of a CSV file: its header checked, its lines of one length, its numbers read."""

import csv
import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64

from forecast.data.textfile import read_text
from forecast.errors import DataError

_MAX_COLUMNS = 100_000

MISSING = [
    "", " ", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
]  # fmt: skip
"""What stands for no value; pandas' own list, which it gives no name."""


@dataclass(frozen=True)
class Cells:
    """One column of cells per name, from the lines of the file that begin at `first_line`."""

    path: Path
    frame: pd.DataFrame
    first_line: int = 2
    unit: str = "line"

    def refuse(self, message: str, *, row: int | None = None, column: str | None = None) -> DataError:
        """The error that says where the file is wrong."""
        where = [str(self.path)]
        if row is not None:
            where.append(f"{self.unit} {row + self.first_line}")
        if column is not None:
            where.append(f"column {quote(column)}")
        return DataError(f"{', '.join(where)}: {message}")


def quote(text: object) -> str:
    """What a file says, fit for one line of a message."""
    shown = repr(str(text))
    return shown if len(shown) <= 60 else f"{shown[:56]}...'"


def read_cells(
    path: Path,
    *,
    date_column: str | Sequence[str],
    separator: str,
    decimal: str,
    text_columns: Sequence[str] = (),
) -> Cells:
    """Read a CSV file, packed or not. Dates and `text_columns` stay text; others become numbers where all cells are.
    NA, null and the like are missing values, save in `text_columns`.

    Several date columns, such as a date and a time, become one of that name (`date_name`), a space between the texts.
    Raises DataError for what is no CSV file: missing, empty, binary, lines of different lengths, names missing or
    given twice.
    """
    return parse_cells(
        path,
        read_text(path),
        date_column=date_column,
        separator=separator,
        decimal=decimal,
        text_columns=text_columns,
    )


def parse_cells(
    path: Path,
    raw: bytes,
    *,
    date_column: str | Sequence[str],
    separator: str,
    decimal: str,
    text_columns: Sequence[str] = (),
    first_line: int | None = None,
) -> Cells:
    """The same from a text: the header of `path`, and below it the file's lines from `first_line` on."""
    dated = [date_column] if isinstance(date_column, str) else list(date_column)
    header, header_lines, width = _read_header(path, raw, separator)
    first_line = first_line or header_lines + 1
    if len(dated) > 1 and (len(set(dated)) < len(dated) or date_name(dated) in header):
        raise DataError(
            f"{path}: data.date_column={dated} must name columns, each once, and together no other"
        )
    for name in dated:
        if name not in header:
            raise DataError(f"{path}: no column {quote(name)} {_names_hint(header, raw, name, separator)}")
    try:
        with warnings.catch_warnings(action="error", category=pd.errors.ParserWarning):
            frame = pd.read_csv(
                io.BytesIO(raw),
                sep=separator,
                decimal=decimal,
                header=None,
                skiprows=1,
                names=list(range(width)),
                index_col=False,
                dtype={header.index(name): str for name in (*dated, *text_columns) if name in header},
                skip_blank_lines=False,  # so that rows keep the numbers of their lines
                low_memory=False,
                **_missing(header, width, text_columns),
            )
    except pd.errors.EmptyDataError:
        frame = pd.DataFrame()
    except pd.errors.ParserError as error:
        raise DataError(f"{path}{_explain(str(error), above=first_line - header_lines - 1)}") from None
    except pd.errors.ParserWarning:
        raise DataError(f"{path}: lines of more fields than lines 1 and 2: correct them") from None
    filled = frame.notna().any(axis=1).to_numpy()
    if not filled.any():
        raise DataError(f"{path}: a header and no rows")
    cells = Cells(path, frame, first_line)
    rows = int(filled.nonzero()[0][-1]) + 1
    if not filled[:rows].all():
        raise cells.refuse("an empty line: delete it", row=int(filled.argmin()))
    columns = {}
    for number, name in enumerate(header + [""] * (width - len(header))):
        column = frame[number].iloc[:rows]
        if name:
            columns[name] = column
        elif column.count():
            raise DataError(f"{path}, line 1: field {number + 1} has values and no name: name or delete it")
    if len(dated) > 1:
        texts = [columns.pop(name) for name in dated]
        columns = {date_name(date_column): texts[0].str.cat(texts[1:], sep=" "), **columns}
    return Cells(path, pd.DataFrame(columns), first_line)


def date_name(date_column: str | Sequence[str]) -> str:
    """What the column of dates is called once it is read."""
    return date_column if isinstance(date_column, str) else " ".join(map(str, date_column))


def _missing(header: list[str], width: int, text_columns: Sequence[str]) -> dict[str, Any]:
    """pandas' options for what stands for nothing: in columns of text, where NA may be Namibia, an empty cell alone."""
    if not text_columns:
        return {}
    names = header + [""] * (width - len(header))
    words = {number: [""] if name in text_columns else MISSING for number, name in enumerate(names)}
    return {"keep_default_na": False, "na_values": words}


def read_numbers(
    cells: Cells, name: str, *, decimal: str, thousands: str | None = None
) -> Float64[np.ndarray, " rows"]:
    """A column as numbers, missing ones NaN. Raises DataError for the first cell that is not a number.

    A sign of thousands must part groups: with it, 1,234 is a number and 1,5 is not.
    """
    column = cells.frame[name]
    if column.dtype.kind in "iuf":
        return column.to_numpy(dtype=np.float64)
    texts = column.astype("string")
    plain = texts.str.strip()
    if thousands is not None:
        sign = re.escape(thousands)
        # groups of three, or of two before the last (1,23,456, as in India)
        grouped = plain.str.fullmatch(
            rf"[-+]?\d{{1,3}}(?:{sign}\d{{2,3}})*{sign}\d{{3}}(?:{re.escape(decimal)}\d*)?"
        )
        plain = plain.mask(grouped, plain.str.replace(thousands, "", regex=False))
    if decimal != ".":
        plain = plain.mask(plain.str.contains(".", regex=False)).str.replace(decimal, ".", regex=False)
    numbers = pd.Series(pd.to_numeric(plain, errors="coerce")).to_numpy(dtype=np.float64, na_value=np.nan)
    bad = np.isnan(numbers) & texts.notna().to_numpy()
    if bad.any():
        row = int(bad.argmax())
        advice = _advice(texts.iloc[row].strip(), name)
        raise cells.refuse(f"{quote(texts.iloc[row])} is not a number: {advice}", row=row, column=name)
    return numbers


def _advice(text: str, name: str) -> str:
    if re.fullmatch(r"[-+]?[0-9][0-9.,'\s]*", text):
        return "set data.decimal and data.thousands to the signs that the file uses"
    if re.fullmatch(r"[0-9]{1,2}:[0-9]{2}.*", text):
        return f"if it is the time of day, set data.date_column=[DATE,{name}], DATE the column of the days"
    if re.fullmatch(r"[^\w.]{0,2}[0-9][0-9.,'\s]*[^\w.]{0,2}", text):
        return "leave the signs and units out of its cells, or choose the number columns (data.columns)"
    return "correct it, or choose the number columns (data.columns)"


def _read_header(path: Path, raw: bytes, separator: str) -> tuple[list[str], int, int]:
    """The names of the header, the lines it takes, and the number of fields in it or the record below, whichever
    is longer.
    """
    begin = 0
    for line in (1, 2):
        end = raw.find(b"\n" if b"\n" in raw else b"\r", begin)
        fields = raw.count(separator.encode(), begin, end if end >= 0 else len(raw)) + 1
        if fields > _MAX_COLUMNS:
            raise DataError(f"{path}, line {line}: {fields:,} columns; at most {_MAX_COLUMNS:,} are read")
        begin = end + 1 if end >= 0 else len(raw)
    records = csv.reader(
        io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8", newline=""), delimiter=separator, strict=True
    )
    line = 1
    try:
        header = [_one_line(name) for name in next(records, [])]
        lines, line = records.line_num, 2
        width = len(next(records, []))
    except csv.Error as error:
        raise DataError(f"{path}, line {line}: {error}: is a quote never closed?") from None
    seen: dict[str, int] = {}
    for number, name in enumerate(header, start=1):
        if not name.isprintable():
            what = f"the name of field {number}, {quote(name)}, has characters that cannot be shown"
            raise DataError(f"{path}, line 1: {what}: rename it")
        if name and name in seen:
            both = f"fields {seen[name]} and {number}"
            raise DataError(f"{path}, line 1: column {quote(name)} appears twice ({both}): rename one")
        seen[name] = number
    return header, lines, max(width, len(header))


def _one_line(name: str) -> str:
    """A column's name without the spaces around it, line ends and hard spaces within it plain spaces."""
    return name.strip() if name.strip().isprintable() else " ".join(name.split())


def _names_hint(header: list[str], raw: bytes, wanted: str, separator: str) -> str:
    if header and header[0][:1] in ("{", "[", "<"):
        return "in line 1, which looks like JSON or HTML: give a CSV file"
    if len(header) == 1:
        if header[0].lower().startswith("sep="):
            return (
                f"in line 1, which names a separator: delete that line and set data.separator={header[0][4:]}"
            )
        for other in ";\t,|":
            if other != separator and other in header[0]:
                return f"in line 1, which looks separated by {other!r}: set data.separator"
    for number, line in enumerate(raw[:65_536].decode(errors="replace").splitlines()[1:], start=2):
        if wanted in [name.strip(" \"'") for name in line.split(separator)]:
            return f"in line 1, but in line {number}: delete the lines above the header"
    names = ", ".join(quote(name) for name in header[:8]) + (", ..." if len(header) > 8 else "")
    return f"in line 1 ({names}): set data.date_column to the name of the dates"


def _explain(error: str, above: int) -> str:
    """pandas' words for a broken line, as ours; so many lines of the file are `above` those it was given."""
    if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", error):
        expected, line, saw = found.groups()
        return f", line {int(line) + above}: {saw} fields, where the lines above have {expected}: correct it"
    if found := re.search(r"EOF inside string starting at row (\d+)", error):
        return f", line {int(found[1]) + 1 + above}: a quote is opened and never closed"
    return f": not a CSV file: {' '.join(error.split())}"
