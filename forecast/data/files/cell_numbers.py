"""Columns of cells as numbers."""

import re

import numpy as np
import pandas as pd
from jaxtyping import Float64

from forecast.data.files.cells import COVARIATES, TIME_OF_DAY, Cells, quote
from forecast.data.files.read_options import ReadOptions
from forecast.system.errors import DataError

BOOLEANS = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
"""Texts that are numbers where a column has no others."""


def read_numbers(cells: Cells, name: str, options: ReadOptions) -> Float64[np.ndarray, " rows"]:
    """Return a column as numbers, NaN where they are missing; `BOOLEANS` are 1 and 0, in any case.

    Raises DataError for the first cell that is not a number. The thousands separator must separate groups: 1,234 is a
    number with it, and 1,5 is not.
    """
    column = cells.frame[name]
    if column.dtype.kind in "iufb":
        return options.blank(column.to_numpy(dtype=np.float64))
    texts = column.astype("string")
    plain = texts.str.strip()
    lower = plain.str.lower()
    if lower.dropna().isin(list(BOOLEANS)).all():
        return lower.map(BOOLEANS).to_numpy(dtype=np.float64, na_value=np.nan)
    if options.thousands is not None:
        sign = re.escape(options.thousands)
        # groups of three, or of two before the last (1,23,456, as in India)
        grouped = plain.str.fullmatch(
            rf"[-+]?\d{{1,3}}(?:{sign}\d{{2,3}})*{sign}\d{{3}}(?:{re.escape(options.decimal)}\d*)?"
        )
        plain = plain.mask(grouped, plain.str.replace(options.thousands, "", regex=False))
    if options.decimal != ".":
        plain = plain.mask(plain.str.contains(".", regex=False)).str.replace(
            options.decimal, ".", regex=False
        )
    numbers = pd.Series(pd.to_numeric(plain, errors="coerce")).to_numpy(dtype=np.float64, na_value=np.nan)
    bad = np.isnan(numbers) & texts.notna().to_numpy()
    if bad.any():
        row = int(bad.argmax())
        advice, choice = _advise(texts.iloc[row].strip(), is_text=bool(bad.sum() > texts.notna().sum() / 2))
        error = cells.error(f"{quote(texts.iloc[row])} is not a number{advice}", row=row, column=name)
        raise DataError(error.problem, choice)
    return options.blank(numbers)


def _advise(text: str, *, is_text: bool) -> tuple[str, str]:
    """Return advice on the first cell that is not a number, and on other columns; `is_text`: most cells are not."""
    if re.match(TIME_OF_DAY, text):
        return ": read it with the day: set data.date_column to both, as in data.date_column=[day,time]", ""
    if re.fullmatch(r"[-+]?[0-9][0-9.,'\s]*", text):
        return ": set data.decimal and data.thousands to the signs that the file uses", ""
    if re.fullmatch(r"[^\w.]{0,2}[0-9][0-9.,'\s]*[^\w.]{0,2}", text):
        return ": leave the signs and units out of its cells", ", or choose the number columns (data.columns)"
    if is_text:
        return "", f": leave the column out (data.drop), or read it as a covariate ({COVARIATES})"
    return ": correct it, or name it in data.na_values if it stands for a missing value", ""
