"""Columns of past and future covariates: numbers, or text whose categories are coded."""

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int

from forecast.data.files.cell_numbers import BOOLEANS, read_numbers
from forecast.data.files.cells import Cells, quote
from forecast.data.files.read_options import ReadOptions
from forecast.system.errors import DataError
from forecast.system.formatting import shorten

LIKE_A_NUMBER = r"[^\w.]{0,2}[-+]?[0-9][0-9.,:'\s]*[^\w.]{0,2}"
"""Texts that were probably meant as numbers, such as 98%, €98.50 and 12:30."""

Texts = dict[str, Sequence[str]]
"""By column of text, its categories; the column holds their positions, −1 for an empty cell."""


def read_covariates(
    cells: Cells, names: Sequence[str], options: ReadOptions
) -> tuple[Float64[np.ndarray, "rows columns"], Texts]:
    """Return columns of a CSV file, as numbers or as codes of texts. Raises DataError for a column that mixes both."""
    block, texts = np.empty((len(cells.frame), len(names))), {}
    for i, name in enumerate(names):
        if cells.frame[name].dtype.kind in "iufb":
            block[:, i] = read_numbers(cells, name, options)
        else:
            codes, found = pd.factorize(cells.frame[name].astype("string"))
            block[:, i] = convert_texts(cells, name, codes, pd.Index(found), options, texts)
    return block, texts


def find_booleans(cells: Cells, names: Sequence[str]) -> frozenset[str]:
    """Return the columns of a CSV file that hold true and false alone, not the numbers 1 and 0."""
    found = set()
    for name in names:
        column = cells.frame[name]
        if column.dtype.kind not in "iuf":
            texts = pd.Series(column.dropna().unique()).astype("string").str.strip().str.lower()
            if len(texts) and texts.isin(list(BOOLEANS)).all():
                found.add(name)
    return frozenset(found)


def warn_of_booleans(names: Sequence[str]) -> None:
    """Warn of columns whose numbers are true and false, where other numbers are expected."""
    if names:
        warnings.warn(f"true and false in {shorten(names)} are read as 1 and 0", stacklevel=3)


def convert_texts(
    cells: Cells,
    name: str,
    codes: Int[np.ndarray, " rows"],
    found: pd.Index,
    options: ReadOptions,
    texts: Texts,
) -> Float64[np.ndarray, " rows"]:
    """Return a column of text as numbers if all its texts are numbers, or true and false; else as codes of categories.

    Args:
        cells: for messages.
        codes: of each row, the position of its text in `found`, −1 if it is missing.
        texts: receives the categories.

    Raises:
        DataError: some texts are numbers, or were probably meant as numbers, and others are not.
    """
    plain = pd.Series(found, dtype="string").str.strip()
    plain = plain.mask(plain.isin(["", *options.na_texts]))
    try:
        numbers = read_numbers(replace(cells, frame=pd.DataFrame({name: plain})), name, options)
        return np.append(numbers, np.nan)[codes]
    except DataError:
        is_like_a_number = plain.str.fullmatch(LIKE_A_NUMBER).fillna(False).astype(bool)
    if is_like_a_number.any():
        column = pd.concat([plain, pd.Series([pd.NA], dtype="string")], ignore_index=True).iloc[codes]
        if not is_like_a_number[plain.notna()].all():
            row = int(np.append(~is_like_a_number & plain.notna(), False)[codes].argmax())
            raise cells.error(
                f"{quote(column.iloc[row])} is text, and other cells are numbers, such as "
                f"{quote(plain[is_like_a_number].iloc[0])}: correct it, or write text in every cell",
                row=row, column=name,
            )  # fmt: skip
        read_numbers(replace(cells, frame=column.to_frame(name)), name, options)  # names the first bad cell
    places, categories = pd.factorize(plain)
    texts[name] = categories.astype(str).tolist()
    return np.append(places, -1)[codes].astype(np.float64)
