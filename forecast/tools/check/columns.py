"""Facts about each column, with notes on unusual ones."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from forecast.data import Panel
from forecast.data.row_ranges import ranges
from forecast.system.formatting import write_setting
from forecast.tools.check.gaps import SplitPart, all_columns, all_values, date_at, runs

SENTINEL_COUNT = 3
"""A code for a missing value comes at least this often."""


def find_sentinel(known: Float[np.ndarray, " known"]) -> float | None:
    """The lowest or highest number if it is a probable code for a missing value, such as −9999.

    It must be a whole number other than 0, or have no other digits than 9 (−99.99), that comes at least
    `SENTINEL_COUNT` times, and must lie farther from all other numbers than these lie from each other.
    """
    if not len(known):
        return None
    for extreme in (float(known.min()), float(known.max())):
        rest = known[known != extreme]
        if (
            extreme == 0
            or not len(rest)
            or not (extreme.is_integer() or {*f"{abs(extreme):g}"} == {"9", "."})
            or len(known) - len(rest) < SENTINEL_COUNT
        ):
            continue
        distance = min(abs(extreme - rest.min()), abs(extreme - rest.max()))
        if distance > rest.max() - rest.min() > 0:
            return extreme
    return None


MIN_DISTANCE = 10
"""Least distance of a gross error from the range of the other numbers, in lengths of this range.

The highest spike of the electricity prices that are published as EPF lies 2.6 such lengths away, and it is true.
"""
MAX_GROSS_ERRORS = 3
"""Largest number of gross errors of a series: more of them are no isolated errors."""
ZERO_DISTANCE, ZERO_GAPS = 0.25, 5
"""Least distance of isolated zeros from the other numbers: in lengths of the range of these, and in their largest gap.

Zeros stand for missing values more often than other numbers. The counts 1, 2, 3 and 4 are one gap away from zero.
"""
MIN_NUMBERS = 50
"""Fewest numbers of a series in which gross errors are sought."""


@dataclass(frozen=True)
class GrossError:
    """A number that is probably an error; all numbers of its series that are not lie from `low` to `high`."""

    series: str  # empty if the source has no ids
    date: pd.Timestamp
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Isolated:
    """Rows of a series that hold gross errors; its other numbers lie from `low` to `high`."""

    rows: tuple[int, ...] = ()
    low: float = np.nan
    high: float = np.nan


def find_gross_errors(values: Float[np.ndarray, " rows"]) -> Isolated:
    """The rows of at most `MAX_GROSS_ERRORS` numbers that lie far from all others; NaN does not count.

    They lie `MIN_DISTANCE` from all others, or are zero and lie `ZERO_DISTANCE` from them.
    """
    rows = np.flatnonzero(~np.isnan(values))
    if len(rows) < MIN_NUMBERS:
        return Isolated()
    known = values[rows]
    far = np.argpartition(-np.abs(known - np.median(known)), MAX_GROSS_ERRORS)[: MAX_GROSS_ERRORS + 1]
    far = far[np.argsort(-np.abs(known[far] - np.median(known)), kind="stable")]
    for count in range(MAX_GROSS_ERRORS, 0, -1):
        rest = np.delete(known, far[:count])
        low, high = rest.min(), rest.max()
        distance = np.maximum(low - known[far[:count]], known[far[:count]] - high).min()
        if high > low and distance > MIN_DISTANCE * (high - low):
            return Isolated(tuple(sorted(rows[far[:count]].tolist())), float(low), float(high))
    zeros = known == 0
    rest = np.sort(known[~zeros])
    if 0 < zeros.sum() <= MAX_GROSS_ERRORS and rest[0] * rest[-1] > 0:
        distance, extent = np.abs(rest).min(), rest[-1] - rest[0]
        if distance > max(ZERO_DISTANCE * extent, ZERO_GAPS * np.diff(rest).max()):
            return Isolated(tuple(rows[zeros].tolist()), float(rest[0]), float(rest[-1]))
    return Isolated()


def name_gross_errors(
    panel: Panel, column: Float[np.ndarray, " rows"], by_series: Sequence[Isolated]
) -> tuple[GrossError, ...]:
    """The first `MAX_GROSS_ERRORS` gross errors of a column of all series."""
    found: list[GrossError] = []
    for series, isolated in enumerate(by_series):
        if isolated.rows and len(found) < MAX_GROSS_ERRORS:
            rows = int(panel.starts[series]) + np.array(isolated.rows)
            found += [
                GrossError(str(panel.ids[series]), date, value, isolated.low, isolated.high)
                for date, value in zip(panel.local_dates(rows), column[rows].tolist(), strict=True)
            ]
    return tuple(found[:MAX_GROSS_ERRORS])


OUTLIER = 10
"""A number is an outlier if it lies more than this many interquartile ranges beyond the quartiles."""
MIN_COUNTED = 10
"""Fewest numbers of a column that counts rows."""


@dataclass(frozen=True)
class SeriesColumn:
    """Facts about one column of one series; see `Column`."""

    minimum: float
    maximum: float
    total: float
    known: int
    zeros: int
    missing: int
    leading_missing: int
    leading_zeros: int
    longest_run: int
    run_start: int
    outliers: int
    gross_errors: Isolated
    sentinel: float | None
    counter: bool
    constant: bool
    constant_in_training: bool
    drift: float


def measure_series_column(
    values: Float[np.ndarray, " rows"], has_row: Bool[np.ndarray, " rows"], train: slice, test: slice
) -> SeriesColumn:
    """Return the facts about one column of one series."""
    known = values[~np.isnan(values)]
    before, after = (part[~np.isnan(part)] for part in (values[train], values[test]))
    run, start = find_longest_run(values)
    empty, sentinel = not len(known), find_sentinel(known)
    return SeriesColumn(
        minimum=np.inf if empty else float(known.min()),
        maximum=-np.inf if empty else float(known.max()),
        total=float(known.sum()),
        known=len(known),
        zeros=int((known == 0).sum()),
        missing=int(np.isnan(values[has_row]).sum()),
        leading_missing=_count_leading(np.isnan(values)),
        leading_zeros=_count_leading(values == 0),
        longest_run=run,
        run_start=start,
        outliers=_count_outliers(known),
        gross_errors=find_gross_errors(
            values if sentinel is None else np.where(values == sentinel, np.nan, values)
        ),
        sentinel=sentinel,
        counter=is_counter(values),
        constant=not empty and bool(known.min() == known.max()),
        constant_in_training=len(before) > 0 and bool(before.min() == before.max()),
        drift=_measure_drift(before, after),
    )


def find_longest_run(values: Float[np.ndarray, " rows"]) -> tuple[int, int]:
    """Return the length and the first row of the longest run of equal values. A missing value equals no other value."""
    starts, lengths = runs(values[1:] == values[:-1])
    if not len(starts):
        return 1, 0
    longest = int(lengths.argmax())
    return int(lengths[longest]) + 1, int(starts[longest])


def _count_leading(mask: Bool[np.ndarray, " rows"]) -> int:
    """Rows before the first one where `mask` is false."""
    return len(mask) if mask.all() else int(mask.argmin())


def _count_outliers(known: Float[np.ndarray, " known"]) -> int:
    if not len(known):
        return 0
    low, high = np.quantile(known, (0.25, 0.75))
    reach = OUTLIER * (high - low)
    return int(((known < low - reach) | (known > high + reach)).sum()) if reach > 0 else 0


def _measure_drift(before: Float[np.ndarray, " train"], after: Float[np.ndarray, " test"]) -> float:
    if not len(before) or not len(after) or before.min() == before.max():
        return np.nan
    return float((after.mean() - before.mean()) / before.std())


def numbers_rows(values: Float[np.ndarray, " rows"]) -> bool:
    """Whether a column of all series holds consecutive whole numbers, each once, as one that numbers a long file."""
    known = values[~np.isnan(values)]
    if len(known) < MIN_COUNTED or known.max() - known.min() != len(known) - 1:
        return False
    return bool((np.diff(np.sort(known)) == 1).all())


def is_counter(values: Float[np.ndarray, " rows"]) -> bool:
    """Whether each number is the one before plus 1, as in a column of row numbers.

    After a missing row, the number may be larger by up to the number of steps: rows are numbered before or after some
    are left out.
    """
    rows = np.flatnonzero(~np.isnan(values))
    steps, distances = np.diff(values[rows]), np.diff(rows)
    is_next = (steps >= 1) & (steps <= distances) & (steps == np.round(steps))
    return len(rows) >= MIN_COUNTED and bool(is_next.all())


LARGE_DRIFT, DRIFT = 1.0, 0.5
"""Smallest absolute drifts that are noted, in standard deviations of the training rows."""
STUCK = 0.01
"""A run of equal values is noted if it is longer than this fraction of the rows."""
LABELS = {"train": "training", "val": "validation", "test": "test"}
"""Names of the splits in notes."""
REPEATS = 3
"""Fewest rows for each value of a part of the date, on average, for a column to be a function of it."""
MANY_ZEROS = 0.3
"""Smallest fraction of zeros that is noted."""


@dataclass(frozen=True)
class Column:
    """Facts about a column of all series, in original units; missing numbers do not count.

    Attributes:
        minimum, mean, maximum: NaN in an empty column.
        missing: missing numbers in rows that have another number.
        leading_missing: rows before the first number, the most of any series.
        zeros: fraction of the numbers that are zero.
        leading_zeros: zeros before the first other number, the most of any series.
        longest_run: rows of the longest run of equal values, which begins on the date `run_from` of `series`.
        outliers: numbers more than `series_column.OUTLIER` interquartile ranges beyond the quartiles of their series;
            none if that range is 0.
        gross_errors: numbers far from all others of their series, see `gross_errors`; the first ones.
        sentinel: a number that is probably a code for a missing value; None: there is no such number.
        counter: whether it counts the rows of every series, as 0, 1, 2, ... does, or those of the file.
        calendar: whether it is a function of a part of the date, such as the hour or the weekday.
        empty_in: names of the splits in which no series has a number.
        constant, constant_in_training: whether it is constant in every series.
        drift: (mean of the test rows − mean of the training rows) / standard deviation of the training rows, the
            median of the series; NaN if the training rows are constant.
    """

    name: str
    minimum: float
    mean: float
    maximum: float
    missing: int
    leading_missing: int
    zeros: float
    leading_zeros: int
    longest_run: int
    run_from: pd.Timestamp
    series: str
    outliers: int
    gross_errors: tuple[GrossError, ...]
    sentinel: float | None
    counter: bool
    calendar: bool
    empty_in: tuple[str, ...]
    constant: bool
    constant_in_training: bool
    drift: float

    @property
    def drop(self) -> str:
        """The setting that leaves the column out, as it is typed."""
        return write_setting("data.drop", [self.name])

    def list_notes(self, rows: int) -> list[str]:
        """Return notes on what is unusual, the most serious first; `rows` is the length of the longest series."""
        if np.isnan(self.mean):
            return ["empty"]
        notes = []
        if self.counter:
            notes.append(f"counts the rows ({self.drop})")
        if self.calendar and not self.constant:
            notes.append(f"follows from the date ({self.drop})")
        if self.empty_in:
            notes.append(f"no value in {' and '.join(self.empty_in)}")
        if self.constant:
            notes.append("constant")
        elif self.constant_in_training:
            notes.append("constant in training")
        if self.missing:
            notes.append(f"{self.missing:,} missing")
        if self.sentinel is not None:
            notes.append(f"{self.sentinel:g} looks like a code for a missing value")
        if abs(self.drift) >= DRIFT:
            notes.append("large drift" if abs(self.drift) >= LARGE_DRIFT else "drift")
        if self.outliers:
            notes.append(f"{self.outliers:,} outlier{'s' * (self.outliers > 1)}")
        if not self.constant:
            if self.leading_zeros > max(2, STUCK * rows):
                notes.append(f"begins with {self.leading_zeros:,} zeros")
            elif self.longest_run > max(4, STUCK * rows):
                where = f" in {self.series}" if self.series else ""
                notes.append(f"one value {self.longest_run:,} times from {format_date(self.run_from)}{where}")
            if self.zeros >= MANY_ZEROS:
                notes.append(f"{self.zeros:.0%} zeros")
        return notes


def format_date(date: pd.Timestamp) -> str:
    """Format a date, with the time and the seconds only if they are not zero."""
    if date == date.normalize():
        return f"{date:%Y-%m-%d}"
    return f"{date:%Y-%m-%d %H:%M}" if date == date.floor("min") else str(date)


def measure_columns(
    panel: Panel, parts: Sequence[SplitPart]
) -> tuple[list[Column], list[list[SeriesColumn]]]:
    """Return the facts about each column, and about each column of each series (columns, series)."""
    names, values = all_columns(panel), all_values(panel)
    has_row = np.logical_or.reduce(~np.isnan(values), axis=1)
    train, test = parts[0], parts[-1]
    borders = [
        each.tolist() for each in (panel.starts, panel.ends, train.first, train.stop, test.first, test.stop)
    ]
    by_series = []
    for column in values.T:
        by_series.append([
            measure_series_column(
                column[start:end],
                has_row[start:end],
                slice(train_first - start, train_last - start),
                slice(test_first - start, test_last - start),
            )
            for start, end, train_first, train_last, test_first, test_last in zip(*borders, strict=True)
        ])  # fmt: skip
    columns, parts_of_dates = [], number_date_parts(panel.local_dates(np.arange(len(values))))
    for name, column, each in zip(names, values.T, by_series, strict=True):
        is_empty = {part.name: np.isnan(column[ranges(part.first, part.stop)]).all() for part in parts}
        empty_in = tuple(LABELS[part] for part, empty in is_empty.items() if empty)
        columns.append(pool_series(name, column, each, panel, empty_in, follows_date(column, parts_of_dates)))
    return share_sentinels(columns), by_series


def number_date_parts(dates: pd.DatetimeIndex) -> list[Int[np.ndarray, " rows"]]:
    """Number the values of each part of the dates, such as the hour and the weekday, from 0 on."""
    minutes = dates.hour * 60 + dates.minute
    parts = (
        dates.hour,
        dates.minute,
        minutes,
        dates.day_of_week,
        dates.day,
        dates.month,
        dates.day_of_year,
        dates.year,
    )
    return [np.unique(part, return_inverse=True)[1] for part in parts]


def follows_date(
    column: Float[np.ndarray, " rows"], parts_of_dates: Sequence[Int[np.ndarray, " rows"]]
) -> bool:
    """Whether a column is a function of a part of the date that has few values: one for every `REPEATS` rows.

    Args:
        parts_of_dates: see `number_date_parts`.
    """
    known = ~np.isnan(column)
    values = column[known]
    if not len(values) or values.min() == values.max():
        return False
    for part in parts_of_dates:
        groups = part[known]
        value_of_group = np.empty(int(part.max()) + 1)
        value_of_group[groups] = values
        if len(value_of_group) * REPEATS <= len(values) and np.array_equal(value_of_group[groups], values):
            return True
    return False


def share_sentinels(columns: Sequence[Column]) -> list[Column]:
    """Take the code for missing values of one column for that of every column whose lowest or highest number it is."""
    codes = {column.sentinel for column in columns} - {None}
    shared = []
    for column in columns:
        code = next((code for code in codes if code in (column.minimum, column.maximum)), None)
        gross_errors = tuple(error for error in column.gross_errors if error.value != code)
        shared.append(replace(column, sentinel=code, gross_errors=gross_errors))
    return shared


def pool_series(
    name: str,
    column: Float[np.ndarray, " rows"],
    by_series: Sequence[SeriesColumn],
    panel: Panel,
    empty_in: tuple[str, ...],
    calendar: bool,
) -> Column:
    """Combine the facts about one column of all series."""
    known = sum(each.known for each in by_series)
    filled = [each for each in by_series if each.known]
    stuck = max(range(len(by_series)), key=lambda series: by_series[series].longest_run)
    row = int(panel.starts[stuck]) + by_series[stuck].run_start
    drifts = [each.drift for each in by_series if not np.isnan(each.drift)]
    return Column(
        name=name,
        minimum=min(each.minimum for each in by_series) if known else np.nan,
        mean=sum(each.total for each in by_series) / known if known else np.nan,
        maximum=max(each.maximum for each in by_series) if known else np.nan,
        missing=sum(each.missing for each in by_series),
        leading_missing=max(each.leading_missing for each in by_series),
        zeros=sum(each.zeros for each in by_series) / known if known else 0.0,
        leading_zeros=max(each.leading_zeros for each in by_series),
        longest_run=by_series[stuck].longest_run,
        run_from=date_at(panel.local_dates(np.array([row])), 0),
        series=str(panel.ids[stuck]),
        outliers=sum(each.outliers for each in by_series),
        gross_errors=name_gross_errors(panel, column, [each.gross_errors for each in by_series]),
        sentinel=next((each.sentinel for each in by_series if each.sentinel is not None), None),
        counter=known > 0 and (all(each.counter for each in filled) or numbers_rows(column)),
        calendar=calendar,
        empty_in=empty_in,
        constant=known > 0 and all(each.constant for each in filled),
        constant_in_training=known > 0 and all(each.constant_in_training for each in filled),
        drift=float(np.median(drifts)) if drifts else np.nan,
    )
