"""Columns of cells as numbers."""

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float64

from forecast.data.files.cells import COVARIATES, TIME_OF_DAY, Cells, quote
from forecast.data.files.read_options import ReadOptions
from forecast.system.errors import DataError, Remedy

BOOLEANS = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
"""Texts that are numbers where a column has no others."""

_SIGNS_ALIKE = {" ": " \xa0\u2009\u202f", "'": "'\u2019"}
"""By thousands separator, the characters that are read as it: kinds of spaces and of apostrophes."""

_SIGNS = f".,{''.join(_SIGNS_ALIKE.values())}"


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
    decimal = options.decimal_sign
    if options.thousands is not None:
        sign = f"[{re.escape(_SIGNS_ALIKE.get(options.thousands, options.thousands))}]"
        # groups of three, or of two before the last (1,23,456, as in India)
        grouped = plain.str.fullmatch(
            rf"[-+]?\d{{1,3}}(?:{sign}\d{{2,3}})*{sign}\d{{3}}(?:{re.escape(decimal)}\d*)?"
        )
        plain = plain.mask(grouped, plain.str.replace(sign, "", regex=True))
    if decimal != ".":
        plain = plain.mask(plain.str.contains(".", regex=False)).str.replace(decimal, ".", regex=False)
    numbers = pd.Series(pd.to_numeric(plain, errors="coerce")).to_numpy(dtype=np.float64, na_value=np.nan)
    bad = np.isnan(numbers) & texts.notna().to_numpy()
    if bad.any():
        row = int(bad.argmax())
        text = texts.iloc[row]
        error = cells.error(f"{quote(text)} is not a number", row=row, column=name)
        if re.fullmatch(rf"[-+]?\d[\d{_SIGNS}]*", text.strip()):
            remedies = propose_signs([texts], options)
            raise DataError(error.problem, remedies=remedies, fallback=": correct it")
        advice, choice = _advise(text.strip(), is_text=bool(bad.sum() > texts.notna().sum() / 2))
        raise DataError(error.problem + advice, choice, joint=", or " if advice else ": ")
    return options.blank(numbers)


def propose_signs(columns: Sequence[pd.Series], options: ReadOptions) -> list[Remedy]:
    """The decimal signs and thousands separators that columns of texts may have, which hold numbers at least."""
    texts = pd.concat([column.dropna().astype("string").str.strip() for column in columns])
    numbers = texts[texts.str.fullmatch(rf"[-+]?\d[\d{_SIGNS}]*")]
    present = [sign for sign in ",. '" if numbers.str.contains(f"[{_SIGNS_ALIKE.get(sign, sign)}]").any()]
    pairs = []
    for thousands in (*present, None):
        usual = options.decimal_sign if options.decimal_sign != thousands else {".": ",", ",": "."}[thousands]
        decimals = dict.fromkeys([usual, *(sign for sign in present if sign in ".," and sign != thousands)])
        pairs += [(decimal, thousands) for decimal in decimals if {decimal, thousands} >= {*present}]
    now = {"decimal": options.decimal_sign, "thousands": options.thousands}
    remedies = []
    for decimal, thousands in pairs:
        changed = {"decimal": decimal, "thousands": thousands}
        settings = {key: value for key, value in changed.items() if value != now[key]}
        if settings:
            remedies.append(Remedy(settings))
    return remedies


def _advise(text: str, *, is_text: bool) -> tuple[str, str]:
    """Return advice on the first cell that is not a number, and on other columns; `is_text`: most cells are not."""
    if re.match(TIME_OF_DAY, text):
        return ": read it with the day: set data.date_column to both, as in data.date_column=[day,time]", ""
    if re.fullmatch(rf"[^\w.]{{0,2}}\d[\d{_SIGNS}]*[^\w.]{{0,2}}", text):
        return ": leave the signs and units out of its cells", ", or choose the number columns (data.columns)"
    if is_text:
        return "", f": leave the column out (data.drop), or read it as a covariate ({COVARIATES})"
    return ": correct it", ""
