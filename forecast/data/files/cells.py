"""Cells of a table: columns of texts or typed values, and their numbers."""

import io
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64

from forecast.data.files.header import Header, refuse_names
from forecast.data.files.read_options import ReadOptions
from forecast.data.files.text import BOOLEANS, MISSING, SIGNED_DIGITS, SIGNS_ALIKE, find_part, quote
from forecast.system.errors import DataError, TooFewRows
from forecast.system.formatting import write_setting
from forecast.system.location import Location

_FAR = 30  # ratio of whole numbers to fractions above which the dots of the fractions may separate thousands
_MANY = 100  # fractions of which, without zeros at their ends, hardly all have three decimals
FRAME = Path("the DataFrame")  # stands for the file in messages about a DataFrame
FUTURE = Path("future")  # likewise, about one of the steps after its end


@dataclass(frozen=True)
class Cells:
    """Columns of cells by name, of rows from line `first_line` on, without the lines `skipped`, which ascend.

    Melted rows repeat `n_lines` lines for each step.
    """

    path: Location
    frame: pd.DataFrame
    first_line: int = 2
    unit: str = "line"
    n_lines: int | None = None
    skipped: tuple[int, ...] = ()

    def number(self, row: int) -> int:
        """Return the number of the line of a row."""
        row = row if self.n_lines is None else row % self.n_lines
        rows_above = np.asarray(self.skipped, dtype=np.int64) - self.first_line - np.arange(len(self.skipped))
        return self.first_line + row + int(np.searchsorted(rows_above, row, side="right"))

    def line(self, row: int) -> str:
        """The line of a row in words, such as "line 7"."""
        return f"{self.unit} {self.number(row)}"

    def error(self, message: str, advice: str = "", *, row: int | None = None, column: str | None = None) -> DataError:
        """A DataError whose message begins with the file, the line and the column."""
        where = [str(self.path)]
        if row is not None:
            where.append(self.line(row))
        if column is not None:
            where.append(f"column {quote(column)}")
        return DataError(f"{', '.join(where)}: {message}", advice)


DateColumn = str | Sequence[str]
"""Value of `data.date_column`: one column, or several, such as a date and a time."""


def date_name(date_column: DateColumn) -> str:
    """The name of the date column in the cells that were read."""
    return date_column if isinstance(date_column, str) else " ".join(map(str, date_column))


def parse_cells(
    path: Location,
    raw: bytes,
    header: Header,
    date_column: DateColumn,
    options: ReadOptions,
    text_columns: Sequence[str] = (),
    first_line: int | None = None,
) -> Cells:
    """Parse text: the `header` of `path`, followed by its lines from `first_line` on.

    Dates and `text_columns` stay text. Other columns become numbers if all their cells are numbers. NA, null and the
    other texts of `MISSING` are missing values, except in `text_columns`. Several date columns, such as a date and a
    time, are joined with a space and named by `date_name`.

    Raises DataError without rows, and for lines of different lengths and a column name that is missing.
    """
    dated = [date_column] if isinstance(date_column, str) else list(date_column)
    if len(dated) > 1 and (len(set(dated)) < len(dated) or date_name(dated) in header.names):
        given = f"data.date_column={dated}"
        raise DataError(f"{path}: {given} must name columns, each once, and together no other")
    for name in dated:
        if name not in header.names:
            raise refuse_names(path, header, raw, name, options)
    first_line = first_line or header.line + header.n_lines
    texts = [header.names.index(name) for name in (*dated, *text_columns) if name in header.names]
    if b"\n " in raw or b"\n\t" in raw:  # lines of spaces or tabs, which pandas takes for missing values
        raw = re.sub(rb"(?<=\n)[ \t]+(?=\r?\n|\Z)", b"", raw)
    read = partial(_read_csv, raw, header, options, **_missing(header, text_columns, options))
    try:
        frame = _parse(read, texts)
    except pd.errors.ParserError as error:
        raise DataError(f"{path}{_explain(str(error), above=first_line - header.n_lines - 1)}") from None
    except pd.errors.ParserWarning:
        two = f"lines {header.line} and {header.line + 1}"
        raise DataError(f"{path}: lines of more fields than {two}: correct them") from None
    cells = Cells(path, frame, first_line)
    if options.decimal is None and options.thousands is None:
        _refuse_unclear_dots(cells, header, read)
    # the rows of a file without dates are counted, also those without a value
    are_missing = header.width == 1 or (options.start is not None and not options.melt)
    cells = _drop_empty_lines(cells, texts, are_missing=are_missing)
    return replace(cells, frame=_name_columns(path, cells.frame, header, dated))


def _parse(read: Callable[..., pd.DataFrame], texts: list[int]) -> pd.DataFrame:
    """Parse the lines below the header into columns numbered from 0; those with a number in `texts` stay text."""
    try:
        frame = read()
    except pd.errors.EmptyDataError:
        return pd.DataFrame()
    if all(isinstance(frame[number].dtype, pd.StringDtype) for number in texts):
        return frame
    # an id such as 007 and a date such as 20240501 must stay text; parsing as text takes three times as long
    return read(dtype=dict.fromkeys(texts, str))


def read_columns(raw: bytes, header: Header, names: Sequence[str], options: ReadOptions) -> pd.DataFrame:
    """Parse some columns of text, without lines that have no value there, and without the checks of `parse_cells`."""
    numbers = [header.names.index(name) for name in names]
    frame = _read_csv(raw, header, options, usecols=numbers, **_missing(header, (), options))
    return pd.DataFrame(frame[numbers]).set_axis([*names], axis=1).dropna(how="all")


def _read_csv(raw: bytes, header: Header, options: ReadOptions, **chosen: Any) -> pd.DataFrame:
    """Parse the lines below the header with further arguments of `pd.read_csv`.

    A column without a type gets the type that fits all its cells.
    """
    with warnings.catch_warnings(action="error", category=pd.errors.ParserWarning):
        return pd.read_csv(
            io.BytesIO(raw),
            sep=r"\s+" if options.separator == " " else options.separator,
            decimal=options.decimal_sign,
            header=0 if header.n_lines else None,
            names=list(range(header.width)),
            index_col=False,
            skip_blank_lines=False,  # so that rows keep the numbers of their lines
            low_memory=False,
            **chosen,
        )


def _refuse_unclear_dots(cells: Cells, header: Header, read: Callable[..., pd.DataFrame]) -> None:
    """Raise DataError for a column such as 987, 1.002, 995, unless another column shows that dots precede decimals.

    Of a column such as 1.002, 1.995 alone, it warns beside dates such as 31.12.2023.
    """
    frame = cells.frame
    floats = [number for number in frame if frame[number].dtype.kind == "f"]
    first_cells = frame.head(1).to_numpy().ravel()
    dotted_dates = any(re.match(r"\d{1,2}\.\d{1,2}\.\d{4}", str(cell)) for cell in first_cells)
    unclear = [one for one in floats if _may_have_thousands(frame[one].to_numpy(), all_large=dotted_dates)]
    if not unclear:
        return
    advice = "set data.thousands=. data.decimal=, or data.decimal=."
    texts = read(dtype=dict.fromkeys(floats, str))[floats].fillna("")
    grouped = texts.apply(lambda column: column.str.fullmatch(r"\s*[-+]?[1-9]\d{0,2}\.\d{3}\s*"))
    dotted = texts.apply(lambda column: column.str.contains(".", regex=False))
    if (dotted & ~grouped).to_numpy().any():
        return
    for number in unclear:
        wholes = texts[number][~dotted[number] & (frame[number].abs() >= 100)]
        if len(wholes):  # else, every large number is written with a dot
            row = int(dotted[number].to_numpy().argmax())  # type: ignore[reportAttributeAccessIssue]
            both = f"{quote(texts[number].iloc[row])} beside {quote(wholes.iloc[0])}"  # type: ignore[attr-defined]
            problem, column = f"{both}: the dot may separate thousands or decimals", header.all_names[number]
            raise cells.error(problem, f": {advice}", row=row, column=column)
    if dotted_dates:
        where = f"{cells.path}, column {quote(header.all_names[unclear[0]])}"
        doubt = "dots are read as decimal points, and may separate thousands"
        warnings.warn(f"{where}: {doubt}: {advice}", stacklevel=4)


def _may_have_thousands(values: np.ndarray, *, all_large: bool) -> bool:
    """Whether all fractions of a column have at most three decimals, and are many or far below its whole numbers.

    With `all_large`, whole numbers may be absent, as where all numbers are above 1,000.
    """
    sizes = np.abs(values[np.isfinite(values)])
    is_whole = sizes == np.floor(sizes)
    whole, fractions = sizes[is_whole], sizes[~is_whole]
    if not len(fractions) or not 1 <= fractions.min() <= sizes.max() < 1_000:
        return False
    if not np.allclose(1_000 * fractions, np.round(1_000 * fractions), rtol=0, atol=1e-6):
        return False
    if not len(whole) or whole.max() < 100:
        return all_large and len(fractions) >= _MANY
    return len(fractions) >= _MANY or bool(np.median(whole[whole > 0]) > _FAR * np.median(fractions))


def _drop_empty_lines(cells: Cells, texts: list[int], *, are_missing: bool) -> Cells:
    """The rows with a value. Lines without one are skipped, unless they `are_missing` values and stand above others.

    Raises DataError for a line of missing values, and without rows.
    """
    frame = cells.frame
    if len(frame) and texts and not frame.iloc[:, texts[0]].hasnans:  # as in most files
        return cells
    rows = np.flatnonzero(frame.notna().any(axis=1))
    if not len(rows):
        raise TooFewRows(f"{cells.path}: a header and no rows")
    if len(rows) == rows[-1] + 1:
        return replace(cells, frame=frame.iloc[: len(rows)])
    empty = np.setdiff1d(np.arange(rows[-1]), rows)
    if are_missing:
        raise cells.error("a line without a value: delete it", row=int(empty[0]))
    skipped = tuple((empty + cells.first_line).tolist())
    return replace(cells, frame=frame.iloc[rows].reset_index(drop=True), skipped=skipped)


def _name_columns(path: Location, frame: pd.DataFrame, header: Header, dated: list[str]) -> pd.DataFrame:
    """The columns by name, with the date columns joined. Raises DataError for a column of values without a name."""
    names = header.all_names
    for number, name in enumerate(names):
        if not name and frame[number].notna().to_numpy().any():
            field = f"{path}, line {header.line}: field {number + 1}"
            raise DataError(f"{field} has values and no name: name or delete it")
    named = [number for number, name in enumerate(names) if name]
    frame = frame.iloc[:, named].set_axis([names[number] for number in named], axis=1)
    if len(dated) > 1:
        texts = [_mark_periods(name, frame.pop(name)) for name in dated]
        frame.insert(0, date_name(dated), texts[0].str.cat(texts[1:], sep=" "))
    return frame


def _mark_periods(name: str, texts: pd.Series) -> pd.Series:
    """A column of a part of the dates; the numbers of quarters as Q1 to Q4, and of weeks as W1 to W53."""
    sign, texts = {"quarter": "Q", "week": "W"}.get(find_part(name) or ""), texts.str.strip()
    return texts if sign is None else sign + texts.str.upper().str.removeprefix(sign)


def _missing(header: Header, text_columns: Sequence[str], options: ReadOptions) -> dict[str, Any]:
    """Return pandas' options for missing values. In text columns, where NA may be Namibia, only empty cells are."""
    if not text_columns:
        return {"na_values": options.na_texts}
    words = [[""] if name in text_columns else [*MISSING, *options.na_texts] for name in header.all_names]
    return {"keep_default_na": False, "na_values": dict(enumerate(words))}


def _explain(error: str, above: int) -> str:
    """Translate a parser error of pandas; the parsed text lacks `above` lines of the file."""
    if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", error):
        expected, line, saw = found.groups()
        return f", line {int(line) + above}: {saw} fields, where the lines above have {expected}: correct it"
    if found := re.search(r"EOF inside string starting at row (\d+)", error):
        return f", line {int(found[1]) + 1 + above}: a quote is opened and never closed"
    return f": not a CSV file: {' '.join(error.split())}"


def are_numbers(column: pd.Series) -> bool:
    """Whether a column has a type of numbers or booleans."""
    return not isinstance(column.dtype, pd.CategoricalDtype) and column.dtype.kind in "iufb"


Numbers = Float64[np.ndarray, " rows"]


def read_numbers(cells: Cells, name: str, options: ReadOptions) -> Numbers:
    """Return a column as numbers, NaN where they are missing; `BOOLEANS` are 1 and 0, in any case.

    Raises DataError for the first cell that is not a number. The thousands separator must separate groups: 1,234 is a
    number with it, and 1,5 is not.
    """
    column = pd.Series(cells.frame[name])
    if are_numbers(column):
        return options.blank(column.to_numpy(dtype=np.float64, na_value=np.nan))
    texts = column.astype("string")
    plain = texts.str.strip()
    lower = plain.str.lower()
    if lower.dropna().isin(list(BOOLEANS)).all():
        return lower.map(BOOLEANS).to_numpy(dtype=np.float64, na_value=np.nan)
    numbers = parse_numbers(plain, options.decimal_sign, options.thousands)
    bad = np.isnan(numbers) & texts.notna().to_numpy()
    if not bad.any():
        return options.blank(numbers)
    row = int(bad.argmax())
    problem = f"{quote(texts.iloc[row])} is not a number"
    raise cells.error(problem, _advise_on_number(str(plain.iloc[row]), options), row=row, column=name)


def _advise_on_number(text: str, options: ReadOptions) -> str:
    """Advice on a cell that is no number: the signs that make it one, if it consists of digits and signs."""
    given = re.sub(r"[-+\d]", "", text)
    if not given or not re.fullmatch(SIGNED_DIGITS, text):
        return ": correct it, or name it in data.na_values if it is a missing value"
    signs = [next((sign for sign, alike in SIGNS_ALIKE.items() if one in alike), one) for one in given]
    if signs[0] != signs[-1]:
        choices = [{"thousands": signs[0], "decimal": signs[-1]}]
    else:
        may_group = signs[0] not in ".," or re.fullmatch(r"[-+]?\d{1,3}(\D\d{3})+", text)
        choices = [{"thousands": signs[0]}] if may_group else []
        choices += [{"decimal": signs[0]}] if len(signs) == 1 and signs[0] in ".," else []
    now = {"thousands": options.thousands, "decimal": options.decimal_sign}
    typed = [
        " ".join(write_setting(f"data.{key}", sign) for key, sign in choice.items() if sign != now[key])
        for choice in choices
    ]
    return f": set {' or '.join(filter(None, typed))}" if any(typed) else ": correct it"


def parse_numbers(texts: pd.Series, decimal: str, thousands: str | None) -> Numbers:
    """Numbers of texts without spaces around them; NaN for those that are none."""
    if thousands is not None:
        sign = f"[{re.escape(SIGNS_ALIKE.get(thousands, thousands))}]"
        # groups of three, or of two before the last (1,23,456, as in India)
        whole, rest = rf"[-+]?\d{{1,3}}(?:{sign}\d{{2,3}})*{sign}\d{{3}}", rf"(?:{re.escape(decimal)}\d*)?"
        grouped = texts.str.fullmatch(whole + rest)
        texts = texts.mask(grouped, texts.str.replace(sign, "", regex=True))
    if decimal != ".":
        texts = texts.mask(texts.str.contains(".", regex=False)).str.replace(decimal, ".", regex=False)
    return pd.Series(pd.to_numeric(texts, errors="coerce")).to_numpy(dtype=np.float64, na_value=np.nan)
