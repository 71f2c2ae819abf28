"""Facts about each column, with notes on unusual ones, and columns of text."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from forecast.data import Panel
from forecast.data.row_ranges import ranges
from forecast.system.formatting import plural, write_setting
from forecast.tools.check.gaps import SplitPart, format_date, number_columns, runs

SENTINEL_COUNT = 3
"""A code for a missing value comes at least this often."""
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
OUTLIER = 10
"""A number is an outlier if it lies more than this many interquartile ranges beyond the quartiles."""
MIN_COUNTED = 10
"""Fewest numbers of a column that counts rows."""
LARGE_DRIFT, DRIFT = 1.0, 0.5
"""Smallest absolute drifts that are noted, in standard deviations of the training rows."""
STUCK = 0.01
"""A run of equal values is noted if it is longer than this fraction of the rows."""
MANY_ZEROS = 0.3
"""Smallest fraction of zeros that is noted."""
LABELS = {"train": "training", "val": "validation", "test": "test"}
"""Names of the splits in notes."""
REPEATS = 3
"""Fewest rows for each value of a part of the date, on average, for a column to be a function of it."""


@dataclass(frozen=True)
class GrossError:
    """A number that is probably an error; all numbers of its series that are not lie from `low` to `high`."""

    series: str  # empty if the source has no ids
    date: pd.Timestamp
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Column:
    """Facts about a column of all series, in original units; missing numbers do not count.

    Attributes:
        missing: missing numbers in rows that have another number.
        zeros: fraction of the numbers that are zero.
        longest_run: rows of the longest run of equal values, which begins at `run_from`, a date and a series.
        stuck: whether this run is longer than a few rows and the fraction `STUCK` of the longest series.
        outliers: numbers more than `OUTLIER` interquartile ranges beyond the quartiles of their series.
        gross_errors: numbers far from all others of their series; the first ones.
        sentinel: a number that is probably a code for a missing value; None: there is no such number.
        counter, calendar: whether it counts the rows of every series, or is a function of a part of the date.
        empty_in: names of the splits in which no series has a number.
        constant, constant_in_training: whether it is constant in every series.
        drift: (mean of the test rows − mean of the training rows) / standard deviation of the training rows, the
            median of the series; NaN if the training rows are constant.
    """

    name: str
    minimum: float = np.nan
    mean: float = np.nan
    maximum: float = np.nan
    missing: int = 0
    zeros: float = 0.0
    longest_run: int = 0
    run_from: str = ""
    stuck: bool = False
    outliers: int = 0
    gross_errors: tuple[GrossError, ...] = ()
    sentinel: float | None = None
    counter: bool = False
    calendar: bool = False
    empty_in: tuple[str, ...] = ()
    constant: bool = False
    constant_in_training: bool = False
    drift: float = np.nan

    @property
    def findings(self) -> list[tuple[str, str]]:
        """What is unusual, the most serious first, each with the reason to leave the column out, or no reason."""
        if np.isnan(self.mean):
            return [("empty", "empty")]
        drop, nothing = write_setting("data.drop", [self.name]), f"no value in {' and '.join(self.empty_in)}"
        drift = abs(self.drift)
        table = [
            (self.counter, f"counts the rows ({drop})", "counts the rows"),
            (
                self.calendar,
                f"follows from the date ({drop})",
                "follows from the date, which the model reads",
            ),
            (self.empty_in, nothing, nothing),
            (self.constant, "constant", "constant"),
            (self.constant_in_training and not self.constant, "constant in training", ""),
            (self.missing, f"{self.missing:,} missing", ""),
            (self.sentinel is not None, f"{self.sentinel or 0:g} looks like a code for a missing value", ""),
            (drift >= DRIFT, "large drift" if drift >= LARGE_DRIFT else "drift", ""),
            (self.outliers, plural(self.outliers, "outlier"), ""),
            (self.stuck, f"one value {self.longest_run:,} times from {self.run_from}", ""),
            (self.zeros >= MANY_ZEROS and not self.constant, f"{self.zeros:.0%} zeros", ""),
        ]
        return [(note, reason) for applies, note, reason in table if applies]

    @property
    def notes(self) -> list[str]:
        return [note for note, _ in self.findings]

    @property
    def useless(self) -> str:
        """Why the column is left out; empty if it is read."""
        return next((reason for _, reason in self.findings if reason), "")


def measure_columns(panel: Panel, parts: Sequence[SplitPart]) -> list[Column]:
    """The facts about each column of numbers."""
    names, values = number_columns(panel)
    series = [slice(*ends) for ends in zip(panel.starts.tolist(), panel.ends.tolist(), strict=True)]
    found = {find_sentinel(column[rows]) for column in values.T for rows in series}
    codes = sorted(code for code in found if code is not None)
    date_parts = number_date_parts(panel.local_dates(np.arange(len(values))))
    has_row = ~np.isnan(values).all(1)
    columns = []
    for name, column in zip(names, values.T, strict=True):
        rows = ranges(panel.starts, panel.ends)
        known = column[rows][~np.isnan(column[rows])]
        if not len(known):
            columns.append(Column(name))
            continue
        ends = float(known.min()), float(known.max())
        sentinel = next((code for code in codes if code in ends), None)  # a code of one column is one in all
        empty_in = [part.name for part in parts if np.isnan(column[ranges(part.first, part.stop)]).all()]
        one = Column(
            name,
            minimum=ends[0],
            mean=float(known.mean()),
            maximum=ends[1],
            missing=int((np.isnan(column) & has_row)[rows].sum()),
            zeros=float((known == 0).mean()),
            sentinel=sentinel,
            calendar=follows_date(column, date_parts),
            empty_in=tuple(LABELS[part] for part in empty_in),
        )
        columns.append(_measure_series(one, column, panel, parts))
    return columns


def _measure_series(
    one: Column, column: Float[np.ndarray, " rows"], panel: Panel, parts: Sequence[SplitPart]
) -> Column:
    """Add the facts that are measured series by series, over the series that have a number."""
    train, test, by_series, errors = parts[0], parts[-1], [], []
    for series, (start, end) in enumerate(zip(panel.starts.tolist(), panel.ends.tolist(), strict=True)):
        values = column[start:end]
        known = values[~np.isnan(values)]
        if not len(known):
            continue
        before, after = (column[part.first[series] : part.stop[series]] for part in (train, test))
        before, after = before[~np.isnan(before)], after[~np.isnan(after)]
        varies = len(before) > 0 and before.min() < before.max()
        length, first = find_longest_run(values)
        low, high, wrong = find_gross_errors(np.where(values == one.sentinel, np.nan, values))
        dates = panel.local_dates(start + np.array(wrong, dtype=np.int64))
        errors += [
            GrossError(str(panel.ids[series]), date, float(values[row]), low, high)
            for row, date in zip(wrong, dates, strict=True)
        ]
        by_series.append({
            "run": length,
            "row": start + first,
            "id": str(panel.ids[series]),
            "outliers": count_outliers(known),
            "counts": is_counter(values),
            "constant": known.min() == known.max(),
            "constant_in_training": len(before) > 0 and not varies,
            "drift": (after.mean() - before.mean()) / before.std() if varies and len(after) else np.nan,
        })  # fmt: skip
    facts = pd.DataFrame(by_series)
    run = facts.loc[facts["run"].idxmax()]
    constant = bool(facts["constant"].all())
    date = format_date(panel.local_dates(np.array([run["row"]]))[0])  # type: ignore[reportArgumentType]
    return replace(
        one,
        longest_run=int(run["run"]),
        run_from=f"{date} in {run['id']}" if run["id"] else date,
        stuck=not constant and run["run"] > max(4, STUCK * panel.lengths.max()),
        outliers=int(facts["outliers"].sum()),  # type: ignore[reportArgumentType]
        gross_errors=tuple(errors[:MAX_GROSS_ERRORS]),
        counter=bool(facts["counts"].all()),
        constant=constant,
        constant_in_training=bool(facts["constant_in_training"].all()),
        drift=float(facts["drift"].median()),  # type: ignore[reportArgumentType]
    )


def find_sentinel(values: Float[np.ndarray, " rows"]) -> float | None:
    """The lowest or highest number if it is a probable code for a missing value, such as −9999.

    It must be a whole number other than 0, or have no other digits than 9 (−99.99), that comes at least
    `SENTINEL_COUNT` times, and must lie farther from all other numbers than these lie from each other.
    """
    known = values[~np.isnan(values)]
    if not len(known):
        return None
    for extreme in (float(known.min()), float(known.max())):
        rest = known[known != extreme]
        is_code = extreme.is_integer() or {*f"{abs(extreme):g}"} == {"9", "."}
        if extreme == 0 or not is_code or not len(rest) or len(known) - len(rest) < SENTINEL_COUNT:
            continue
        distance = min(abs(extreme - rest.min()), abs(extreme - rest.max()))
        if distance > rest.max() - rest.min() > 0:
            return extreme
    return None


def find_gross_errors(values: Float[np.ndarray, " rows"]) -> tuple[float, float, list[int]]:
    """The rows of at most `MAX_GROSS_ERRORS` numbers that lie far from all others; NaN does not count.

    They lie `MIN_DISTANCE` from all others, or are zero and lie `ZERO_DISTANCE` from them.

    Returns:
        The range of the other numbers, and the rows.
    """
    rows = np.flatnonzero(~np.isnan(values))
    if len(rows) < MIN_NUMBERS:
        return np.nan, np.nan, []
    known = values[rows]
    distances = np.abs(known - np.median(known))
    far = np.argpartition(-distances, MAX_GROSS_ERRORS)[: MAX_GROSS_ERRORS + 1]
    far = far[np.argsort(-distances[far], kind="stable")]
    for count in range(MAX_GROSS_ERRORS, 0, -1):
        rest = np.delete(known, far[:count])
        low, high = float(rest.min()), float(rest.max())
        distance = np.maximum(low - known[far[:count]], known[far[:count]] - high).min()
        if high > low and distance > MIN_DISTANCE * (high - low):
            return low, high, sorted(rows[far[:count]].tolist())
    zeros = known == 0
    rest = np.sort(known[~zeros])
    if 0 < zeros.sum() <= MAX_GROSS_ERRORS and rest[0] * rest[-1] > 0:
        distance, extent = np.abs(rest).min(), rest[-1] - rest[0]
        if distance > max(ZERO_DISTANCE * extent, ZERO_GAPS * np.diff(rest).max()):
            return float(rest[0]), float(rest[-1]), rows[zeros].tolist()
    return np.nan, np.nan, []


def find_longest_run(values: Float[np.ndarray, " rows"]) -> tuple[int, int]:
    """Return the length and the first row of the longest run of equal values. A missing value equals no other value."""
    starts, lengths = runs(values[1:] == values[:-1])
    if not len(starts):
        return 1, 0
    longest = int(lengths.argmax())
    return int(lengths[longest]) + 1, int(starts[longest])


def count_outliers(known: Float[np.ndarray, " known"]) -> int:
    """The numbers far beyond the quartiles, see `OUTLIER`; none if the quartiles are equal."""
    low, high = np.quantile(known, (0.25, 0.75))
    reach = OUTLIER * (high - low)
    return int(((known < low - reach) | (known > high + reach)).sum()) if reach > 0 else 0


def is_counter(values: Float[np.ndarray, " rows"]) -> bool:
    """Whether each number is the one before plus 1, as in a column of row numbers.

    After a missing row, the number may be larger by up to the number of steps: rows are numbered before or after some
    are left out.
    """
    rows = np.flatnonzero(~np.isnan(values))
    steps, distances = np.diff(values[rows]), np.diff(rows)
    is_next = (steps >= 1) & (steps <= distances) & (steps == np.round(steps))
    return len(rows) >= MIN_COUNTED and bool(is_next.all())


def number_date_parts(dates: pd.DatetimeIndex) -> list[Int[np.ndarray, " rows"]]:
    """Number the values of each part of the dates, such as the hour and the weekday, from 0 on."""
    names = ("hour", "minute", "day_of_week", "day", "month", "day_of_year", "year")
    parts = [dates.hour * 60 + dates.minute, *(getattr(dates, name) for name in names)]
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
        missing = f"; {self.missing:,} missing" if self.missing else ""
        most = f", most often {self.most_frequent!r} ({self.fraction:.0%})" if self.distinct else ""
        return f"text, {plural(self.distinct, 'value')}{most}{missing}"


def measure_categories(panel: Panel) -> list[CategoryColumn]:
    """The facts about the covariates that are text; of static ones, a cell is that of a series."""
    texts: dict[str, pd.Series] = {}
    for block, names in ((panel.values, panel.columns), (panel.future, panel.future_columns)):
        for number, name in enumerate(names):
            if name in panel.texts and block is not None:
                codes = np.asarray(block)[:, number]
                codes = codes[~np.isnan(codes)].astype(np.int64)  # -1: an empty cell
                texts[name] = pd.Series(np.array([*panel.texts[name], None], dtype=object)[codes])
    texts |= {
        str(name): column
        for name, column in panel.static.items()
        if not pd.api.types.is_numeric_dtype(column.dtype)
    }
    found = []
    for name, column in texts.items():
        counts = column.astype(str)[column.notna()].value_counts()  # type: ignore[reportAttributeAccessIssue]
        filled = int(counts.sum())
        most, count = next(iter(counts.items()), ("", 0))
        missing = len(column) - filled
        found.append(CategoryColumn(name, len(counts), str(most), count / max(filled, 1), missing, filled))
    return found
