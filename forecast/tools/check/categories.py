"""Facts about the covariates that are categories."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from forecast.data import Panel


@dataclass(frozen=True)
class CategoryColumn:
    """Facts about a column of text.

    Attributes:
        distinct: number of different texts.
        most_frequent: the text that comes most often, in this fraction of the cells with text; empty if there is none.
        missing, filled: empty cells and cells with text.
    """

    name: str
    distinct: int
    most_frequent: str
    fraction: float
    missing: int
    filled: int

    @property
    def note(self) -> str:
        """The facts in words."""
        if not self.distinct:
            return "text, empty"
        values = "one value" if self.distinct == 1 else f"{self.distinct:,} values"
        missing = f"; {self.missing:,} missing" if self.missing else ""
        return f"text, {values}, most often {self.most_frequent!r} ({self.fraction:.0%}){missing}"


def measure_categories(panel: Panel) -> list[CategoryColumn]:
    """The facts about the covariates that are text; of static ones, a cell is that of a series."""
    found = []
    blocks = [(np.asarray(panel.values), panel.columns), (panel.future, panel.future_columns)]
    for block, names in blocks:
        for number, name in enumerate(names):
            if name in panel.texts and block is not None:
                codes = np.asarray(block)[:, number]
                found.append(_measure(name, panel.texts[name], codes[~np.isnan(codes)]))
    for name, column in panel.static.items():
        if not pd.api.types.is_numeric_dtype(column.dtype):
            codes, texts = pd.factorize(column)
            found.append(_measure(str(name), list(map(str, texts)), codes))
    return found


def _measure(name: str, texts: Sequence[str], codes: np.ndarray) -> CategoryColumn:
    counts = np.bincount(codes[codes >= 0].astype(np.int64), minlength=len(texts))
    most = int(counts.argmax()) if counts.sum() else None
    return CategoryColumn(
        name=name,
        distinct=int((counts > 0).sum()),
        most_frequent="" if most is None else texts[most],
        fraction=0.0 if most is None else float(counts[most] / counts.sum()),
        missing=int((codes < 0).sum()),
        filled=int(counts.sum()),
    )
