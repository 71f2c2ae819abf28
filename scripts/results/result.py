"""Cells of a table with their results, and the text of a group of cells in the page."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from forecast.runs.summary import mean_and_std
from results.cells import Cell
from results.store import Row, Store

MISSING = "not run"


@dataclass(frozen=True)
class Result:
    pairs: tuple[tuple[Cell, Row | None], ...]

    @classmethod
    def of(cls, cells: Sequence[Cell], store: Store) -> "Result":
        return cls(tuple((cell, store.row(cell)) for cell in cells))

    def pick(self, **where: Any) -> "Result":
        """Return the cells whose attributes have these values."""
        return Result(
            tuple(
                (cell, row)
                for cell, row in self.pairs
                if all(getattr(cell, name) == value for name, value in where.items())
            )
        )

    def has(self, name: str) -> list[Any]:
        """Return the distinct values of an attribute of the cells, in the order of the table."""
        return list(dict.fromkeys(getattr(cell, name) for cell, _ in self.pairs))

    @property
    def rows(self) -> list[Row]:
        return [row for _, row in self.pairs if row is not None]

    def mean(self, key: str = "mse") -> float:
        """Return the mean over the cells that have run; NaN if none has."""
        return mean_and_std([row[key] for row in self.rows])[0] if self.rows else math.nan

    def text(self, key: str = "mse") -> str:
        """Return mean ± sample standard deviation over the seeds, and their number if some have not run."""
        if not self.rows:
            return MISSING
        mean, deviation = mean_and_std([row[key] for row in self.rows])
        spread = "" if math.isnan(deviation) else f" ± {deviation:.{decimals(mean)}f}"
        ran = len(self.rows)
        few = "" if ran == len(self.pairs) else f" ({ran} seed{'s' * (ran > 1)})"
        return f"{score(mean)}{spread}{few}"


def decimals(value: float) -> int:
    """Return the number of decimals: three, as in papers, or four for small errors."""
    return 3 if value >= 0.1 else 4


def score(value: float) -> str:
    return MISSING if math.isnan(value) else f"{value:.{decimals(value)}f}"


def per_cent(value: float, reference: float) -> str:
    """Return the difference of `value` from the reference in per cent of the reference."""
    if math.isnan(value) or math.isnan(reference):
        return "–"
    return f"{100 * (value / reference - 1):+.1f} %".replace("-", "−")


def emboldened(texts: Sequence[str], values: Sequence[float]) -> list[str]:
    """Return the texts; those whose value is the lowest after rounding are bold."""
    best = min((value for value in values if not math.isnan(value)), default=math.nan)
    return [
        f"**{text}**" if not math.isnan(value) and score(value) == score(best) else text
        for text, value in zip(texts, values, strict=True)
    ]


def mean_over(values: Sequence[float]) -> float:
    """Return the mean; NaN if a value is NaN."""
    return sum(values) / len(values)
