"""Columns of numbers and columns of text in a file that is read in chunks."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from jaxtyping import Float64

from forecast.data.files.cell_numbers import BOOLEANS, read_numbers
from forecast.data.files.cells import Cells, quote
from forecast.data.files.covariates import LIKE_A_NUMBER
from forecast.data.files.read_options import ReadOptions
from forecast.system.errors import DataError

MAX_CATEGORIES = 100_000
"""Largest number of texts of a column. They are in memory during the conversion and in every training."""


class LateText(Exception):
    """A column without numbers in the chunks above turns out to be text; its empty cells need another code."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(", ".join(names))
        self.names = names


@dataclass
class ColumnKinds:
    """The kinds of the columns in the chunks read so far, as JSON values.

    Attributes:
        texts: by column of text, its texts in order of appearance. The position of a text is its code.
        numbers: columns in which a number was found. A column of true and false alone is undecided.
        is_begun: whether a chunk was read.
    """

    texts: dict[str, list[str]] = field(default_factory=dict)
    numbers: list[str] = field(default_factory=list)
    is_begun: bool = False

    def find_texts(
        self, cells: Cells, names: Sequence[str], options: ReadOptions, missing: Sequence[str]
    ) -> list[str]:
        """The columns of a chunk that are text; `missing` texts stand for a missing value.

        Raises LateText for one that was not known to be text above.
        """
        found = {name: _kind(cells, name, options, missing) for name in names if name not in self.texts}
        new = [name for name, kind in found.items() if kind == "text" and name not in self.numbers]
        if new and self.is_begun:
            raise LateText(new)
        self.texts |= {name: [] for name in new}
        self.numbers += [n for n, kind in found.items() if kind == "number" and n not in self.numbers]
        self.is_begun = True
        return [name for name in names if name in self.texts]

    def encode(self, cells: Cells, name: str, missing: Sequence[str]) -> Float64[np.ndarray, " rows"]:
        """The codes of a column of text, −1 where a cell is empty. Raises DataError for a number or too many texts."""
        plain, known = strip(pd.Series(cells.frame[name]), missing), self.texts[name]
        numbers = plain.str.fullmatch(LIKE_A_NUMBER).fillna(False).to_numpy(dtype=bool)
        if numbers.any():
            row = int(numbers.argmax())
            other = f", such as {quote(known[0])}" if known else ""
            raise cells.error(
                f"{quote(plain.iloc[row])} is a number, and other cells are text{other}: correct it, or write text in "
                "every cell", row=row, column=name,
            )  # fmt: skip
        joined = pd.Index([*known, *plain.dropna().unique()]).drop_duplicates()
        if len(joined) > MAX_CATEGORIES:
            raise cells.error(
                f"more than {MAX_CATEGORIES:,} different texts: leave the column out (data.drop)", column=name
            )
        self.texts[name] = joined.astype(str).tolist()
        return joined.get_indexer(pd.Index(plain)).astype(np.float64)


def strip(column: pd.Series, missing: Sequence[str]) -> pd.Series:
    """The texts of a column without spaces around them; NA where they are empty or one of `missing`."""
    plain = column.astype("string").str.strip()
    return plain.mask(plain.isin(["", *missing]))


def _kind(cells: Cells, name: str, options: ReadOptions, missing: Sequence[str]) -> str:
    """The type of the cells of a column in a chunk: `number`, `text`, or `undecided`."""
    column = pd.Series(cells.frame[name])
    if isinstance(column.dtype, pd.CategoricalDtype) and column.cat.categories.dtype.kind in "iufb":
        return "text"  # as in memory: numbers that pandas was told are categories
    if column.dtype.kind in "iuf":
        return "undecided" if column.isna().all() else "number"
    plain = strip(column, missing).dropna()
    if plain.str.lower().isin(list(BOOLEANS)).all():
        return "undecided"
    if plain.str.fullmatch(LIKE_A_NUMBER).any():
        return "number"
    try:
        read_numbers(Cells(cells.path, plain.to_frame(name)), name, options)
    except DataError:
        return "text"
    return "number"
