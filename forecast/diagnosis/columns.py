"""What each column holds, and what is odd about it."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from forecast.data.table import UnfilledTable
from forecast.diagnosis.gaps import date_at, runs

OUTLIER = 10  # interquartile ranges beyond the quartiles
LARGE_DRIFT, DRIFT = 1.0, 0.5  # training deviations
STUCK = 0.01  # share of the rows in one run of equal values
MANY_ZEROS = 0.3


@dataclass(frozen=True)
class Column:
    """Facts in the data's units, of the numbers that the file has; NaN in an empty column.

    drift: (mean of the test rows − mean of the training rows) / deviation of the training rows; NaN where that is 0.
    """

    name: str
    minimum: float
    mean: float
    maximum: float
    missing: int
    leading_missing: int  # rows before the first number
    zeros: float  # share
    leading_zeros: int
    longest_run: int  # rows of one value
    run_from: pd.Timestamp
    outliers: int  # beyond OUTLIER interquartile ranges; 0 where that range is 0
    constant: bool
    constant_in_training: bool
    drift: float

    def notes(self, rows: int) -> list[str]:
        """What an engineer should know of it, the gravest first."""
        if np.isnan(self.mean):
            return ["empty"]
        notes = []
        if self.constant:
            notes.append("constant")
        elif self.constant_in_training:
            notes.append("constant in training")
        if self.missing:
            notes.append(f"{self.missing:,} missing")
        if abs(self.drift) >= DRIFT:
            notes.append("large drift" if abs(self.drift) >= LARGE_DRIFT else "drift")
        if self.outliers:
            notes.append(f"{self.outliers:,} outlier{'s' * (self.outliers > 1)}")
        if not self.constant:
            if self.leading_zeros > max(2, STUCK * rows):
                notes.append(f"begins with {self.leading_zeros:,} zeros")
            elif self.longest_run > max(4, STUCK * rows):
                notes.append(f"one value {self.longest_run:,} times from {day(self.run_from)}")
            if self.zeros >= MANY_ZEROS:
                notes.append(f"{self.zeros:.0%} zeros")
        return notes


def day(date: pd.Timestamp) -> str:
    """A date, with its time and its seconds only where they say something."""
    if date == date.normalize():
        return f"{date:%Y-%m-%d}"
    return f"{date:%Y-%m-%d %H:%M}" if date == date.floor("min") else str(date)


def describe_columns(table: UnfilledTable, train: range, test: range) -> list[Column]:
    return [_describe(table, number, train, test) for number in range(len(table.columns))]


def _describe(table: UnfilledTable, number: int, train: range, test: range) -> Column:
    values = table.values[:, number]
    known = values[~np.isnan(values)]
    before, after = (part[~np.isnan(part)] for part in (values[_of(train)], values[_of(test)]))
    run, start = longest_run(values)
    empty = not len(known)
    return Column(
        name=table.columns[number],
        minimum=np.nan if empty else float(known.min()),
        mean=np.nan if empty else float(known.mean()),
        maximum=np.nan if empty else float(known.max()),
        missing=int(np.isnan(values[table.in_file]).sum()),
        leading_missing=_leading(np.isnan(values)),
        zeros=0.0 if empty else float((known == 0).mean()),
        leading_zeros=_leading(values == 0),
        longest_run=run,
        run_from=date_at(table.dates, start),
        outliers=_outliers(known),
        constant=not empty and bool(known.min() == known.max()),
        constant_in_training=len(before) > 0 and bool(before.min() == before.max()),
        drift=_drift(before, after),
    )


def _of(rows: range) -> slice:
    return slice(rows.start, rows.stop)


def longest_run(values: Float[np.ndarray, " rows"]) -> tuple[int, int]:
    """Rows in the longest run of equal values, and its first row; a missing value equals nothing."""
    starts, lengths = runs(values[1:] == values[:-1])
    if not len(starts):
        return 1, 0
    longest = int(lengths.argmax())
    return int(lengths[longest]) + 1, int(starts[longest])


def _leading(mask: Bool[np.ndarray, " rows"]) -> int:
    """Rows before the first where `mask` is false."""
    return len(mask) if mask.all() else int(mask.argmin())


def _outliers(known: Float[np.ndarray, " known"]) -> int:
    if not len(known):
        return 0
    low, high = np.quantile(known, (0.25, 0.75))
    reach = OUTLIER * (high - low)
    return int(((known < low - reach) | (known > high + reach)).sum()) if reach > 0 else 0


def _drift(before: Float[np.ndarray, " train"], after: Float[np.ndarray, " test"]) -> float:
    if not len(before) or not len(after) or before.min() == before.max():
        return np.nan
    return float((after.mean() - before.mean()) / before.std())
